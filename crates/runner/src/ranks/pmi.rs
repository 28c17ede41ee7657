//! The wire protocol of process managers, PMI-1: lines of `key=value` on a descriptor that the launcher passes on. MPICH's Hydra
//! and Slurm's `--mpi=pmi2` speak it (MPICH, `src/pmi/simple`; Slurm, `src/plugins/mpi/pmi2/pmi1.c`).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Longer answers are not PMI's.
const LINE_MAX: usize = 1 << 16;
/// Slurm reads lines of up to 1024 bytes, whatever length of values it says.
const VALUE_MAX: usize = 800;
/// Between two checks whether the wait is to end.
const TICK: Duration = Duration::from_millis(100);
/// A barrier that takes longer than this, of the time that it may take, is one in which ranks may be missing.
const LONG: Duration = Duration::from_secs(5);

/// A connection to the process manager.
pub(super) struct Pmi {
    stream: UnixStream,
    /// What was read behind the last line.
    unread: Vec<u8>,
    kvs: String,
    /// The longest value that it stores, in bytes.
    pub value_max: usize,
}

/// Why a wait for the others ended without them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// They did not answer in time: who, if that is known.
    Silent(Option<String>),
    /// A signal came here.
    Cancelled(&'static str),
    /// One ended without a result: which, and why, as far as this rank knows.
    Ended(String),
    /// The process manager closed the connection, or answered what is not PMI.
    Manager(String),
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Silent(who) => {
                write!(f, "no answer from {}", who.as_deref().unwrap_or("the other ranks"))
            }
            Self::Cancelled(why) => f.write_str(why),
            Self::Ended(why) => f.write_str(why),
            Self::Manager(why) => write!(f, "process manager: {why}"),
        }
    }
}

impl Lost {
    /// Who is lost, if that is known.
    pub fn who(&self) -> Option<&str> {
        if let Self::Silent(who) = self { who.as_deref() } else { None }
    }
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Self::Manager(error.to_string())
    }
}

/// How long to wait, and what ends the wait before that.
pub(super) struct Wait<'a> {
    pub time: Duration,
    pub stop: &'a dyn Fn() -> Option<&'static str>,
}

impl Pmi {
    pub fn begin(stream: UnixStream, wait: &Wait) -> Result<Self, Lost> {
        let mut pmi = Self { stream, unread: Vec::new(), kvs: String::new(), value_max: 0 };
        let init = "cmd=init pmi_version=1 pmi_subversion=1";
        pmi.ask(init, "response_to_init", wait)?;
        let maxes = pmi.ask("cmd=get_maxes", "maxes", wait)?;
        let most = field(&maxes, "vallen_max").and_then(|most| most.parse::<usize>().ok());
        // The limit may count the end of a string.
        let most = most.filter(|most| *most > 1).ok_or_else(|| unexpected(&maxes))?;
        pmi.value_max = VALUE_MAX.min(most - 1);
        let own = pmi.ask("cmd=get_my_kvsname", "my_kvsname", wait)?;
        pmi.kvs = field(&own, "kvsname").ok_or_else(|| unexpected(&own))?.to_string();
        Ok(pmi)
    }

    /// Stores a value, without white space, that others see after the next barrier.
    pub fn put(&mut self, key: &str, value: &str, wait: &Wait) -> Result<(), Lost> {
        let line = format!("cmd=put kvsname={} key={key} value={value}", self.kvs);
        self.ask(&line, "put_result", wait).map(|_| ())
    }

    pub fn get(&mut self, key: &str, wait: &Wait) -> Result<String, Lost> {
        let line = format!("cmd=get kvsname={} key={key}", self.kvs);
        let answer = self.ask(&line, "get_result", wait)?;
        let value = answer.split_once("value=").map(|(_, value)| value.trim_end().to_string());
        value.ok_or_else(|| unexpected(&answer))
    }

    /// Waits, without using a CPU, until all ranks do. If that takes long, publishes `name`, so that rank 0 knows who is here:
    /// values are not visible before all are.
    pub fn barrier(&mut self, name: &str, wait: &Wait) -> Result<(), Lost> {
        self.say("cmd=barrier_in")?;
        let early = LONG.min(wait.time / 2);
        match self.answer("barrier_out", &Wait { time: early, stop: wait.stop }) {
            Err(Lost::Silent(_)) => {}
            answer => return answer.map(|_| ()),
        }
        self.say(&format!("cmd=publish_name service={name} port=0"))?;
        self.answer("barrier_out", &Wait { time: wait.time - early, stop: wait.stop }).map(|_| ())
    }

    /// Whether a rank has published `name`.
    pub fn is_published(&mut self, name: &str, wait: &Wait) -> Result<bool, Lost> {
        self.say(&format!("cmd=lookup_name service={name}"))?;
        let answer = self.line(wait)?;
        match field(&answer, "cmd") {
            Some("lookup_result") => Ok(field(&answer, "port").is_some()),
            _ => Err(unexpected(&answer)),
        }
    }

    /// Says that this rank ends in order. Others may still be at work.
    pub fn finish(&mut self, wait: &Wait) -> Result<(), Lost> {
        self.ask("cmd=finalize", "finalize_ack", wait).map(|_| ())
    }

    fn ask(&mut self, line: &str, expected: &str, wait: &Wait) -> Result<String, Lost> {
        self.say(line)?;
        self.answer(expected, wait)
    }

    fn say(&mut self, line: &str) -> Result<(), Lost> {
        Ok(self.stream.write_all(format!("{line}\n").as_bytes())?)
    }

    fn answer(&mut self, expected: &str, wait: &Wait) -> Result<String, Lost> {
        let answer = self.line(wait)?;
        let is_done = field(&answer, "rc").is_none_or(|rc| rc == "0");
        match field(&answer, "cmd") {
            Some(cmd) if cmd == expected && is_done => Ok(answer),
            _ => Err(unexpected(&answer)),
        }
    }

    fn line(&mut self, wait: &Wait) -> Result<String, Lost> {
        let until = Instant::now() + wait.time;
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line = self.unread.drain(..=end).collect::<Vec<u8>>();
                let line = String::from_utf8_lossy(&line).trim_end().to_string();
                // It may come after the end of the barrier; whether it worked is found when the name is looked up.
                if field(&line, "cmd") == Some("publish_result") {
                    continue;
                }
                return Ok(line);
            }
            if self.unread.len() > LINE_MAX {
                return Err(Lost::Manager("its answer is not PMI".into()));
            }
            if let Some(why) = (wait.stop)() {
                return Err(Lost::Cancelled(why));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Lost::Silent(None));
            }
            let tick = Timespec::try_from(left.min(TICK)).map_err(io::Error::other)?;
            let mut ready = [PollFd::new(&self.stream, PollFlags::IN)];
            match poll(&mut ready, Some(&tick)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes)? {
                0 => return Err(Lost::Manager("it closed the connection".into())),
                read => self.unread.extend_from_slice(&bytes[..read]),
            }
        }
    }
}

fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let of = |word: &'a str| word.strip_prefix(name)?.strip_prefix('=');
    line.split_ascii_whitespace().find_map(of)
}

fn unexpected(line: &str) -> Lost {
    Lost::Manager(format!("unexpected answer '{line}'"))
}
