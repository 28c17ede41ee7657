//! `fathom blocks`: what the block layer does with the I/Os of some devices.

use crate::output::{Destination, PartialOutput};
use crate::page::{self, PageArgs, PageFormat, RecordArgs};
use crate::stdio::{Kind, error};
use crate::watch::{SampleView, StopCondition, TICK, observe};
use crate::{quantity, targets};
use fathom_analysis::blocks::since;
use fathom_analysis::watch::Observed;
use fathom_machine::Roots;
use fathom_model::RunRecord;
use fathom_model::facts::DeviceFacts;
use fathom_model::progress::Sample;
use fathom_model::watch::{BlocksSample, SampledView, SamplingRecord};
use fathom_report::doc::Heading;
use fathom_report::json::{self, BlocksResult};
use fathom_report::pages::{self, Origin};
use fathom_report::render::{self, Style};
use fathom_runner::{SamplingOptions, Sources};
use fathom_watch::TraceCoverage;
use fathom_watch::blocks::{BlocksOptions, Devices, ONE_IN};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

const LINES_PER_HEADER: usize = 20;

/// Width of the live lines if they do not go to a terminal.
const LIVE_WIDTH: usize = 140;

/// Which devices, and for how long.
#[derive(clap::Args)]
pub struct Args {
    /// Devices and partitions, by name or path; by default those with the most I/Os
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,
    /// How long to trace, such as 60s or 5m; by default until Ctrl-C
    #[arg(short = 't', long = "duration", value_name = "TIME", value_parser = quantity::time, conflicts_with = "command")]
    time: Option<Duration>,
    /// Time between lines, 50ms to 1h
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = quantity::interval)]
    interval: Duration,
    /// End after N intervals
    #[arg(short = 'n', long, value_name = "N", value_parser = quantity::whole(1..=u32::MAX),
          conflicts_with_all = ["command", "time"])]
    count: Option<u32>,
    /// End when this process and its descendants end; repeatable
    ///
    /// A PATTERN is part of a process's name. The I/Os of all programs on the devices are counted.
    #[arg(short, long, value_name = "PID|PATTERN", conflicts_with = "command")]
    pid: Vec<String>,
    /// Sample one event in N; 0: count only, no sampling
    ///
    /// Sizes, tasks, splits and latencies come from sampled events.
    #[arg(long = "sample-every", alias = "one-in", value_name = "N", default_value_t = ONE_IN)]
    one_in: u32,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    page: PageArgs,
    /// Command to run and trace; fathom exits with its status
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Traces the devices, and prints a line per device and interval and a summary.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let record = args.record.to();
    let files = record.check()?;
    let to = args.page.destination(files.iter().map(String::as_str))?;
    let time = args.time.or(args.count.and_then(|count| args.interval.checked_mul(count)));
    let mut end = StopCondition::new(&args.command, &args.pid, time)?;
    if let Some(code) = end.spawn_error() {
        return Ok(code);
    }
    let devices = match args.devices.as_slice() {
        [] => Devices::Busiest { first: Vec::new() },
        names => Devices::Named(targets::with_devices_of_files(&Roots::default(), names)?),
    };
    let each_io = TraceCoverage::Full;
    let options = SamplingOptions {
        interval: args.interval,
        sources: Sources::Blocks(BlocksOptions { devices, one_in: args.one_in, each_io }),
        view: Some(SampledView::Blocks),
        ..SamplingOptions::default()
    };
    let is_command = !args.command.is_empty();
    let mut view = BlocksView::new(args.interval, &args.page, to, is_command);
    let code = observe(&options, &record, end, &args.command, &mut view)?;
    if view.all_are_removed() && !is_command {
        error!("all devices were removed");
        return Ok(time.map_or(code, |_| ExitCode::FAILURE));
    }
    Ok(code)
}

pub struct BlocksView<'a> {
    interval: Duration,
    page: &'a PageArgs,
    output: PartialOutput,
    last: Option<(u64, BlocksSample)>,
    lines: usize,
}

