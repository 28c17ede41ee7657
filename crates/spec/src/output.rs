//! Options of `fathom run` other than job keys.

use crate::job::Job;
use crate::value::KeyValue;
use fathom_model::plan::{Idleness, Permissions};
use fathom_model::watch::Level;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Output {
    pub file: Option<String>,
    /// `--output-format` and its short forms, in the order given; empty means [`Format::Normal`].
    pub formats: Vec<Format>,
    pub append_terse: bool,
    /// `--terse-version`: 2, 3, 4 or 5; `None` means 3.
    pub terse_version: Option<u32>,
    pub eta: Eta,
    /// `--status-interval`: time between interim results, in nanoseconds.
    pub status_interval_ns: Option<u64>,
    /// `--bandwidth-log`: what the names of the logs of all jobs together begin with.
    pub bandwidth_log: Option<String>,
    pub sections: Vec<String>,
    pub readonly: bool,
    pub parse_only: bool,
    pub showcmd: bool,
    pub record: Option<String>,
    pub no_record: bool,
    /// `--share`: what several ranks do with one file.
    pub share: Option<Share>,
    /// `--no-ranks`: run alone, whatever launcher started it.
    pub no_ranks: bool,
    /// `--journal`: directory of what was submitted and acknowledged, for `fathom verify`.
    pub journal: Option<String>,
    /// How often the jobs run, one round after the other; 0 means once.
    pub repeat: u32,
    /// `--steady-state=snia`: prepare the devices, and repeat the jobs until they are steady, at most `repeat` times.
    pub steady_state: bool,
    pub tag: Option<String>,
    /// `--compare`: the run, or the tag of runs, that the results are compared with.
    pub compare: Option<String>,
    pub fail_if: Vec<String>,
    /// `--confirm`: test the verdict by experiments afterwards.
    pub confirm: bool,
    pub sampling: Level,
    pub verbose: bool,
    pub quiet: bool,
    pub utc: bool,
    /// `--color`: `None` means as the terminal allows.
    pub color: Option<bool>,
    /// Options that were given and have no effect.
    pub idle_options: Vec<&'static str>,
    pub help: Option<Help>,
    /// `--idle-prof`: of which CPUs the idle time is printed.
    pub idleness: Option<Idleness>,
    /// `--inflate-log`: the compressed log to print, and do nothing else.
    pub inflate: Option<String>,
    /// `--merge-blktrace-only`: write merged traces, and do nothing else.
    pub merge_only: bool,
    /// Directory of state files; empty for the working directory.
    pub aux_path: String,
    /// The program was started as `fio`, and prints what fio prints.
    pub as_fio: bool,
}

/// What several ranks do with one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    Same,
    /// Each has its own part.
    Split,
    Own,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Normal,
    Markdown,
    Html,
    Json,
    /// fio's JSON with latency histogram buckets.
    JsonPlus,
    /// fio's terse format, separated by semicolons.
    Terse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Eta {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Help {
    /// The options, with examples: what `-h` prints.
    Short,
    All,
    Key(String),
    /// All I/O engines, or the keys of one.
    Engine(Option<String>),
}

#[derive(Debug, Clone, Copy)]
pub struct RunOption {
    pub name: &'static str,
    /// The form of its value; `None` if it takes none.
    pub takes: Option<&'static str>,
    pub doc: &'static str,
    pub(crate) action: RunAction,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum RunAction {
    Set(Setter),
    Refuse(&'static str),
}

impl RunOption {
    pub fn refusal(&self) -> Option<&'static str> {
        match self.action {
            RunAction::Refuse(why) => Some(why),
            RunAction::Set(_) => None,
        }
    }

    /// The implied value, as in `--cmdhelp`.
    pub(crate) fn default_value(&self) -> Option<&'static str> {
        match self.name {
            "bandwidth-log" => Some("agg"),
            "cmdhelp" | "enghelp" => Some("all"),
            _ => self.refusal().map(|_| ""),
        }
    }
}

pub fn run_options() -> &'static [RunOption] {
    OPTIONS
}

/// The short form of an option that all commands spell the same way.
pub(crate) fn short(name: &str) -> Option<&'static str> {
    match name {
        "output" => Some("o"),
        "quiet" => Some("q"),
        "verbose" => Some("v"),
        _ => None,
    }
}

