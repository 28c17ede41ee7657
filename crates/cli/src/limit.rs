//! `fathom limit`: the limits of a disk on this machine, and what sets them.

use crate::live::MeasureView;
use crate::output::Destination;
use crate::page::{PageArgs, RecordArgs};
use crate::ranks::{self, Member};
use crate::signals::Signals;
use crate::stdio::{self, error};
use crate::{Command, quantity};
use fathom_machine::guard::Permissions;
use fathom_machine::scratch::ScratchSize;
use fathom_model::limit::{BlockSpec, DeviceSpec, LatencyTarget, LimitRecord, SuiteTest};
use fathom_model::watch::Level;
use fathom_model::window::Rw;
use fathom_report::json::{self, LimitResult};
use fathom_runner::RecordTo;
use fathom_runner::limit::{Limit, LimitOptions, OpenError};
use fathom_runner::ranks::Gate;
use std::process::ExitCode;
use std::time::Duration;

const SCRATCH: u64 = 1 << 30;
/// The same for --quick: laying out the file takes time too.
const SCRATCH_QUICK: u64 = 256 << 20;

#[derive(clap::Args)]
pub struct Args {
    /// Files or block devices to measure; without one, a scratch file
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Take a quarter of the time
    #[arg(long, conflicts_with = "duration")]
    quick: bool,
    /// How long to measure, such as 30 (seconds) or 5m; by default a minute for two kinds of I/O
    #[arg(short = 't', long, value_name = "TIME", value_parser = quantity::search_time)]
    duration: Option<Duration>,
    /// I/O patterns, named as in fio, such as randread,randrw
    ///
    /// The default is randread, and on a scratch file randwrite too. Mixed patterns have 70% reads.
    #[arg(long, value_name = "RW", value_delimiter = ',')]
    rw: Vec<Rw>,
    /// Block sizes, such as 4k,64k; by default 4k and 1m
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = quantity::block_size)]
    bs: Vec<u64>,
    /// Also find the highest load within a latency, such as 'p99<2ms'; exit status 3 if there is none
    #[arg(long, value_name = "LATENCY", conflicts_with = "suite")]
    target: Option<LatencyTarget>,
    /// Compare with the data sheet, such as 'iops=1000k,bw=7000M'; for one direction read-iops, write-bw, …
    ///
    /// Without it, common NVMe drives are compared with figures that fathom knows. Suffixes are decimal, as in data sheets (MiB is binary). iops are random I/Os of up to 4 KiB, bw is for large blocks.
    #[arg(long, value_name = "FIGURES")]
    spec: Option<DeviceSpec>,
    /// Run the tests of CrystalDiskMark's default profile instead
    #[arg(long, conflicts_with_all = ["rw", "bs"])]
    suite: bool,
    /// Permit writing to this existing file
    #[arg(long, value_name = "FILE", requires = "targets")]
    overwrite: Vec<String>,
    /// Permit writing to this block device
    #[arg(long, value_name = "DEVICE[@SERIAL]", requires = "targets")]
    erase: Vec<String>,
    /// Size of the scratch file, such as 4g; at most a tenth of the free space
    #[arg(long, value_name = "SIZE", value_parser = quantity::scratch_size, conflicts_with = "targets")]
    size: Option<u64>,
    /// Directory of the scratch file
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "targets")]
    scratch_dir: String,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    record: RecordArgs,
    /// How much of the machine to sample
    #[arg(long, value_parser = quantity::level(), default_value = "default")]
    sampling: Level,
    /// Measure alone, even if a launcher (mpiexec, srun) started several
    #[arg(long)]
    no_ranks: bool,
}

pub fn command(args: &Args) -> Result<ExitCode, String> {
    let joined = ranks::joined(args.no_ranks, Gate::Opened, &String::new)?;
    let Some((member, given, _)) = joined else {
        return measure(args, &Signals::take()?, None);
    };
    let Command::Limit(args) = crate::parsed_again(&given)? else {
        return Err("rank 0 runs another command; start the same one on all hosts".into());
    };
    let signals = member.signals.clone();
    if member.rank == 0 {
        return measure(&args, &signals, Some(member));
    }
    // A directory that is named may be that of rank 0.
    let record = match args.record.to() {
        RecordTo::Required(_) => RecordTo::Nowhere,
        usual => usual,
    };
    let options = LimitOptions { record, ..args.options(&signals) };
    let opened = Limit::open(options, &mut ()).map_err(OpenError::into_text);
    let Some((mut limit, mut ranks)) = member.in_step(Gate::Opened, opened) else {
        return Ok(ExitCode::FAILURE);
    };
    let served = limit.serve(&mut ranks);
    // The launcher may have gone already.
    let _ = ranks.leave();
    let mut record = served?;
    let closed = limit.close_targets();
    let finished = limit.finish(&mut record, |record| &mut record.header, &mut ());
    closed.and(finished)?;
    Ok(if record.header.outcome.is_finished() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Alone, or as rank 0 of several.
fn measure(args: &Args, signals: &Signals, member: Option<Member>) -> Result<ExitCode, String> {
    let kept = args.record.to().check()?;
    let to = args.page.destination(args.targets.iter().chain(&kept).map(String::as_str))?;
    let mut view = MeasureView::of_search();
    let opened = Limit::open(args.options(signals), &mut view);
    let (mut limit, mut ranks) = match (member, opened) {
        (None, Err(OpenError::Options(why))) => {
            error!("{why}");
            return Ok(ExitCode::from(2));
        }
        (None, opened) => (opened.map_err(OpenError::into_text)?, None),
        (Some(member), opened) => {
            match member.in_step(Gate::Opened, opened.map_err(OpenError::into_text)) {
                Some((limit, ranks)) => (limit, Some(ranks)),
                None => return Ok(ExitCode::FAILURE),
            }
        }
    };
    let measured = limit.run(&mut view, ranks.as_mut());
    // The launcher may have gone already.
    ranks.iter_mut().for_each(|ranks| drop(ranks.leave()));
    let mut record = measured?;
    view.clear();
    let closed = limit.close_targets();
    let shown = show(args, &record, to.as_ref());
    // After the result is printed: the record's disk may be full, or stall.
    let finished = limit.finish(&mut record, |record| &mut record.header, &mut view);
    shown.and(closed).and(finished)?;
    Ok(match (record.is_complete(), record.meets_target()) {
        (false, _) => ExitCode::FAILURE,
        (true, Some(true)) => ExitCode::SUCCESS,
        (true, Some(false)) => ExitCode::from(stdio::MISSED),
        (true, None) => ExitCode::from(stdio::INCONCLUSIVE),
    })
}

fn show(args: &Args, record: &LimitRecord, to: Option<&Destination>) -> Result<(), String> {
    let page = fathom_report::pages::limit(record, args.page.verbose);
    args.page.print(&page, || json::text(&LimitResult::of(record)), to)
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
            scratch_size: self.size.map_or(ScratchSize::AtMost(scratch), ScratchSize::Exactly),
            blocks,
            suite,
            target: self.target,
            spec: self.spec,
            duration: self.duration,
            quick: self.quick,
            sampling: self.sampling,
            record: self.record.to(),
            cancel: signals.cancel_token().clone(),
        }
    }
}
