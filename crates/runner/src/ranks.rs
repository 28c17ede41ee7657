//! Several fathoms that a launcher started together, one of which is rank 0: what they tell each other, their clocks, and how
//! they notice that one is gone. Everything goes through the launcher's process manager; there is no port and no daemon.

mod clock;
mod given;
mod pmi;
#[cfg(test)]
mod tests;
mod watch;

pub use clock::ClockBounds;
pub use given::{Given, Reading};
pub use pmi::Lost;
pub use watch::{Gate, Status, Together};

use crate::cancel::CancelToken;
use fathom_model::list;
use pmi::{Pmi, Wait};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use rustix::system::uname;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Read;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A rank that says nothing for so long, beyond what it announced, is considered lost.
pub const SILENCE: Duration = Duration::from_secs(10);
/// A launcher starts its ranks within this time of each other.
const START: Duration = Duration::from_secs(120);
/// The process manager answers within this time.
const ANSWER: Duration = Duration::from_secs(2);
/// Of several lost ranks, so many are named.
const NAMED: usize = 3;
/// Names of launchers' variables: the descriptor, the rank and the number of ranks.
const NAMES: [&str; 3] = ["PMI_FD", "PMI_RANK", "PMI_SIZE"];
/// Messages are compressed: figures in JSON have few distinct bytes.
const LEVEL: i32 = 3;
/// Longest message after decompression, in bytes.
const MESSAGE_MAX: u64 = 1 << 30;

/// One of the fathoms that were started together.
pub struct Ranks {
    pmi: Pmi,
    /// Its number, from 0.
    pub rank: u32,
    /// Their number.
    pub size: u32,
    cancel: CancelToken,
    /// Barriers so far, which number the messages.
    round: u32,
    /// Whether a signal ends a wait. Not once a run began, whose results are collected in any case.
    heeds_signals: bool,
}

impl Ranks {
    /// Joins the others, if the environment names a process manager and more than one rank.
    ///
    /// # Errors
    /// The environment is inconsistent, or the process manager does not speak PMI-1.
    pub fn join(
        var: impl Fn(&str) -> Option<String>,
        cancel: &CancelToken,
    ) -> Result<Option<Self>, String> {
        let number = |name: &str| {
            let Some(text) = var(name) else { return Ok(None) };
            let number = text.parse::<u32>();
            number
                .map(Some)
                .map_err(|_| format!("{name}={text}: expected a number; --no-ranks ignores it"))
        };
        let [fd, rank, size] = NAMES.map(number);
        let (Some(fd), Some(rank), Some(size)) = (fd?, rank?, size?) else { return Ok(None) };
        if size < 2 {
            return Ok(None);
        }
        let joined = connect(fd).and_then(|stream| Self::over(stream, (rank, size), cancel));
        joined.map(Some).map_err(|why| {
            format!(
                "cannot join {size} ranks (PMI_FD={fd}): {why}; --no-ranks runs without the others"
            )
        })
    }

    fn over(
        stream: UnixStream,
        (rank, size): (u32, u32),
        cancel: &CancelToken,
    ) -> Result<Self, Lost> {
        let stop = || cancel.reason();
        let wait = Wait { time: START, stop: &stop };
        let mut pmi = Pmi::begin(stream, &wait)?;
        let (host, room) = (uname().nodename().to_string_lossy().into_owned(), pmi.value_max);
        let host: String = host.chars().filter(char::is_ascii_graphic).take(room).collect();
        if !host.is_empty() {
            // For the others, should this one be lost.
            pmi.put(&format!("fathom-host-{rank}"), &host, &wait)?;
        }
        Ok(Self { pmi, rank, size, cancel: cancel.clone(), round: 0, heeds_signals: true })
    }

    /// Gives everybody what rank 0 has. The others' `own` is ignored.
    pub fn broadcast<T: Serialize + DeserializeOwned>(
        &mut self,
        own: &T,
        time: Duration,
    ) -> Result<T, Lost> {
        let own = (self.rank == 0).then(|| encode(own));
        let found = self.exchange(own.transpose()?.as_deref(), 0..1, time)?;
        found.first().ok_or_else(nothing).and_then(|text| decode(text))
    }

    /// Gives rank 0 what everybody has, by rank; nobody else gets anything.
    pub fn gather<T: Serialize + DeserializeOwned>(
        &mut self,
        own: &T,
        time: Duration,
    ) -> Result<Vec<T>, Lost> {
        let from = if self.rank == 0 { 0..self.size } else { 0..0 };
        let found = self.exchange(Some(&encode(own)?), from, time)?;
        found.iter().map(|text| decode(text)).collect()
    }

