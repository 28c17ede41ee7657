//! `fathom stacks`: where CPU time goes, as a page, folded stacks or a flame graph.

use crate::output::{self, Destination};
use crate::page::{PageArgs, PageFormat, RecordArgs};
use crate::quantity;
use crate::stdio::{self, Kind, report_missing};
use crate::watch::{SampleView, StopCondition, observe};
use fathom_analysis::watch::Observed;
use fathom_model::RunRecord;
use fathom_model::progress::Sample;
use fathom_model::record::Header;
use fathom_model::watch::{SampledView, Unavailable};
use fathom_report::doc::Heading;
use fathom_report::json::{self, StacksResult};
use fathom_report::pages::{self, Origin};
use fathom_report::stacks::{self, Sampled};
use fathom_runner::{SamplingOptions, Sources};
use fathom_watch::{Clock, StackSettings};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Between two samples of the record.
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
    record: RecordArgs,
    #[command(flatten)]
    page: PageArgs,
    /// Command to run and sample with its descendants; fathom exits with its status
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub fn command(args: &Args) -> Result<ExitCode, String> {
    let record = args.record.to();
    let mut view = StacksView::open(args.rows, &args.page, &record.check()?)?;
    let mut end = StopCondition::new(&args.command, &args.pid, Some(args.time))?;
    if let Some(code) = end.spawn_error() {
        return Ok(code);
    }
    let options = SamplingOptions {
        interval: INTERVAL,
        scope: end.scope(),
        sources: Sources::Stacks(StackSettings {
            hz: args.hz,
            user: args.user,
            scope: end.scope(),
            clock: if args.by_clock { Clock::Timer } else { Clock::Cycles },
            ..StackSettings::default()
        }),
        view: Some(SampledView::Stacks { rows: args.rows }),
        ..SamplingOptions::default()
    };
    observe(&options, &record, end, &args.command, &mut view)
}

pub struct StacksView<'a> {
    rows: usize,
    page: &'a PageArgs,
    profile: Profile,
    to: Option<Destination>,
    sampled: Sampled,
}

impl<'a> StacksView<'a> {
    /// The output must not be one of the files `used`.
    pub fn open(rows: usize, page: &'a PageArgs, used: &[String]) -> Result<Self, String> {
        let profile = Profile::of(page)?;
        let to = match page.output.as_deref() {
            Some("-") => Some(Destination::Stdout),
            _ => page.file(used.iter().map(String::as_str))?,
        };
        Ok(Self { rows, page, profile, to, sampled: Sampled::default() })
    }
}

impl SampleView for StacksView<'_> {
    fn begin(&mut self, missing: &[Unavailable]) {
        report_missing(missing, self.page.verbose);
    }

    fn add(&mut self, sample: &Sample) -> Result<bool, String> {
        let stacks = sample.machine.stacks.iter();
        self.sampled.intervals.extend(stacks.map(|stacks| (sample.elapsed_ns, stacks.clone())));
        Ok(true)
    }

    fn finish(&mut self, record: &RunRecord, observed: &Observed) -> Result<(), String> {
        self.sampled.stacks.clone_from(&observed.known_stacks);
        self.show(&record.header)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Profile {
    /// The page, in the format of the options or else in this one.
    Page(PageFormat),
    Flame,
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
            Some("html" | "htm") => Self::Page(PageFormat::Html),
            Some("md" | "markdown") => Self::Page(PageFormat::Markdown),
            Some("svg") => Self::Flame,
            Some("json") => Self::Page(PageFormat::Json),
            None | Some("folded" | "collapsed" | "txt") => Self::Folded,
            Some(other) => {
                return Err(format!(
                    "--output={file}: unknown kind of profile .{other}; use .svg (flame graph), .folded, .html, .md or \
                     .json, or --format"
                ));
            }
        })
    }
}

impl StacksView<'_> {
    fn show(&self, header: &Header) -> Result<(), String> {
        let (sampled, to) = (&self.sampled, self.to.as_ref());
        let heading = Origin::of("stacks", header).heading();
        let seconds = sampled.intervals.last().map_or(0.0, |(end, _)| *end as f64 / 1e9);
        let whose = heading.as_ref().map_or_else(String::new, Heading::line);
        let title = format!("CPU time over {seconds:.1} s · {whose}");
        let (text, kind, form) = match self.profile {
            Profile::Page(format) => {
                let mut page = pages::stacks(sampled, self.rows);
                page.heading = heading;
                let options = PageArgs { format: self.page.format.or(format), ..self.page.clone() };
                let json = || json::text(&StacksResult::of(header, sampled));
                return options.print(&page, json, to);
            }
            Profile::Flame => (stacks::flame_graph(sampled, &title), Kind::Lines, "flame graph"),
            Profile::Folded => (stacks::folded(sampled), Kind::Lines, "folded stacks"),
        };
        output::emit(&text, kind, to)?;
        if let (Some(file), false) = (&self.page.output, matches!(to, Some(Destination::Stdout))) {
            let counts = sampled.intervals.iter().flat_map(|(_, sample)| &sample.counts);
            let samples: u64 = counts.map(|count| u64::from(count.count)).sum();
            let s = if samples == 1 { "" } else { "s" };
            stdio::info(&format!("Wrote {file} ({form}, {samples} sample{s})"));
        }
        Ok(())
    }
}
