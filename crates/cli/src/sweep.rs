//! `fathom sweep`: a grid of job keys, measured cell by cell.

use crate::experiment::{MeasureArgs, MeasurePlan, joined};
use crate::page::PageArgs;
use fathom_model::experiment::Experiment;
use fathom_spec::experiment;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// Files or block devices; by default a scratch file, which is removed afterwards
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// I/O patterns as in fio: randread,read
    #[arg(long, value_name = "LIST", default_value = "randread")]
    rw: String,
    /// Block sizes, such as 4k,64k,1m or 512..1m
    #[arg(long, value_name = "LIST", default_value = "4k")]
    bs: String,
    /// I/O engines, such as io_uring,libaio
    #[arg(long, value_name = "LIST")]
    ioengine: Option<String>,
    /// Workers per target, such as 1..8
    #[arg(long, value_name = "LIST")]
    numjobs: Option<String>,
    /// Queue depths per worker, such as 1..128; the default if neither workers, ranks nor rates vary
    #[arg(long, value_name = "LIST")]
    iodepth: Option<String>,
    /// Numbers of machines that take part, such as 1..40
    ///
    /// The others wait (docs/many-machines.md).
    #[arg(long, value_name = "LIST")]
    ranks: Option<String>,
    /// Loads as percentages of the measured peak, such as 10%..100%
    #[arg(long, value_name = "LIST")]
    rate: Option<String>,
    /// Any other fio key with a list of values, such as hipri=0,1; repeatable
    #[arg(long, value_name = "KEY=LIST")]
    key: Vec<String>,
    /// Continue an interrupted sweep in its run directory
    #[arg(long, value_name = "DIR|NAME", conflicts_with_all = [
        "targets", "rw", "bs", "ioengine", "numjobs", "iodepth", "ranks", "rate", "key", "record", "no_record",
    ])]
    resume: Option<PathBuf>,
    #[command(flatten)]
    pub measure: MeasureArgs,
    #[command(flatten)]
    pub page: PageArgs,
}

/// Queue depths where nothing else varies along the curves, and the depth of a given load.
const DEPTHS: &str = "1..128";
const DEPTH_RATED: &str = "128";

pub fn command(args: &Args) -> Result<ExitCode, String> {
    if let Some(named) = &args.resume {
        return crate::experiment::resume(&args.measure, &args.page, named, true);
    }
    crate::experiment::measure(&args.measure, &args.page, &|| {
        let experiment = args.experiment()?;
        Ok(MeasurePlan { experiment, targets: args.targets.clone(), is_sweep: true })
    })
}

#[derive(Default)]
struct Grid {
    /// Keys that vary, with their lists; the one along the curves is last.
    axes: Vec<(String, String)>,
    /// `key=value` of the others.
    job: Vec<String>,
}

impl Args {
    fn experiment(&self) -> Result<Experiment, String> {
        let Grid { axes, job } = self.grid()?;
        if axes.is_empty() {
            return Err(
                "nothing varies; give a list or a range, such as --bs=4k,64k or --iodepth=1..128"
                    .into(),
            );
        }
        experiment::sweep(&axes, &job).map_err(joined)
    }

    fn grid(&self) -> Result<Grid, String> {
        let mut keys: Vec<(String, String)> = Vec::new();
        let mut add = |key: &str, list: &str| keys.push((key.to_string(), list.to_string()));
        if !self.key.iter().any(|key| key.starts_with("direct=") || key.starts_with("buffered=")) {
            add("direct", "1");
        }
        for text in &self.key {
            let (key, list) = text
                .split_once('=')
                .ok_or_else(|| format!("--key={text}: expected KEY=LIST, such as hipri=0,1"))?;
            add(key, list);
        }
        add("rw", &self.rw);
        add("bs", &self.bs);
        self.ioengine.iter().for_each(|list| add("ioengine", list));
        self.numjobs.iter().for_each(|list| add("numjobs", list));
        let others = self.numjobs.as_ref().or(self.ranks.as_ref());
        let depths = match (&self.iodepth, others, &self.rate) {
            (Some(list), ..) => list,
            (None, _, Some(_)) => DEPTH_RATED,
            (None, None, None) => DEPTHS,
            (None, Some(_), None) => "32",
        };
        add("iodepth", depths);
        self.ranks.iter().for_each(|list| add(experiment::RANKS, list));
        self.rate.iter().for_each(|list| add("rate", list));
        let mut grid = Grid::default();
        for (key, list) in keys {
            let is_list =
                experiment::values(&list).map_err(|why| format!("--{key}={list}: {why}"))?.len()
                    > 1;
            match is_list || list.ends_with('%') || key == experiment::RANKS {
                true => grid.axes.push((key, list)),
                false => grid.job.push(format!("{key}={list}")),
            }
        }
        Ok(grid)
    }
}