pub(crate) fn find(name: &str) -> Option<&'static RunOption> {
    OPTIONS.iter().find(|option| option.name == name)
}

type Setter = fn(&mut Output, &mut Permissions, &str) -> Result<(), String>;

const fn nothing(_: &mut Output, _: &mut Permissions, _: &str) -> Result<(), String> {
    Ok(())
}

/// `"option" "VALUE": "description" => |output, permissions, value| assignment;`, or instead of the last part `= setter;`, or
/// `! reason;` if the option is refused.
macro_rules! options {
    ($($name:literal $($form:literal)?: $doc:literal
        $(=> |$o:tt, $p:tt, $v:tt| $set:expr;)? $(= $setter:expr;)? $(! $why:expr;)?)*) => {
        const OPTIONS: &[RunOption] = &[$(RunOption {
            name: $name,
            takes: [$(Some($form),)? None][0],
            doc: $doc,
            action: $(RunAction::Set(|$o, $p, $v| { $set; Ok(()) }))? $(RunAction::Set($setter))?
                $(RunAction::Refuse($why))?,
        }),*];
    };
}

const REPEAT_MAX: u32 = 1000;
/// Rounds in which SNIA's specification expects a steady state.
const STEADY_ROUNDS_MAX: u32 = 25;
const STEADY_ROUNDS: u32 = 5;
const MANY: &str =
    "fathom has no client and no server; start it with mpiexec or srun: docs/many-machines.md";
const LOGS: &str = "use samples.ndjson in the run directory, which has one line per second";
const TESTS: &str = "this tests fio itself; use 'fathom limit' to measure fathom";

