//! `fathom stacks`: where processors are, as a page, as folded stacks, as a flame graph or for the
//! Firefox profiler.

use crate::output;
use crate::signals::Signals;
use fathom_report::stacks::{self, Sampled};
use fathom_report::summary::Style;
use fathom_watch::{Scope, StackSampler, StackSettings, Watched, Watcher};
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Between two looks at signals, at the command and at the end of the time.
const TICK: Duration = Duration::from_millis(20);
/// How finely the Firefox profiler's time line is divided.
const INTERVAL: Duration = Duration::from_millis(50);

/// Whose samples, and in which form.
#[derive(clap::Args)]
pub struct Args {
    /// Sample for this time, such as 10s or 2m; Ctrl-C ends it earlier with what was seen
    #[arg(long = "for", value_name = "TIME", value_parser = time, default_value = "10s",
          conflicts_with = "command")]
    time: Duration,
    /// Only this process and all that descend from it; can be given several times
    #[arg(short = 'p', long, value_name = "PID", conflicts_with = "command",
          value_parser = clap::value_parser!(i32).range(1..))]
    pid: Vec<i32>,
    /// With the functions of programs, as far as these were built with frame pointers
    #[arg(short = 'u', long)]
    user: bool,
    /// Samples for each second and processor
    #[arg(short = 'F', long = "hz", value_name = "HZ", default_value_t = 99,
          value_parser = clap::value_parser!(u32).range(1..=20_000))]
    hz: u32,
    /// Sample by the clock even where the processor can count its cycles
    #[arg(long)]
    by_clock: bool,
    /// Write a flame graph (a name that ends in .svg), a profile for profiler.firefox.com (.json) or
    /// folded stacks (any other name, - for standard output) instead of printing a page
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<String>,
    /// The command to run and to sample, with all that it starts, until it ends; its exit status
    /// becomes that of fathom
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Samples processors and shows where they were.
///
/// # Errors
/// What is wrong with the arguments, why nothing can be sampled, or where the result cannot be written.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    if let Some(file) = args.output.as_deref().filter(|file| *file != "-") {
        output::check(file, [])?;
    }
    if let Some(pid) = args.pid.iter().find(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
        return Err(format!("--pid={pid}: there is no such process"));
    }
    let signals = Signals::take().map_err(|e| format!("cannot take signals: {e}"))?;
    let mut child = start(&args.command)?;
    let scope = match (&child, args.pid.as_slice()) {
        (Some(child), _) => Scope::Trees(vec![child.id() as i32]),
        (None, []) => Scope::Machine,
        (None, pids) => Scope::Trees(pids.to_vec()),
    };
    let settings = StackSettings { hz: args.hz, user: args.user, scope, by_clock: args.by_clock };
    let sampled = sample(args, &settings, child.as_mut(), &signals);
    // Whatever became of the samples, the command goes its way.
    let code = match child.as_mut().map(Child::wait) {
        None => 0,
        Some(Ok(status)) => status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        Some(Err(error)) => return Err(format!("cannot wait for the command: {error}")),
    };
    show(args, &sampled?)?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

fn start(command: &[OsString]) -> Result<Option<Child>, String> {
    let [program, arguments @ ..] = command else { return Ok(None) };
    let child = Command::new(program).args(arguments).spawn();
    child.map(Some).map_err(|error| format!("cannot run {}: {error}", program.display()))
}

fn sample(
    args: &Args,
    settings: &StackSettings,
    mut child: Option<&mut Child>,
    signals: &Signals,
) -> Result<Sampled, String> {
    let sampler = StackSampler::open(settings, Path::new("/proc"), Path::new("/sys"))
        .map_err(|missing| missing.to_string())?;
    for missing in sampler.missing() {
        eprintln!("fathom: not seen: {missing}");
    }
    let started_unix_ns = fathom_engine::clock::unix_ns();
    let mut sampled = Sampled { started_unix_ns, ..Sampled::default() };
    let began = Instant::now();
    let watcher = Watcher::start(vec![Box::new(sampler)], INTERVAL)
        .map_err(|e| format!("cannot start to sample: {e}"))?;
    let mut goes_on = || match &mut child {
        // The terminal sends its signals to the command too, which ends by them or not.
        Some(child) => matches!(child.try_wait(), Ok(None)),
        None => began.elapsed() < args.time && signals.caught().is_none(),
    };
    while goes_on() {
        match watcher.samples.recv_timeout(TICK) {
            Ok(watched) => add(&mut sampled, began, watched),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    watcher.stop().into_iter().for_each(|watched| add(&mut sampled, began, watched));
    Ok(sampled)
}

fn add(sampled: &mut Sampled, began: Instant, watched: Watched) {
    let Some(mut sample) = watched.machine.stacks else { return };
    sampled.stacks.append(&mut sample.new);
    let end = watched.at.saturating_duration_since(began).as_nanos();
    sampled.intervals.push((u64::try_from(end).unwrap_or(u64::MAX), sample));
}

fn show(args: &Args, sampled: &Sampled) -> Result<(), String> {
    let Some(file) = args.output.as_deref() else {
        let color = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        return output::help(&stacks::text(sampled, Style { color, ..Style::default() }));
    };
    let ends_in = |ending: &str| {
        Path::new(file).extension().is_some_and(|found| found.eq_ignore_ascii_case(ending))
    };
    let text = if ends_in("svg") {
        let seconds = sampled.intervals.last().map_or(0.0, |(end, _)| *end as f64 / 1e9);
        stacks::flame_graph(sampled, &format!("Processors over {seconds:.1} s"))
    } else if ends_in("json") {
        stacks::firefox(sampled)
    } else {
        stacks::folded(sampled)
    };
    output::emit(&text, Some(file).filter(|file| *file != "-"))
}

/// `10`, `10s` or `2m`.
fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60.0),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) if (0.1..=86_400.0).contains(&(number * unit)) => {
            Ok(Duration::from_secs_f64(number * unit))
        }
        _ => Err("expected a time from 0.1s to 1440m, such as 10s or 2m".into()),
    }
}
