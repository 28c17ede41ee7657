//! Options of the whole run: what `fathom run` takes beside keys of jobs.

use crate::job::JobSpec;
use crate::value::Value;
use fathom_model::watch::Level;

/// What becomes of the results.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Output {
    /// `--output`: the results go there instead of to standard output.
    pub file: Option<String>,
    /// `--output-format` and its short forms, in the order given; empty is [`Format::Normal`].
    pub formats: Vec<Format>,
    /// `--append-terse`: terse form after the others; already in `formats` once all is read.
    pub append_terse: bool,
    /// `--terse-version`: 2, 3, 4 or 5; `None` is 3.
    pub terse_version: Option<u32>,
    /// `--eta`.
    pub eta: Eta,
    /// `--status-interval`: results so far every so often, in nanoseconds.
    pub status_interval_ns: Option<u64>,
    /// `--section`: only these.
    pub sections: Vec<String>,
    /// `--readonly`: nothing may write.
    pub readonly: bool,
    /// `--parse-only`: read, check, and stop.
    pub parse_only: bool,
    /// `--showcmd`: print the command line that is equivalent, and stop.
    pub showcmd: bool,
    /// `--record`: the run directory.
    pub record: Option<String>,
    /// `--no-record`: no run directory.
    pub no_record: bool,
    /// `--watch`: how much of the machine is watched meanwhile.
    pub watch: Level,
    /// `--watch-turns`: watching is switched on and off in turns of so many nanoseconds.
    pub watch_turns_ns: Option<u64>,
    /// `--help`, `--cmdhelp`: print help, and stop.
    pub help: Option<Help>,
}

/// A form of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Normal,
    /// fio's JSON.
    Json,
    /// fio's JSON with the buckets of histograms.
    JsonPlus,
    /// fio's semicolon-separated line.
    Terse,
}

/// When the live line is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Eta {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What help is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Help {
    /// All of it.
    All,
    /// One key.
    Key(String),
}

/// What the command line permits to be changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    /// `--erase`: devices, each as `device` or `device@serial-or-size`, as given.
    pub erase: Vec<String>,
    /// `--overwrite`: paths of existing files, as given.
    pub overwrite: Vec<String>,
}

/// One option of the whole run.
#[derive(Debug, Clone, Copy)]
pub struct RunOption {
    /// Its name, without dashes.
    pub name: &'static str,
    /// The form of its value; `None` where it takes none.
    pub takes: Option<&'static str>,
    /// What it does, in one line.
    pub doc: &'static str,
    pub(crate) action: RunAction,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum RunAction {
    Set(fn(&mut Output, &mut Permissions, &str) -> Result<(), String>),
    Refuse(&'static str),
}

impl RunOption {
    /// Why it is refused, where it is.
    #[must_use]
    pub fn refusal(&self) -> Option<&'static str> {
        match self.action {
            RunAction::Refuse(why) => Some(why),
            RunAction::Set(_) => None,
        }
    }
}

/// All options of the whole run.
#[must_use]
pub fn run_options() -> &'static [RunOption] {
    OPTIONS
}

pub(crate) fn find(name: &str) -> Option<&'static RunOption> {
    OPTIONS.iter().find(|option| option.name == name)
}

type Setter = fn(&mut Output, &mut Permissions, &str) -> Result<(), String>;

const fn option(
    name: &'static str,
    takes: Option<&'static str>,
    doc: &'static str,
    set: Setter,
) -> RunOption {
    RunOption { name, takes, doc, action: RunAction::Set(set) }
}

/// An option of fio's that fathom has no need of.
const fn idle(name: &'static str, takes: Option<&'static str>, doc: &'static str) -> RunOption {
    option(name, takes, doc, |_, _, _| Ok(()))
}

const fn refused(name: &'static str, doc: &'static str, why: &'static str) -> RunOption {
    RunOption { name, takes: Some("…"), doc, action: RunAction::Refuse(why) }
}