options! {
    "erase" "DEVICE[@SERIAL]": "Permit writing to this block device; repeatable"
        => |_, p, v| p.erase.push(v.to_string());
    "output" "FILE": "Write results to FILE" = |o, _, v| once(&mut o.file, v);
    "output-format" "KIND[,KIND]": "Output format: normal, markdown, html, json, json+ or terse"
        = |o, _, v| formats(o, v);
    "format" "text|markdown|json|html": "Output format, spelled as in other commands" = |o, _, v| formats(o, v);
    "json": "Same as --format=json" = |o, _, _| formats(o, "json");
    "minimal": "Same as --output-format=terse" = |o, _, _| formats(o, "terse");
    "append-terse": "Add terse output to the other formats" => |o, _, _| o.append_terse = true;
    "terse-version" "2|3|4|5": "Version of the terse format"
        => |o, _, v| o.terse_version = Some(value(v).choice(&[("2", 2), ("3", 3), ("4", 4), ("5", 5)])?);
    "eta" "always|never|auto": "When to show the progress line"
        => |o, _, v| o.eta = value(v).choice(&[("auto", Eta::Auto), ("always", Eta::Always), ("never", Eta::Never)])?;
    "status-interval" "TIME": "Print interim results at this interval; default unit: s"
        = |o, _, v| match value(v).time_ns(1_000_000_000)? {
            0 => Err("invalid value 0; use a time above 0".to_string()),
            ns => {
                o.status_interval_ns = Some(ns);
                Ok(())
            }
        };
    "bandwidth-log" "PREFIX": "Log the bandwidth of all jobs together; default prefix: agg"
        = |o, _, v| once(&mut o.bandwidth_log, v);
    "section" "NAME": "Run only this section of the job files; repeatable"
        => |o, _, v| o.sections.push(v.to_string());
    "readonly": "Refuse jobs that write or trim" => |o, _, _| o.readonly = true;
    "parse-only": "Parse and check the jobs, then exit" => |o, _, _| o.parse_only = true;
    "showcmd": "Print the equivalent command line, then exit" => |o, _, _| o.showcmd = true;
    "record" "DIR": "Write the run directory to DIR" = |o, _, v| once(&mut o.record, v);
    "journal" "DIR": "Record in DIR, on another disk, what is written and acknowledged, so that `fathom verify DIR` can say after a power cut what was lost"
        = |o, _, v| once(&mut o.journal, v);
    "repeat" "N": "Run all jobs N times; figures have intervals between these rounds"
        => |o, _, v| o.repeat = value(v).count32(1, REPEAT_MAX)?;
    "steady-state" "snia": "Discard and write what the jobs write, then run them in rounds until five are steady, at most 25 or --repeat"
        => |o, _, v| o.steady_state = value(v).choice(&[("snia", true)])?;
    "tag" "TAG": "Give the runs this tag, as `fathom runs tag` does" = |o, _, v| once(&mut o.tag, v);
    "compare" "RUN|TAG": "Compare the results with recorded ones, as `fathom compare` does"
        = |o, _, v| once(&mut o.compare, v);
    "fail-if" "FIGURE OP VALUE": "Exit with status 3 if this holds, such as 'p99 > 2ms', or with --compare 'p99 > +5%'; repeatable"
        => |o, _, v| o.fail_if.push(v.to_string());
    "confirm": "Afterwards test the first limiter by changing one thing, for up to 30 s, as `fathom confirm` does"
        => |o, _, _| o.confirm = true;
    "verbose": "Also print how figures were measured, or why they are missing" => |o, _, _| o.verbose = true;
    "quiet": "Print results and errors only" => |o, _, _| (o.quiet, o.eta) = (true, Eta::Never);
    "utc": "Show times in UTC instead of local time" => |o, _, _| o.utc = true;
    "color" "auto|always|never": "When to use color" => |o, _, v| o.color =
        value(v).choice(&[("auto", None), ("always", Some(true)), ("never", Some(false))])?;
    "share" "same|split|own": "Whether several ranks use all of one file, each its own part, or each its own files"
        => |o, _, v| o.share = Some(value(v).choice(&[("same", Share::Same), ("split", Share::Split), ("own", Share::Own)])?);
    "no-ranks": "Run alone, also as one of several that a launcher started" => |o, _, _| o.no_ranks = true;
    "no-record": "Write no run directory" => |o, _, _| o.no_record = true;
    "sampling" "off|default|full": "How much of the machine to sample"
        => |o, _, v| o.sampling = value(v).choice(&Level::NAMES)?;
    "help": "Print the manual page, with all options and keys" => |o, _, _| o.help = Some(Help::All);
    "cmdhelp" "KEY": "Print help on one key"
        => |o, _, v| o.help = Some(if v == "all" { Help::All } else { Help::Key(v.to_string()) });
    "enghelp" "ENGINE": "List the I/O engines, or the keys of one"
        => |o, _, v| o.help = Some(Help::Engine(Some(v.to_string()).filter(|name| name != "all")));
    "eta-interval" "TIME": "No effect: the progress line is updated every second" = nothing;
    "eta-newline" "TIME": "No effect: without a terminal, each update is a new line" = nothing;
    "max-jobs" "COUNT": "No effect: up to 4096 jobs can run" = nothing;
    "alloc-size" "SIZE": "No effect: memory is allocated as needed" = nothing;
    "idle-prof" "system|percpu": "Print the idle time of the CPUs, also of each, in fio's formats"
        => |o, _, v| o.idleness = Some(value(v).choice(&[("system", Idleness::System), ("percpu", Idleness::PerCpu)])?);
    "debug" "KIND": "No effect: record.json has what was requested and done" = nothing;
    "aux-path" "DIR": "Directory of the files of verify_state_save, verify_state_load and verify_dump"
        => |o, _, v| o.aux_path = v.to_string();
    "warnings-fatal": "No effect: a request that fathom cannot honor is always an error" = nothing;
    "client" "…": "Run jobs on another machine" ! MANY;
    "server" "…": "Run jobs for another machine" ! MANY;
    "daemonize" "…": "Run jobs for another machine, in the background" ! MANY;
    "remote-config" "…": "Job file on another machine" ! MANY;
    "trigger-remote" "…": "Trigger command on another machine" ! MANY;
    "trigger-file" "…": "Trigger when a file exists"
        ! "send SIGINT to end the run early; results are complete up to then";
    "trigger-timeout" "…": "Trigger after a time" ! "set runtime for the job";
    "trigger" "…": "Trigger command" ! "fathom never runs commands from a job; run it after fathom";
    "latency-log" "…": "Write latency logs" ! LOGS;
    "inflate-log" "FILE": "Print a compressed log (log_store_compressed), and do nothing else"
        = |o, _, v| once(&mut o.inflate, v);
    "merge-blktrace-only": "Write merge_blktrace_file, and do no I/O" => |o, _, _| o.merge_only = true;
    "cpuclock-test" "…": "Test the CPU clock" ! TESTS;
    "crctest" "…": "Test checksum speed" ! TESTS;
    "memcpytest" "…": "Test memory copy speed" ! TESTS;
}

