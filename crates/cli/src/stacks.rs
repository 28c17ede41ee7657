//! `fathom stacks`: where CPU time goes, as a page, as folded stacks, as a flame graph or for the Firefox profiler.

use crate::limits;
use crate::output::{self, Destination};
use crate::page::FormatArgs;
use crate::quantity;
use crate::stdio::{Kind, note};
use crate::watch::End;
use fathom_model::advice::thread_not_created;
use fathom_report::pages;
use fathom_report::stacks::{self, Sampled};
use fathom_watch::{Clock, StackSampler, StackSettings, TimedSample, Watcher};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How finely the Firefox profiler's time line is divided.
const INTERVAL: Duration = Duration::from_millis(50);

/// Whose samples, and in which form.
#[derive(clap::Args)]
pub struct Args {
    /// How long to sample, such as 10s or 2m; Ctrl-C ends it early with the result so far
    #[arg(short = 't', long = "duration", value_name = "TIME", value_parser = quantity::time, default_value = "10s",
          conflicts_with = "command")]
    time: Duration,
    /// Only this process and its descendants, until it ends: by ID, or by part of its name; may be repeated
    #[arg(short = 'p', long, value_name = "PID|PATTERN", conflicts_with = "command")]
    pid: Vec<String>,
    /// Include user stacks, of programs built with frame pointers
    #[arg(short = 'u', long)]
    user: bool,
    /// Samples per second and CPU
    #[arg(short = 'F', long = "frequency", value_name = "HZ", default_value_t = 99,
          value_parser = clap::value_parser!(u32).range(1..=20_000))]
    hz: u32,
    /// Sample on a timer even if the CPU can count cycles
    #[arg(long)]
    by_clock: bool,
    /// Write a flame graph (FILE.svg), a profile for profiler.firefox.com (FILE.json) or folded stacks (any other name;
    /// - for standard output) instead of printing a page
    #[arg(short = 'o', long, value_name = "FILE", conflicts_with_all = ["format", "json"])]
    output: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
    /// The command to run and sample with its descendants until it ends; fathom exits with its status
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Samples processors and shows where they were.
///
/// # Errors
/// What is wrong with the arguments, why nothing can be sampled, or where the result cannot be written.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let file = args.output.as_deref().filter(|file| *file != "-");
    let to = file.map(|file| Destination::open(file, [])).transpose()?;
    let mut end = End::new(&args.command, &args.pid, Some(args.time))?;
    limits::raise();
    let settings = StackSettings {
        hz: args.hz,
        user: args.user,
        scope: end.scope(),
        clock: if args.by_clock { Clock::Timer } else { Clock::Cycles },
        ..StackSettings::default()
    };
    let sampled = sample(&settings, &mut end)?;
    Ok(end.code_if(show(args, &sampled, to.as_ref())))
}

/// Samples until the end.
fn sample(settings: &StackSettings, end: &mut End) -> Result<Sampled, String> {
    let sampler = StackSampler::open(settings, Path::new("/proc"), Path::new("/sys"))
        .map_err(|missing| missing.to_string())?;
    for missing in sampler.missing() {
        note!("not measured: {missing}");
    }
    let started_unix_ns = fathom_engine::clock::unix_ns();
    let mut sampled = Sampled { started_unix_ns, ..Sampled::default() };
    let watcher = Watcher::start(vec![Box::new(sampler)], INTERVAL)
        .map_err(|error| thread_not_created(&error))?;
    let began = Instant::now();
    end.follow(watcher, |sample| {
        add(&mut sampled, began, sample);
        Ok(true)
    })?;
    Ok(sampled)
}

fn add(sampled: &mut Sampled, began: Instant, watched: TimedSample) {
    let Some(mut sample) = watched.machine.stacks else { return };
    sampled.stacks.append(&mut sample.new);
    let end = watched.at.saturating_duration_since(began).as_nanos();
    sampled.intervals.push((u64::try_from(end).unwrap_or(u64::MAX), sample));
}

fn show(args: &Args, sampled: &Sampled, to: Option<&Destination>) -> Result<(), String> {
    let Some(file) = args.output.as_deref() else {
        let (text, kind) = args.format.render(&pages::stacks(sampled), None, false)?;
        return output::emit(&text, kind, None);
    };
    let ends_in = |ending: &str| {
        Path::new(file).extension().is_some_and(|found| found.eq_ignore_ascii_case(ending))
    };
    let kind = if ends_in("json") { Kind::Json } else { Kind::Lines };
    let text = if ends_in("svg") {
        let seconds = sampled.intervals.last().map_or(0.0, |(end, _)| *end as f64 / 1e9);
        stacks::flame_graph(sampled, &format!("CPU time over {seconds:.1} s"))
    } else if ends_in("json") {
        stacks::firefox(sampled)
    } else {
        stacks::folded(sampled)
    };
    output::emit(&text, kind, to)?;
    if to.is_some() {
        let counts = sampled.intervals.iter().flat_map(|(_, sample)| &sample.counts);
        let samples: u64 = counts.map(|count| u64::from(count.count)).sum();
        note!("{samples} samples on busy CPUs written to {file}");
    }
    Ok(())
}