/// The shortest turn of `--watch-turns`: samplers take a part of a second to open and to close.
const TURN_NS: u64 = 1_000_000_000;
const MANY: &str = "runs on many machines are not supported yet; start fathom on each";
const LOGS: &str = "samples.ndjson of the run directory has a line for every second";
const TESTS: &str = "it tests fio itself; 'fathom limit' shows what fathom itself can do";

const OPTIONS: &[RunOption] = &[
    option(
        "erase",
        Some("DEVICE[@SERIAL]"),
        "Permit writing to this block device; may repeat",
        |_, p, v| {
            p.erase.push(v.to_string());
            Ok(())
        },
    ),
    option("output", Some("FILE"), "Write the results there", |o, _, v| once(&mut o.file, v)),
    option("output-format", Some("KIND[,KIND]"), "normal, json, json+ or terse", |o, _, v| {
        formats(o, v)
    }),
    option("minimal", None, "The same as --output-format=terse", |o, _, _| formats(o, "terse")),
    option("append-terse", None, "Results in terse form as well", |o, _, _| {
        o.append_terse = true;
        Ok(())
    }),
    option("terse-version", Some("2|3|4|5"), "Version of the terse form", |o, _, v| {
        o.terse_version = Some(value(v).choice(&[("2", 2), ("3", 3), ("4", 4), ("5", 5)])?);
        Ok(())
    }),
    option("eta", Some("always|never|auto"), "When the live line is shown", |o, _, v| {
        o.eta = value(v).choice(&[
            ("auto", Eta::Auto),
            ("always", Eta::Always),
            ("never", Eta::Never),
        ])?;
        Ok(())
    }),
    option("status-interval", Some("TIME"), "Results so far every so often; bare: s", |o, _, v| {
        match value(v).time_ns(1_000_000_000)? {
            0 => Err("a time above 0 is expected".to_string()),
            ns => {
                o.status_interval_ns = Some(ns);
                Ok(())
            }
        }
    }),
    option("section", Some("NAME"), "Only this section of the job files; may repeat", |o, _, v| {
        o.sections.push(v.to_string());
        Ok(())
    }),
    option("readonly", None, "Refuse any job that writes", |o, _, _| {
        o.readonly = true;
        Ok(())
    }),
    option("parse-only", None, "Read the jobs, check them, and stop", |o, _, _| {
        o.parse_only = true;
        Ok(())
    }),
    option("showcmd", None, "Print the equivalent command line, and stop", |o, _, _| {
        o.showcmd = true;
        Ok(())
    }),
    option("record", Some("DIR"), "The run directory", |o, _, v| once(&mut o.record, v)),
    option("no-record", None, "Keep no run directory", |o, _, _| {
        o.no_record = true;
        Ok(())
    }),
    option("watch", Some("off|default|full"), "How much of the machine to watch", |o, _, v| {
        o.watch = value(v).choice(&Level::NAMES)?;
        Ok(())
    }),
    option(
        "watch-turns",
        Some("TIME"),
        "Watch in every other turn, to tell its cost",
        |o, _, v| match value(v).time_ns(1_000_000_000)? {
            ns if ns < TURN_NS => Err("a time of at least 1 s is expected".to_string()),
            ns => {
                o.watch_turns_ns = Some(ns);
                Ok(())
            }
        },
    ),
    option("help", None, "Print the options and keys", |o, _, _| {
        o.help = Some(Help::All);
        Ok(())
    }),
    option("cmdhelp", Some("KEY"), "Print what one key does", |o, _, v| {
        o.help = Some(if v == "all" { Help::All } else { Help::Key(v.to_string()) });
        Ok(())
    }),
    idle("eta-interval", Some("TIME"), "Changes nothing: the live line is renewed every second"),
    idle("eta-newline", Some("TIME"), "Changes nothing: off a terminal each is a line of its own"),
    idle("max-jobs", Some("COUNT"), "Changes nothing: 4096 jobs are possible"),
    idle("alloc-size", Some("SIZE"), "Changes nothing: memory is taken as it is needed"),
    idle("warnings-fatal", None, "Changes nothing: what cannot be done is an error already"),
    refused("client", "Work on another machine", MANY),
    refused("server", "Work for another machine", MANY),
    refused("daemonize", "Work for another machine", MANY),
    refused("remote-config", "Job files of another machine", MANY),
    refused("trigger-remote", "Command on another machine", MANY),
    refused(
        "idle-prof",
        "Measure idle time by busy threads",
        "fathom reads processor time from the kernel; it is in every result",
    ),
    refused(
        "trigger-file",
        "End when a file appears",
        "send SIGINT: the run ends early with a complete result",
    ),
    refused("trigger-timeout", "End after a time", "use runtime"),
    refused(
        "trigger",
        "Run a command at the end",
        "fathom never runs commands; run it after fathom",
    ),
    refused("latency-log", "Write a log", LOGS),
    refused("bandwidth-log", "Write a log", LOGS),
    refused("inflate-log", "Read a compressed log", LOGS),
    refused("merge-blktrace-only", "Merge traces", "traces are not supported yet"),
    refused("aux-path", "Where state files go", "use --record"),
    refused("enghelp", "Options of an engine", "use --cmdhelp=KEY; --help lists all keys"),
    refused(
        "debug",
        "Trace fio's inner workings",
        "record.json says what was asked, planned and granted",
    ),
    refused("cpuclock-test", "Test the clock", TESTS),
    refused("crctest", "Test checksums", TESTS),
    refused("memcpytest", "Test copying", TESTS),
];

