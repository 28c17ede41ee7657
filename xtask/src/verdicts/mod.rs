//! `cargo xtask verdicts`: does `fathom watch` name the cause of programs whose cause is known? verdicts/README.md.

mod case;
mod truth;

use crate::Result;
use crate::programs::{fathom, found};
use crate::run::{Finished, Probe, attempt};
use crate::table::aligned;
use case::{Case, Causes, Verdict};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use truth::{Shares, Tracer};

#[derive(clap::Args)]
pub struct Options {
    /// Run only the cases whose names contain one of these
    #[arg(value_name = "CASE")]
    only: Vec<String>,
    /// Also run each case while as many other programs as there are CPUs keep them busy
    #[arg(long)]
    busy: bool,
    /// Run each case so often
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// List the cases
    #[arg(long)]
    list: bool,
    /// Also measure the shares of the time with bpftrace, and print them beside fathom's
    #[arg(long)]
    truth: bool,
    /// Write the table into docs/accuracy.md
    #[arg(long)]
    write: bool,
    /// Use this fathom instead of building it
    #[arg(long, value_name = "PATH")]
    fathom: Option<PathBuf>,
    /// Where the cases' files are created
    #[arg(long, default_value = "target")]
    directory: PathBuf,
}

/// One run of a case.
struct Measured {
    is_busy: bool,
    verdict: Verdict,
    /// The rule named first, and its sentence.
    named: String,
    summary: String,
    fathom: Option<Shares>,
    truth: Option<Shares>,
}

/// Runs the cases and prints the table; verdicts that are wrong are not an error.
///
/// # Errors
/// The cases cannot be read, or fathom cannot be started.
pub fn run(options: &Options) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let causes = Causes::read(&root.join("verdicts/causes.txt"))?;
    let mut cases = Case::read_all(&root.join("verdicts/cases"), &causes)?;
    cases.retain(|case| {
        options.only.is_empty() || options.only.iter().any(|part| case.name.contains(part))
    });
    if options.list {
        for case in &cases {
            println!("{:<24} {}", case.name, case.cause);
        }
        return Ok(());
    }
    let program = found(&fathom(options.fathom.as_deref())?)?;
    let place = options.directory.canonicalize()?;
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    for case in &cases {
        if let Err(error) = case.install() {
            left_out.push(format!("{}: {error}", case.name));
            continue;
        }
        let mut measured = Vec::new();
        for is_busy in [false, true].into_iter().take(1 + usize::from(options.busy)) {
            for _ in 0..options.rounds {
                match measure(case, &causes, &program, &place, is_busy, options.truth) {
                    Ok(one) => {
                        eprintln!("{}", one.line(case));
                        measured.push(one);
                    }
                    Err(error) => left_out.push(format!("{}: {error}", case.name)),
                }
            }
        }
        rows.push((case, measured));
    }
    let text = report(&rows, &causes, &left_out);
    println!("{text}");
    if options.write {
        write(&root.join("docs/accuracy.md"), &text)?;
    }
    Ok(())
}

fn measure(
    case: &Case,
    causes: &Causes,
    program: &Path,
    place: &Path,
    is_busy: bool,
    with_truth: bool,
) -> Result<Measured> {
    let dir = tempfile::Builder::new().prefix("verdicts-").tempdir_in(place)?;
    // Servers that give up root must reach it.
    Command::new("chmod").arg("755").arg(dir.path()).status()?;
    let watched = watch(case, program, dir.path(), is_busy, with_truth);
    let cleaned = case.call("clean", dir.path());
    let (json, truth) = watched?;
    cleaned?;
    let json: Value = serde_json::from_str(&json)?;
    let expected = if is_busy { &case.busy } else { &case.expect };
    let (verdict, named, summary) = case.judge(&json["findings"], expected, causes);
    let fathom = truth::of_account(&json["account"]);
    Ok(Measured { is_busy, verdict, named, summary, fathom, truth })
}

/// Runs the case's program under `fathom watch`; its JSON, and the shares by bpftrace.
fn watch(
    case: &Case,
    program: &Path,
    dir: &Path,
    is_busy: bool,
    with_truth: bool,
) -> Result<(String, Option<Shares>)> {
    case.call("prepare", dir)?;
    let _spinners = if is_busy { Spinners::start()? } else { Spinners(Vec::new()) };
    let mut args: Vec<String> =
        ["watch", "--no-record", "--json", "-o", "watch.json"].map(String::from).into();
    let mut pids = Vec::new();
    if let Some(duration) = &case.watch {
        let printed = case.call("program", dir)?.stdout;
        pids = printed.split_whitespace().map(String::from).collect();
        if pids.is_empty() {
            return Err("`program` printed no process id".into());
        }
        args.extend(["-t".into(), duration.clone()]);
        args.extend(pids.iter().flat_map(|pid| ["-p".into(), pid.clone()]));
    } else {
        args.extend(["--".into(), "bash".into()]);
        args.extend(case.arguments("program", dir));
    }
    let tracer = with_truth.then(|| Tracer::start(&pids)).transpose()?;
    let done = attempt(program, &args, dir, Probe::Nothing, Duration::from_secs(60))?;
    let truth = tracer.map(Tracer::stop).transpose()?;
    let json = std::fs::read_to_string(dir.join("watch.json"));
    Ok((json.map_err(|_| last_line(&done))?, truth))
}

