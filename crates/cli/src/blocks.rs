//! `fathom blocks`: what the block layer does with the I/Os of some devices.

use crate::output::Destination;
use crate::page::{PageArgs, PageFormat};
use crate::stdio::{Kind, note};
use crate::watch::{StopCondition, TICK};
use crate::{limits, output, page, quantity, targets};
use fathom_analysis::machine;
use fathom_machine::Roots;
use fathom_model::advice::thread_not_created;
use fathom_model::facts::DeviceFacts;
use fathom_model::watch::{BlocksSample, MachineSample, Unavailable};
use fathom_report::doc::Heading;
use fathom_report::pages;
use fathom_report::render::{self, Style};
use fathom_watch::blocks::{BlockSampler, BlocksOptions, Devices, ONE_IN};
use fathom_watch::disks::DiskSampler;
use fathom_watch::{Sampler, TimedSample, TraceCoverage, Watcher};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Live lines between headers.
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
    page: PageArgs,
    /// Command to run and trace; fathom exits with its status
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Traces the devices, and prints a line per device and interval and a summary.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let to = args.page.destination(None)?;
    let time = args.time.or(args.count.and_then(|count| args.interval.checked_mul(count)));
    let mut end = StopCondition::new(&args.command, &args.pid, time)?;
    if let Some(code) = end.never_began() {
        return Ok(code);
    }
    limits::raise();
    let devices = match args.devices.as_slice() {
        [] => Devices::Busiest { first: Vec::new() },
        names => Devices::Named(targets::with_devices_of_files(&Roots::default(), names)?),
    };
    let options = BlocksOptions { devices, one_in: args.one_in, each_io: TraceCoverage::Full };
    let Roots { proc, sys, .. } = Roots::default();
    let sampler = BlockSampler::open(&proc, &sys, &options).map_err(|e| e.to_string())?;
    let mut view = BlocksView::new(args, to, sampler.missing().to_vec());
    let mut samplers: Vec<Box<dyn Sampler>> = vec![Box::new(sampler)];
    match DiskSampler::open(&proc, &sys) {
        Ok(disks) => samplers.push(Box::new(disks)),
        Err(error) => view.missing.push(Unavailable {
            source: "await of all requests".into(),
            reason: error.to_string(),
            remedy: String::new(),
        }),
    }
    let watcher =
        Watcher::start(samplers, args.interval).map_err(|error| thread_not_created(&error))?;
    let shown = end.follow(watcher, |sample| {
        view.add(sample)?;
        Ok(!view.all_are_removed())
    });
    let code = end.exit_code(shown.and_then(|()| view.finish()));
    if view.all_are_removed() && !end.is_command() {
        note!("all devices were removed");
        return Ok(time.map_or(code, |_| ExitCode::FAILURE));
    }
    Ok(code)
}

/// The samples so far, and how much of them was printed.
struct BlocksView<'a> {
    args: &'a Args,
    heading: Option<Heading>,
    to: Option<Destination>,
    /// What goes to a file, which is written at the end.
    written: String,
    missing: Vec<Unavailable>,
    first: Option<(Instant, MachineSample)>,
    last: Option<(Instant, MachineSample)>,
    lines: usize,
}

impl<'a> BlocksView<'a> {
    fn new(args: &'a Args, to: Option<Destination>, missing: Vec<Unavailable>) -> Self {
        let written = String::new();
        let heading = page::heading("blocks", None);
        Self { args, heading, to, written, missing, first: None, last: None, lines: 0 }
    }

