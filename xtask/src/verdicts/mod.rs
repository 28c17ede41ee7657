//! `cargo xtask verdicts`: does fathom name the cause of programs whose cause is known? verdicts/README.md.

mod case;
mod truth;

use crate::Result;
use crate::programs::{fathom, found};
use crate::run::{Background, Probe, attempt};
use crate::table::aligned;
use case::{Case, Verdict, last_line};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use truth::{Shares, Thread, Tracer};

#[derive(clap::Args)]
pub struct Options {
    /// Run only the cases whose names contain one of these
    #[arg(value_name = "CASE")]
    only: Vec<String>,
    /// The machine: idle, or busy, where as many other programs as there are CPUs keep them busy
    #[arg(long, value_delimiter = ',', default_value = "idle")]
    machine: Vec<MachineLoad>,
    /// Number of runs of each case
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// List the cases
    #[arg(long)]
    list: bool,
    /// Also measure the shares of the time with bpftrace, and print them beside fathom's
    #[arg(long)]
    truth: bool,
    /// Fail unless all verdicts are right
    #[arg(long)]
    strict: bool,
    /// Write the table into docs/accuracy.md
    #[arg(long)]
    write: bool,
    /// Keep the records of watched programs that were judged right here, as crates/cli/tests/limiters has them
    #[arg(long, value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
    /// Use this fathom instead of building it
    #[arg(long, value_name = "PATH")]
    fathom: Option<PathBuf>,
    /// Where the cases' files are created
    #[arg(long, default_value = "target")]
    directory: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum MachineLoad {
    Idle,
    Busy,
}

/// What a case leaves in its directory: the result, and the record if it is kept.
const RESULT: &str = "result.json";
const RECORD: &str = "record";

/// One run of a case.
struct Measured {
    is_busy: bool,
    verdict: Verdict,
    /// The rule named first, and its sentence.
    rule: String,
    summary: String,
    /// By fathom and by bpftrace; the same of the processes at the other end.
    shares: [Option<Shares>; 2],
    peers: [Option<Shares>; 2],
}

/// Runs the cases and prints the table; verdicts that are not right are an error with `--strict` only.
pub fn run(options: &Options) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let causes = case::causes(&std::fs::read_to_string(root.join("verdicts/causes.txt"))?);
    let mut cases = Case::read_all(&root.join("verdicts/cases"), &causes)?;
    let only = &options.only;
    cases.retain(|case| only.is_empty() || only.iter().any(|part| case.name.contains(part)));
    if options.list {
        cases.iter().for_each(|case| println!("{:<24} {}", case.name, case.cause));
        return Ok(());
    }
    let program = found(&fathom(options.fathom.as_deref())?)?;
    let place = options.directory.canonicalize()?;
    let (mut rows, mut left_out) = (Vec::new(), String::new());
    for case in &cases {
        let mut measured = Vec::new();
        let runs = options.machine.iter().map(|load| *load == MachineLoad::Busy);
        for is_busy in runs.flat_map(|is_busy| (0..options.rounds).map(move |_| is_busy)) {
            match case.install().and_then(|()| measure(case, &program, &place, is_busy, options)) {
                Ok(one) => {
                    eprintln!("{}", one.line(case));
                    measured.push(one);
                }
                Err(error) => left_out += &format!("\nLeft out: {}: {error}\n", case.name),
            }
        }
        rows.push((case, measured));
    }
    let text = report(&rows) + &left_out;
    println!("{text}");
    if options.write {
        write(&root.join("docs/accuracy.md"), &text)?;
    }
    let is_right = |(_, measured): &(&Case, Vec<Measured>)| {
        !measured.is_empty() && measured.iter().all(|one| one.verdict == Verdict::Right)
    };
    let failed = rows.iter().filter(|row| !is_right(row)).map(|(case, _)| case.name.as_str());
    let failed: Vec<_> = failed.collect();
    match options.strict && !failed.is_empty() {
        true => Err(format!("not right: {}", failed.join(", ")).into()),
        false => Ok(()),
    }
}

fn measure(
    case: &Case,
    program: &Path,
    place: &Path,
    is_busy: bool,
    options: &Options,
) -> Result<Measured> {
    let dir = tempfile::Builder::new().prefix("verdicts-").tempdir_in(place)?;
    // Servers that give up root must reach it.
    Command::new("chmod").arg("755").arg(dir.path()).status()?;
    let judged = judged(case, program, dir.path(), is_busy, options);
    case.call("clean", dir.path(), program)?;
    let (json, truth) = judged?;
    // `run` prints its own beside fio's keys.
    let json = json.get("fathom").unwrap_or(&json);
    let shares = |peers: bool| {
        let (names, account) = truth::of_account(&json["figures"]["account"], peers);
        let threads = truth.clone().filter(|_| !peers || account.is_some());
        [account, threads.map(|threads| truth::shares(threads, &names))]
    };
    let (shares, peers) =
        (shares(false), if case.peers.is_empty() { [None, None] } else { shares(true) });
    let (verdict, rule, summary) = case.judge(&json["findings"], is_busy, shares[1].as_ref());
    if let (Some(to), Verdict::Right, false) = (&options.keep, verdict, case.is_fathom) {
        keep(&dir.path().join(RECORD), &to.join(&case.name), &summary)?;
    }
    Ok(Measured { is_busy, verdict, rule, summary, shares, peers })
}