fn value(text: &str) -> Value<'_> {
    Value { text, kb_base: 1024 }
}

fn once(slot: &mut Option<String>, value: &str) -> Result<(), String> {
    match slot {
        Some(before) if before != value => {
            Err(format!("given twice, as {before} and as {value}; give it once"))
        }
        _ if value.is_empty() => Err("a path is missing".to_string()),
        _ => {
            *slot = Some(value.to_string());
            Ok(())
        }
    }
}

fn formats(output: &mut Output, list: &str) -> Result<(), String> {
    let mut new = Vec::new();
    for word in list.split(',') {
        new.push(value(word.trim()).choice(&[
            ("normal", Format::Normal),
            ("json", Format::Json),
            ("json+", Format::JsonPlus),
            ("terse", Format::Terse),
            ("minimal", Format::Terse),
        ])?);
    }
    let both = [Format::Json, Format::JsonPlus];
    if both.iter().all(|format| new.contains(format)) {
        return Err("json and json+ at once; json+ holds all that json does".to_string());
    }
    if !output.formats.is_empty() && output.formats != new {
        return Err(format!("'{list}' after another format; give all in one list"));
    }
    for format in new {
        add(output, format);
    }
    Ok(())
}

fn add(output: &mut Output, format: Format) {
    if !output.formats.contains(&format) {
        output.formats.push(format);
    }
}

impl Output {
    /// Puts what `--append-terse` adds behind the other formats, wherever it was given.
    pub(crate) fn complete(&mut self) {
        if self.append_terse {
            if self.formats.is_empty() {
                add(self, Format::Normal);
            }
            add(self, Format::Terse);
        }
    }

    /// Checks what is written against each other, and against what is read or worked on.
    pub(crate) fn check(&self, jobs: &[JobSpec], job_files: &[String]) -> Result<(), String> {
        if self.record.is_some() && self.no_record {
            return Err("--record and --no-record contradict each other".into());
        }
        let Some(file) = &self.file else { return Ok(()) };
        if self.record.as_deref().map(|dir| dir.trim_end_matches('/')) == Some(file) {
            return Err(format!("--output and --record both name {file}"));
        }
        if let Some(job) = jobs.iter().find(|job| job.files.filename.contains(file)) {
            let name = &job.name;
            return Err(format!("--output={file} is a target of job '{name}'; name another file"));
        }
        if job_files.contains(file) {
            return Err(format!("--output={file} is a job file; name another file"));
        }
        Ok(())
    }
}