    /// Gives rank 0 what everybody measured, and cancels there what a signal ends on any of them.
    pub fn measured<T: Serialize + DeserializeOwned + Clone>(
        &mut self,
        own: &T,
        cancel: &CancelToken,
        time: Duration,
    ) -> Result<Vec<T>, Lost> {
        let all = self.gather(&(own.clone(), cancel.reason().is_some()), time)?;
        if all.iter().any(|(_, ends)| *ends) {
            cancel.cancel_for_lost_rank(None);
        }
        Ok(all.into_iter().map(|(one, _)| one).collect())
    }

    /// Leaves the others in order.
    pub fn leave(&mut self) -> Result<(), Lost> {
        // Even where a signal came: the launcher would take its end for a failure.
        self.pmi.finish(&Wait { time: SILENCE, stop: &|| None })
    }

    /// Publishes `own`, waits for all, and returns what those in `from` published.
    fn exchange(
        &mut self,
        own: Option<&str>,
        from: Range<u32>,
        time: Duration,
    ) -> Result<Vec<String>, Lost> {
        let (cancel, heeds_signals) = (self.cancel.clone(), self.heeds_signals);
        let stop = || cancel.reason().filter(|_| heeds_signals);
        let wait = Wait { time, stop: &stop };
        self.round += 1;
        let (round, rank) = (self.round, self.rank);
        let key = |rank: u32, part: usize| format!("fathom-{round}-{rank}-{part}");
        if let Some(own) = own {
            // The first part begins with the number of parts.
            let room = self.pmi.value_max.saturating_sub(16).max(1);
            let parts: Vec<&str> = own
                .as_bytes()
                .chunks(room)
                .filter_map(|part| std::str::from_utf8(part).ok())
                .collect();
            for (at, part) in parts.iter().enumerate() {
                let value =
                    if at == 0 { format!("{}.{part}", parts.len()) } else { (*part).to_string() };
                self.pmi.put(&key(rank, at), &value, &wait)?;
            }
        }
        self.pmi.barrier(&here(round, rank), &wait).map_err(|lost| match lost {
            Lost::Silent(None) if rank == 0 => Lost::Silent(self.absent()),
            lost => lost,
        })?;
        let mut found = Vec::new();
        for rank in from {
            let first = self.pmi.get(&key(rank, 0), &wait)?;
            let (parts, mut text) = first
                .split_once('.')
                .and_then(|(parts, text)| Some((parts.parse::<usize>().ok()?, text.to_string())))
                .ok_or_else(nothing)?;
            for part in 1..parts {
                text.push_str(&self.pmi.get(&key(rank, part), &wait)?);
            }
            found.push(text);
        }
        Ok(found)
    }

    /// Which ranks did not come to the last barrier, if the process manager tells.
    fn absent(&mut self) -> Option<String> {
        let wait = Wait { time: ANSWER, stop: &|| None };
        let mut absent = Vec::new();
        for rank in 0..self.size {
            if self.pmi.is_published(&here(self.round, rank), &wait).ok()? {
                continue;
            }
            if rank == 0 {
                return None;
            }
            // Known since the first barrier.
            let host = self.pmi.get(&format!("fathom-host-{rank}"), &wait);
            absent.push(match host {
                Ok(host) => format!("{host} (rank {rank})"),
                Err(_) => format!("rank {rank}"),
            });
        }
        (!absent.is_empty()).then(|| list::few(&absent, NAMED))
    }
}

/// What a rank that waits for the others publishes.
fn here(round: u32, rank: u32) -> String {
    format!("fathom-{round}-{rank}")
}

fn nothing() -> Lost {
    Lost::Manager("a value is missing or damaged".into())
}

/// The inherited descriptor, which must not be passed on.
fn connect(fd: u32) -> Result<UnixStream, Lost> {
    let own: Pid = getpid();
    let process = pidfd_open(own, PidfdFlags::empty()).map_err(std::io::Error::from)?;
    let fd = i32::try_from(fd).unwrap_or(-1);
    // A copy of it: the number alone does not say who closes it.
    let copy = pidfd_getfd(process, fd, PidfdGetfdFlags::empty()).map_err(std::io::Error::from)?;
    Ok(UnixStream::from(copy))
}

/// As a word: hexadecimal digits.
fn encode(value: &impl Serialize) -> Result<String, Lost> {
    let json = serde_json::to_vec(value).map_err(std::io::Error::other)?;
    let bytes = zstd::bulk::compress(&json, LEVEL)?;
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half & 15)]);
    Ok(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect())
}

fn decode<T: DeserializeOwned>(text: &str) -> Result<T, Lost> {
    let half = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(half(*high)? << 4 | half(*low)?).ok(),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
    let bytes = bytes.ok_or_else(nothing)?;
    let mut json = Vec::new();
    zstd::Decoder::new(bytes.as_slice())?.take(MESSAGE_MAX).read_to_end(&mut json)?;
    Ok(serde_json::from_slice(&json).map_err(std::io::Error::other)?)
}