fn last_line(done: &Finished) -> String {
    done.stderr.lines().last().unwrap_or("failed without a message").to_string()
}

/// Programs that keep all CPUs busy until dropped.
struct Spinners(Vec<Child>);

impl Spinners {
    fn start() -> Result<Self> {
        let mut all = Self(Vec::new());
        for _ in 0..std::thread::available_parallelism()?.get() {
            let mut spin = Command::new("sh");
            all.0.push(spin.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn()?);
        }
        Ok(all)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Measured {
    fn line(&self, case: &Case) -> String {
        let busy = if self.is_busy { "busy" } else { "idle" };
        let mut line =
            format!("{:<24} {busy} {:<12} {}", case.name, self.verdict.word(), self.summary);
        for (name, shares) in [("fathom", &self.fathom), ("bpftrace", &self.truth)] {
            if let Some(shares) = shares {
                line += &format!("\n{:>41}: {}", name, truth::text(shares));
            }
        }
        line
    }
}

/// `right`, or `right 2, wrong 1`, with the rules named; then shares of the cause's group.
fn cells(measured: &[Measured], is_busy: bool, group: &str) -> [String; 2] {
    let these: Vec<&Measured> = measured.iter().filter(|one| one.is_busy == is_busy).collect();
    let mut named: Vec<String> = Vec::new();
    for one in &these {
        let text = format!("{}: {}", one.verdict.word(), one.named);
        if !named.contains(&text) {
            named.push(text);
        }
    }
    let share = |of: fn(&Measured) -> &Option<Shares>| {
        let all: Vec<f64> =
            these.iter().filter_map(|one| of(one).as_ref()?.get(group).copied()).collect();
        if all.is_empty() {
            return "–".to_string();
        }
        format!("{:.0}", 100.0 * all.iter().sum::<f64>() / all.len() as f64)
    };
    [named.join(", "), format!("{} / {}", share(|one| &one.fathom), share(|one| &one.truth))]
}

fn report(rows: &[(&Case, Vec<Measured>)], causes: &Causes, left_out: &[String]) -> String {
    let head = ["case", "cause made", "idle: cause named", "%", "CPUs busy: cause named", "%"];
    let mut table = vec![head.map(String::from)];
    for (case, measured) in rows {
        let group = |expected: &[String]| causes.group(expected.first()?);
        let [idle, idle_share] = cells(measured, false, group(&case.expect).unwrap_or_default());
        let [busy, busy_share] = cells(measured, true, group(&case.busy).unwrap_or_default());
        table.push([case.name.clone(), case.cause.clone(), idle, idle_share, busy, busy_share]);
    }
    let mut text = aligned(&table) + "\n";
    for (is_busy, what) in [(false, "Idle machine"), (true, "CPUs busy")] {
        let all = || rows.iter().flat_map(|(_, all)| all).filter(|one| one.is_busy == is_busy);
        if all().next().is_some() {
            let counts: Vec<String> = Verdict::ALL
                .iter()
                .map(|of| {
                    format!("{} {}", of.word(), all().filter(|one| one.verdict == *of).count())
                })
                .collect();
            text += &format!("\n{what}, {} runs: {}.\n", all().count(), counts.join(", "));
        }
    }
    if !left_out.is_empty() {
        text += &format!("\nLeft out: {}.\n", left_out.join("; "));
    }
    text
}

/// Replaces the text between the two markers.
fn write(path: &Path, text: &str) -> Result<()> {
    const MARKERS: [&str; 2] = ["<!-- verdicts: begin -->\n", "<!-- verdicts: end -->"];
    let old = std::fs::read_to_string(path)?;
    let between = MARKERS.map(|marker| old.split_once(marker));
    let [Some((before, _)), Some((_, after))] = between else {
        return Err(format!("{}: the markers of the table are missing", path.display()).into());
    };
    Ok(std::fs::write(path, format!("{before}{}{text}{}{after}", MARKERS[0], MARKERS[1]))?)
}
