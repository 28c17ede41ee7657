//! `fathom stacks`: where CPU time goes, as a page, folded stacks, a flame graph or a Firefox profile.

use crate::limits;
use crate::output::{self, Destination};
use crate::page::{self, PageArgs, PageFormat};
use crate::quantity;
use crate::stdio::{self, Kind, report_missing};
use crate::watch::StopCondition;
use fathom_model::advice::thread_not_created;
use fathom_report::doc::Heading;
use fathom_report::json::{self, StacksResult};
use fathom_report::pages;
use fathom_report::stacks::{self, Sampled};
use fathom_watch::{Clock, StackSampler, StackSettings, TimedSample, Watcher};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Resolution of the timeline in the Firefox profiler.
const INTERVAL: Duration = Duration::from_millis(50);

/// Whose samples, and in which form.
#[derive(clap::Args)]
pub struct Args {
    /// How long to sample, such as 10s or 2m
    #[arg(short = 't', long = "duration", value_name = "TIME", value_parser = quantity::time, default_value = "10s",
          conflicts_with = "command")]
    time: Duration,
    /// Only this process, until it ends; repeatable
    ///
    /// Includes its descendants. A PATTERN is part of a process's name.
    #[arg(short = 'p', long, value_name = "PID|PATTERN", conflicts_with = "command")]
    pid: Vec<String>,
    /// Include user stacks, for programs built with frame pointers
    #[arg(short = 'u', long)]
    user: bool,
    /// Sampling rate per CPU, 1 to 20000
    #[arg(short = 'F', long = "frequency", value_name = "HZ", default_value = "99",
          value_parser = quantity::whole(1..=20_000))]
    hz: u32,
    /// Sample on a timer even if the CPU can count cycles
    #[arg(long = "timer", alias = "by-clock")]
    by_clock: bool,
    /// Number of functions to list
    #[arg(short = 'n', long = "count", value_name = "N", default_value_t = 20)]
    rows: usize,
    #[command(flatten)]
    page: PageArgs,
    /// Command to run and sample with its descendants; fathom exits with its status
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Samples the stacks of busy CPUs and prints them.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let profile = Profile::of(&args.page)?;
    let to = match args.page.output.as_deref() {
        Some("-") => Some(Destination::Stdout),
        _ => args.page.destination(None)?,
    };
    let mut end = StopCondition::new(&args.command, &args.pid, Some(args.time))?;
    if let Some(code) = end.never_began() {
        return Ok(code);
    }
    limits::raise();
    let settings = StackSettings {
        hz: args.hz,
        user: args.user,
        scope: end.scope(),
        clock: if args.by_clock { Clock::Timer } else { Clock::Cycles },
        ..StackSettings::default()
    };
    let heading = page::heading("stacks", None);
    let sampled = sample(&settings, args.page.verbose, &mut end)?;
    Ok(end.exit_code(show(args, profile, heading, &sampled, to.as_ref())))
}

/// Samples until the end.
fn sample(
    settings: &StackSettings,
    verbose: bool,
    end: &mut StopCondition,
) -> Result<Sampled, String> {
    let sampler = StackSampler::open(settings, Path::new("/proc"), Path::new("/sys"))
        .map_err(|missing| missing.to_string())?;
    report_missing(sampler.missing(), verbose);
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

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Profile {
    /// The page, in the format of the options or else in this one.
    Page(PageFormat),
    Flame,
    Firefox,
    Folded,
}

impl Profile {
    /// As the options say; without a format, as the ending of the file's name says.
    fn of(page: &PageArgs) -> Result<Self, String> {
        let Some(file) = page.output.as_deref().filter(|_| !page.format.is_given()) else {
            return Ok(Self::Page(PageFormat::Text));
        };
        let ending = Path::new(file).extension().map(|ending| ending.to_ascii_lowercase());
        Ok(match ending.as_ref().map(|ending| ending.to_string_lossy()).as_deref() {
            Some("svg") => Self::Flame,
            Some("json") => Self::Firefox,
            Some("html" | "htm") => Self::Page(PageFormat::Html),
            Some("md") => Self::Page(PageFormat::Markdown),
            None | Some("folded" | "collapsed" | "txt") => Self::Folded,
            Some(other) => {
                return Err(format!(
                    "--output={file}: unknown kind of profile .{other}; use .svg (flame graph), .json (Firefox \
                     profile), .folded, .html or .md, or --format"
                ));
            }
        })
    }
}

fn show(
    args: &Args,
    profile: Profile,
    heading: Option<Heading>,
    sampled: &Sampled,
    to: Option<&Destination>,
) -> Result<(), String> {
    let seconds = sampled.intervals.last().map_or(0.0, |(end, _)| *end as f64 / 1e9);
    let whose = heading.as_ref().map_or_else(String::new, Heading::line);
    let title = format!("CPU time over {seconds:.1} s · {whose}");
    let (text, kind, form) = match profile {
        Profile::Page(format) => {
            let mut page = pages::stacks(sampled, args.rows);
            page.heading = heading;
            let options = PageArgs { format: args.page.format.or(format), ..args.page.clone() };
            return options.print(&page, || json::text(&StacksResult::from(sampled)), to);
        }
        Profile::Flame => (stacks::flame_graph(sampled, &title), Kind::Lines, "flame graph"),
        Profile::Firefox => (stacks::firefox(sampled), Kind::Json, "Firefox profile"),
        Profile::Folded => (stacks::folded(sampled), Kind::Lines, "folded stacks"),
    };
    output::emit(&text, kind, to)?;
    if let (Some(file), false) = (&args.page.output, matches!(to, Some(Destination::Stdout))) {
        let counts = sampled.intervals.iter().flat_map(|(_, sample)| &sample.counts);
        let samples: u64 = counts.map(|count| u64::from(count.count)).sum();
        let s = if samples == 1 { "" } else { "s" };
        stdio::remark(&format!("Wrote {file} ({form}, {samples} sample{s})"));
    }
    Ok(())
}