impl<'a> BlocksView<'a> {
    /// `is_command` states that standard output is that of a command.
    pub fn new(
        interval: Duration,
        page: &'a PageArgs,
        to: Option<Destination>,
        is_command: bool,
    ) -> Self {
        let output = PartialOutput::new(to, is_command);
        Self { interval, page, output, last: None, lines: 0 }
    }

    fn all_are_removed(&self) -> bool {
        let devices = self.last.as_ref().map_or(&[][..], |(_, last)| &last.devices);
        !devices.is_empty() && devices.iter().all(|device| device.removed)
    }

    fn lines(&mut self, growth: &BlocksSample, at: (u64, u64)) -> Result<String, String> {
        match self.page.format().get() {
            PageFormat::Json => return json::line(&BlocksResult::of(None, growth, at)),
            // Only the summary is a document.
            PageFormat::Markdown | PageFormat::Html => return Ok(String::new()),
            PageFormat::Text => {}
        }
        let is_first = self.lines.is_multiple_of(LINES_PER_HEADER);
        self.lines += 1;
        let page = pages::block_rates(growth, at.1, is_first);
        let width = match std::io::stdout().is_terminal() {
            true => page::style(false).width,
            false => LIVE_WIDTH,
        };
        Ok(render::text(&page, Style { color: false, width }))
    }

    fn kind(&self) -> Kind {
        if self.page.format().is_json() { Kind::Json } else { Kind::Lines }
    }
}

impl SampleView for BlocksView<'_> {
    /// Prints the interval since the previous sample. The last one is usually shorter and is not printed.
    fn add(&mut self, sample: &Sample) -> Result<bool, String> {
        let Some(now) = &sample.machine.blocks else { return Ok(true) };
        if let Some((before_ns, before)) = &self.last {
            let mut growth = since(now, before);
            // A removal is reported once.
            let gone = before.devices.iter().filter(|device| device.removed);
            let gone: Vec<&str> = gone.map(|device| device.name.as_str()).collect();
            growth.devices.retain(|device| !gone.contains(&device.name.as_str()));
            let elapsed_ns = sample.elapsed_ns.saturating_sub(*before_ns);
            if Duration::from_nanos(elapsed_ns) + TICK >= self.interval {
                let text = self.lines(&growth, (sample.unix_ns, elapsed_ns))?;
                self.output.emit(&text, self.kind())?;
            }
        }
        self.last = Some((sample.elapsed_ns, now.clone()));
        Ok(!self.all_are_removed())
    }

    fn finish(&mut self, record: &RunRecord, observed: &Observed) -> Result<(), String> {
        let (Some(first), Some(last)) = (&observed.first().blocks, &observed.last().blocks) else {
            return Ok(());
        };
        let none = SamplingRecord::default();
        let sampling = record.header.sampling.as_ref().unwrap_or(&none);
        let growth = since(last, first);
        let elapsed_ns = observed.elapsed_ns;
        let disks = observed.rates().disks;
        let missing = &sampling.missing;
        let mut page = pages::blocks(&growth, &disks, elapsed_ns, missing, self.page.verbose);
        let named = |disk: &&DeviceFacts| growth.devices.iter().any(|one| one.name == disk.name);
        let devices = pages::device_list(sampling.devices.iter().filter(named));
        let heading = Origin::of("blocks", &record.header).heading();
        page.heading = heading.map(|heading| Heading { devices, ..heading });
        let at = (observed.ended_unix_ns(), elapsed_ns);
        let json = || json::line(&BlocksResult::of(Some(&record.header), &growth, at));
        let (text, kind) = self.page.format().render(&page, json, self.output.is_file())?;
        let space = if self.lines == 0 { "" } else { "\n" };
        self.output.emit(&format!("{space}{text}"), self.kind())?;
        self.output.close(kind)
    }
}