fn value(text: &str) -> KeyValue<'_> {
    KeyValue::strict(text, 1024)
}

fn once(slot: &mut Option<String>, value: &str) -> Result<(), String> {
    match slot {
        Some(before) if before != value => {
            Err(format!("given as both {before} and {value}; use one"))
        }
        _ if value.is_empty() => Err("missing value; add one".to_string()),
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
            ("text", Format::Normal),
            ("markdown", Format::Markdown),
            ("html", Format::Html),
            ("json", Format::Json),
            ("json+", Format::JsonPlus),
            ("terse", Format::Terse),
            ("minimal", Format::Terse),
        ])?);
    }
    let both = [Format::Json, Format::JsonPlus];
    if both.iter().all(|format| new.contains(format)) {
        return Err("json and json+ conflict; use json+, which includes all of json".to_string());
    }
    if !output.formats.is_empty() && output.formats != new {
        return Err(format!(
            "'{list}' conflicts with another format option; use one comma-separated list"
        ));
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
    /// How often the jobs run at most.
    pub fn rounds_max(&self) -> u32 {
        match (self.repeat, self.steady_state) {
            (0, true) => STEADY_ROUNDS_MAX,
            (0, false) => 1,
            (count, _) => count,
        }
    }

    /// Appends the format of `--append-terse` to the others, wherever it was given.
    pub(crate) fn complete(&mut self) {
        if self.append_terse {
            if self.formats.is_empty() {
                add(self, Format::Normal);
            }
            add(self, Format::Terse);
        }
    }

    /// Checks that output paths differ from each other, from job files, and from targets.
    pub(crate) fn check(&self, jobs: &[Job], job_files: &[String]) -> Result<(), String> {
        if self.record.is_some() && self.no_record {
            return Err("--record and --no-record conflict; remove one".into());
        }
        if self.tag.is_some() && (self.no_record || self.record.is_some()) {
            let other = if self.no_record { "--no-record" } else { "--record" };
            return Err(format!(
                "--tag and {other} conflict: tags name runs of the default directory; remove one"
            ));
        }
        if self.steady_state && (1..STEADY_ROUNDS).contains(&self.repeat) {
            return Err(format!(
                "--steady-state takes {STEADY_ROUNDS} rounds at least; raise --repeat, or remove it"
            ));
        }
        if self.readonly && self.steady_state {
            return Err(
                "--steady-state writes the targets first, but --readonly is set; remove one".into(),
            );
        }
        let several = if self.steady_state { "--steady-state" } else { "--repeat" };
        let is_several = self.rounds_max() > 1;
        if self.confirm && is_several {
            return Err(format!(
                "--confirm and {several} conflict: `fathom confirm RUN` tests one round; remove one"
            ));
        }
        if self.journal.is_some() && (self.confirm || is_several) {
            let other = if self.confirm { "--confirm" } else { several };
            return Err(format!(
                "--journal and {other} conflict: a journal is of one run; remove one"
            ));
        }
        if self.confirm && self.sampling == Level::Off {
            return Err("--confirm tests what samples show; remove --sampling=off".into());
        }
        let Some(file) = &self.file else { return Ok(()) };
        if self.record.as_deref().map(|dir| dir.trim_end_matches('/')) == Some(file) {
            return Err(format!("--output and --record both name {file}; use different paths"));
        }
        if let Some(job) = jobs.iter().find(|job| job.filename.contains(file)) {
            let name = &job.name;
            return Err(format!("--output={file} is a target of job '{name}'; name another file"));
        }
        if job_files.contains(file) {
            return Err(format!("--output={file} is a job file; name another file"));
        }
        Ok(())
    }
}