/// Copies a record, and writes the words of its verdict before the first figure, which it is to have later as well.
fn keep(record: &Path, to: &Path, summary: &str) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for file in std::fs::read_dir(record)?.flatten() {
        std::fs::copy(file.path(), to.join(file.file_name()))?;
    }
    let is_figure = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let words: Vec<&str> = summary.split(' ').take_while(|word| !is_figure(word)).collect();
    Ok(std::fs::write(to.join("words"), format!("+{}\n", words.join(" ")))?)
}

/// Runs the case's program, fathom itself or any under `fathom watch`: the JSON, and its threads by bpftrace.
fn judged(
    case: &Case,
    fathom: &Path,
    dir: &Path,
    is_busy: bool,
    options: &Options,
) -> Result<(Value, Option<Vec<Thread>>)> {
    case.call("prepare", dir, fathom)?;
    let _spinners = if is_busy { Background::on_all_cpus()? } else { Vec::new() };
    let record: &[&str] =
        if options.keep.is_some() { &["--record", RECORD] } else { &["--no-record"] };
    let args = ["watch", "--json", "-o", RESULT].iter().chain(record);
    let mut args: Vec<String> = args.map(ToString::to_string).collect();
    let (mut program, mut pids) = (fathom, Vec::new());
    if let Some(duration) = &case.watch {
        pids.extend(case.call("program", dir, fathom)?.stdout.split_whitespace().map(String::from));
        if pids.is_empty() {
            return Err("program printed no process to watch".into());
        }
        args.extend(["-t".into(), duration.clone()]);
        args.extend(pids.iter().map(|pid| format!("--pid={pid}")));
    } else if case.is_fathom {
        (program, args) = (Path::new("bash"), case.arguments("program", dir, fathom));
    } else {
        args.extend(["--".into(), "bash".into()]);
        args.extend(case.arguments("program", dir, fathom));
    }
    pids.extend(truth::named(&case.peers));
    let tracer = options.truth.then(|| Tracer::start(&pids)).transpose()?;
    let done = attempt(program, &args, dir, Probe::Nothing, Duration::from_secs(120))?;
    let truth = tracer.map(Tracer::stop).transpose()?;
    let json = std::fs::read_to_string(dir.join(RESULT)).map_err(|_| last_line(&done))?;
    Ok((serde_json::from_str(&json)?, truth))
}

impl Measured {
    fn word(&self) -> String {
        format!("{:?}", self.verdict).to_lowercase()
    }

    fn line(&self, case: &Case) -> String {
        let busy = if self.is_busy { "busy" } else { "idle" };
        let mut line = format!("{:<24} {busy} {:<12} {}", case.name, self.word(), self.summary);
        let names = ["fathom", "bpftrace", "peers, by fathom", "peers, by bpftrace"];
        for (name, shares) in names.iter().zip(self.shares.iter().chain(&self.peers)) {
            if let Some(shares) = shares {
                line += &format!("\n{name:>41}: {}", truth::text(shares));
            }
        }
        line
    }
}

/// The verdicts with the rules named, and the shares of the cause named, or of the main one expected.
fn cells(case: &Case, measured: &[Measured], is_busy: bool) -> [String; 2] {
    let these = || measured.iter().filter(|one| one.is_busy == is_busy);
    let mut named: Vec<_> = these().map(|one| format!("{}: {}", one.word(), one.rule)).collect();
    named.dedup();
    let expected = &case.expect[usize::from(is_busy)];
    let share = |by: usize| {
        let of = |one: &Measured| {
            Some(truth::share(one.shares[by].as_ref()?, expected.group(&one.rule)))
        };
        let all: Vec<f64> = these().filter_map(of).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        if all.is_empty() { "–".to_string() } else { format!("{:.0}", 100.0 * mean) }
    };
    [named.join(", "), format!("{} / {}", share(0), share(1))]
}

fn report(rows: &[(&Case, Vec<Measured>)]) -> String {
    let head = ["case", "cause made", "idle: cause named", "%", "CPUs busy: cause named", "%"];
    let mut table = vec![head.map(String::from)];
    for (case, measured) in rows {
        let [idle, idle_share] = cells(case, measured, false);
        let [busy, busy_share] = cells(case, measured, true);
        table.push([case.name.clone(), case.cause.clone(), idle, idle_share, busy, busy_share]);
    }
    let mut text = aligned(&table) + "\n";
    for (is_busy, what) in [(false, "Idle machine"), (true, "CPUs busy")] {
        let mut counts: BTreeMap<Verdict, (String, u32)> = BTreeMap::new();
        for one in rows.iter().flat_map(|(_, all)| all).filter(|one| one.is_busy == is_busy) {
            counts.entry(one.verdict).or_insert((one.word(), 0)).1 += 1;
        }
        let counts: Vec<_> = counts.values().map(|(word, n)| format!("{word} {n}")).collect();
        text += &format!("\n{what}: {}.\n", counts.join(", "));
    }
    text
}

/// Replaces the text between the two markers.
fn write(path: &Path, text: &str) -> Result<()> {
    const MARKERS: [&str; 2] = ["<!-- verdicts: begin -->\n", "<!-- verdicts: end -->"];
    let old = std::fs::read_to_string(path)?;
    let [Some((before, _)), Some((_, after))] = MARKERS.map(|marker| old.split_once(marker)) else {
        return Err(format!("{}: the markers of the table are missing", path.display()).into());
    };
    Ok(std::fs::write(path, [before, MARKERS[0], text, MARKERS[1], after].concat())?)
}
