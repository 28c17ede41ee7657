//! `fathom limit`: what a disk can do on this machine, and what stops it there.

pub mod size;
mod view;

use crate::level;
use crate::output::Destination;
use crate::page::PageArgs;
use crate::signals::Signals;
use fathom_analysis::limit::{BlockSpec, LatencyTarget, LimitRecord, Rw, SuiteTest};
use fathom_machine::guard::Permissions;
use fathom_model::watch::Level;
use fathom_report::pages::LimitOptions as PageOptions;
use fathom_runner::RecordTo;
use fathom_runner::limit::{Limit, LimitOptions};
use std::process::ExitCode;
use std::time::Duration;
use view::View;

/// Size of a scratch file unless told otherwise.
const SCRATCH: u64 = 1 << 30;
/// The same for a quick search: filling it takes time too.
const SCRATCH_QUICK: u64 = 256 << 20;

/// What `fathom limit` takes.
#[derive(clap::Args)]
pub struct Args {
    /// Files or block devices, which are only read unless --rw says otherwise; by default a scratch file, which is
    /// removed afterwards.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Take a quarter of the time.
    #[arg(long, conflicts_with = "duration")]
    quick: bool,
    /// How long to search, such as 30 (seconds) or 5m; by default a minute for two kinds of I/O.
    #[arg(short = 't', long, value_name = "TIME", value_parser = size::duration)]
    duration: Option<Duration>,
    /// Kinds of access by fio's names, such as randread,randrw (70% reads) or read; by default randread, on a scratch
    /// file randwrite too.
    #[arg(long, value_name = "RW", value_delimiter = ',')]
    rw: Vec<Rw>,
    /// Block sizes, such as 4k,64k; by default 4k and 1m.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size::block)]
    bs: Vec<u64>,
    /// Also search for the highest load at which a percentile of latency stays below this, such as 'p99<2ms'.
    #[arg(long, value_name = "LATENCY", conflicts_with = "suite")]
    target: Option<LatencyTarget>,
    /// Measure the rows of CrystalDiskMark's default profile instead of searching.
    #[arg(long, conflicts_with_all = ["rw", "bs"])]
    suite: bool,
    /// Files that writes may overwrite.
    #[arg(long, value_name = "FILE")]
    overwrite: Vec<String>,
    /// Block devices that writes may erase: DEVICE or DEVICE@SERIAL.
    #[arg(long, value_name = "DEVICE")]
    erase: Vec<String>,
    /// Size of the scratch file, such as 4g; at most a tenth of the free space is used.
    #[arg(long, value_parser = size::bytes, conflicts_with = "targets")]
    size: Option<u64>,
    /// Directory of the scratch file.
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "targets")]
    scratch_dir: String,
    /// Also print a paragraph that can be forwarded by itself.
    #[arg(long)]
    paragraph: bool,
    #[command(flatten)]
    page: PageArgs,
    /// Run directory for the record, instead of a new one among your runs.
    #[arg(long, value_name = "DIR", conflicts_with = "no_record")]
    record: Option<String>,
    /// Keep no record.
    #[arg(long)]
    no_record: bool,
    /// How much of the machine to sample during the run.
    #[arg(long, value_parser = level::parser(), default_value = "default")]
    sampling: Level,
}

/// Searches and prints what was found. The exit status is 0 only if all of it was done.
///
/// # Errors
/// Why nothing was found out.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let signals = Signals::take().map_err(|e| format!("cannot install signal handlers: {e}"))?;
    let to = check_outputs(args)?;
    let mut view = View::new();
    let mut limit = Limit::open(args.options(&signals), &mut view)?;
    let record = limit.run(&mut view)?;
    view.clear();
    let shown = show(args, &record, to.as_ref());
    // After the result is printed: the record's disk may be full, or stall.
    let finished = limit.finish(&record, &mut view);
    shown.and(finished)?;
    Ok(if record.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether the record has a place, and where the result goes, which is no target.
fn check_outputs(args: &Args) -> Result<Option<Destination>, String> {
    let record = args.record_to().check()?;
    args.page.destination(args.targets.iter().chain(&record).map(String::as_str))
}

fn show(args: &Args, record: &LimitRecord, to: Option<&Destination>) -> Result<(), String> {
    let options = PageOptions { paragraph: args.paragraph, verbose: args.page.verbose };
    let json = fathom_report::limit::json(record).map_err(|e| e.to_string())?;
    args.page.print(&fathom_report::pages::limit(record, options), Some(json), to)
}

impl Args {
    /// The kinds of I/O to measure, and the settings of the suite.
    fn kinds(&self) -> (Vec<BlockSpec>, Vec<SuiteTest>) {
        // Named targets are only read, unless the command line says otherwise.
        let may_write =
            self.targets.is_empty() || !self.overwrite.is_empty() || !self.erase.is_empty();
        if self.suite {
            return SuiteTest::all(may_write);
        }
        let default = match (self.targets.is_empty(), self.rw.is_empty() && self.bs.is_empty()) {
            (true, true) => return (BlockSpec::with_writes(), Vec::new()),
            (_, true) => return (BlockSpec::defaults(), Vec::new()),
            (true, _) => vec![Rw::Randread, Rw::Randwrite],
            (false, _) => vec![Rw::Randread],
        };
        let rw = if self.rw.is_empty() { default } else { self.rw.clone() };
        let bs = if self.bs.is_empty() { vec![4096, 1 << 20] } else { self.bs.clone() };
        let specs = rw.iter().flat_map(|rw| bs.iter().map(|bs| BlockSpec::new(*bs, *rw)));
        (specs.collect(), Vec::new())
    }

    fn record_to(&self) -> RecordTo {
        RecordTo::from_options(self.record.as_deref(), self.no_record)
    }

    fn options(&self, signals: &Signals) -> LimitOptions {
        let (blocks, suite) = self.kinds();
        let scratch = if self.quick { SCRATCH_QUICK } else { SCRATCH };
        LimitOptions {
            targets: self.targets.clone(),
            permissions: Permissions {
                erase: self.erase.clone(),
                overwrite: self.overwrite.clone(),
            },
            scratch_dir: self.scratch_dir.clone(),
            scratch_bytes: self.size.unwrap_or(scratch),
            blocks,
            suite,
            target: self.target,
            duration: self.duration,
            quick: self.quick,
            sampling: self.sampling,
            record: self.record_to(),
            cancel: signals.cancel_token().clone(),
        }
    }
}