    /// Prints the interval since the previous sample. The last one is usually shorter and is not printed.
    fn add(&mut self, watched: TimedSample) -> Result<(), String> {
        let (at, now) = (watched.at, watched.machine);
        let Some(blocks) = &now.blocks else { return Ok(()) };
        if let Some((before_at, MachineSample { blocks: Some(before), .. })) = &self.last {
            let mut came = fathom_analysis::blocks::since(blocks, before);
            // A removal is reported once.
            let gone = before.devices.iter().filter(|device| device.removed);
            let gone: Vec<&str> = gone.map(|device| device.name.as_str()).collect();
            came.devices.retain(|device| !gone.contains(&device.name.as_str()));
            let elapsed = at.saturating_duration_since(*before_at);
            if elapsed + TICK >= self.args.interval {
                let text = self.lines(&came, elapsed)?;
                self.emit(&text)?;
            }
        } else {
            self.first = Some((at, now.clone()));
        }
        self.last = Some((at, now));
        Ok(())
    }

    /// Whether no device is left.
    fn all_are_removed(&self) -> bool {
        let last = self.last.as_ref().and_then(|(_, last)| last.blocks.as_ref());
        let devices = last.map_or(&[][..], |last| &last.devices);
        !devices.is_empty() && devices.iter().all(|device| device.removed)
    }

    fn lines(&mut self, came: &BlocksSample, elapsed: Duration) -> Result<String, String> {
        match self.args.page.format.get() {
            PageFormat::Json => return json(came, elapsed, false),
            // Only the summary is a document.
            PageFormat::Markdown | PageFormat::Html => return Ok(String::new()),
            PageFormat::Text => {}
        }
        let is_first = self.lines.is_multiple_of(LINES_PER_HEADER);
        self.lines += 1;
        let page = pages::block_rates(came, elapsed.as_nanos() as u64, is_first);
        let width = match std::io::stdout().is_terminal() {
            true => page::style(false).width,
            false => LIVE_WIDTH,
        };
        Ok(render::text(&page, Style { color: false, width }))
    }

    fn finish(&mut self) -> Result<(), String> {
        let (Some((from, first)), Some((to, last))) = (&self.first, &self.last) else {
            return Ok(());
        };
        let (Some(first_blocks), Some(last_blocks)) = (&first.blocks, &last.blocks) else {
            return Ok(());
        };
        let came = fathom_analysis::blocks::since(last_blocks, first_blocks);
        let elapsed = to.saturating_duration_since(*from);
        let elapsed_ns = elapsed.as_nanos() as u64;
        let disks = machine::rates(first, last, elapsed_ns).disks;
        let named = |disk: &DeviceFacts| came.devices.iter().any(|one| one.name == disk.name);
        let facts = fathom_machine::device::disks(&Roots::default());
        let devices = pages::device_list(facts.iter().filter(|disk| named(disk)));
        let mut page =
            pages::blocks(&came, &disks, elapsed_ns, &self.missing, self.args.page.verbose);
        page.heading = self.heading.clone().map(|heading| Heading { devices, ..heading });
        let json = json(&came, elapsed, true)?;
        let (text, kind) = self.args.page.format.render(&page, || Ok(json), self.to.is_some())?;
        match self.lines {
            0 => self.emit(&text)?,
            _ => self.emit(&format!("\n{text}"))?,
        }
        match &self.to {
            Some(to) => output::emit(&self.written, kind, Some(to)),
            None => Ok(()),
        }
    }

    /// Prints to standard error if standard output is the command's.
    fn emit(&mut self, text: &str) -> Result<(), String> {
        let kind = if self.args.page.format.is_json() { Kind::Json } else { Kind::Lines };
        if self.to.is_some() {
            self.written += text;
            return Ok(());
        }
        if self.args.command.is_empty() {
            return output::emit(text, kind, None);
        }
        output::emit_to_stderr(text, kind)
    }
}

/// The interval's counters as one line of JSON.
fn json(came: &BlocksSample, elapsed: Duration, total: bool) -> Result<String, String> {
    let mut value = serde_json::to_value(came).map_err(|e| format!("cannot write JSON: {e}"))?;
    value["elapsed_ns"] = (elapsed.as_nanos() as u64).into();
    value["unix_ns"] = fathom_engine::clock::unix_ns().into();
    value["total"] = total.into();
    Ok(format!("{value}\n"))
}
