//! `fathom predict`: what a machine that a file describes would deliver.

use crate::experiment::read_toml;
use crate::page::{self, PageArgs};
use crate::quantity;
use crate::stdio::error;
use fathom_model::prediction::{Machine, Prediction, Workload};
use fathom_model::window::Rw;
use fathom_report::doc::Heading;
use fathom_report::{json, pages};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// Description of the machine; `fathom topo --as-machine` writes that of this one
    #[arg(value_name = "MACHINE")]
    file: String,
    /// I/O patterns, named as in fio, such as randread,randrw; by default the file's workloads
    #[arg(long, value_name = "RW", value_delimiter = ',')]
    rw: Vec<Rw>,
    /// Block sizes, such as 4k,512k
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = quantity::block_size)]
    bs: Vec<u64>,
    /// Workers, each on a CPU of its own; by default one per core
    #[arg(long, value_name = "N", value_parser = quantity::whole(1..=1_000_000))]
    workers: Option<u32>,
    /// Queue depth of each worker; by default deep enough
    #[arg(long, value_name = "N", value_parser = quantity::whole(1..=1_000_000))]
    iodepth: Option<u32>,
    #[command(flatten)]
    page: PageArgs,
}

pub fn command(args: &Args) -> Result<ExitCode, String> {
    let to = args.page.destination([args.file.as_str()])?;
    let text = read_toml(&args.file, "not a file; `fathom topo --as-machine` writes one")?;
    let machine = match fathom_spec::machine(&text, &args.file) {
        Ok(machine) => machine,
        Err(problems) => {
            problems.iter().for_each(|problem| error!("{problem}"));
            return Ok(ExitCode::from(2));
        }
    };
    let workloads = args.workloads(&machine);
    let predicted = workloads.iter().map(|load| fathom_analysis::predict::predict(&machine, load));
    let predictions: Vec<Prediction> = predicted.collect();
    let mut page = pages::predict(&predictions);
    page.heading =
        page::heading("predict", None).map(|heading| of_machine(heading, &machine, args));
    args.page.print(&page, || json::text(&predictions), to.as_ref())?;
    let all_known = predictions.iter().all(|found| !found.limited_by.is_empty());
    Ok(if all_known { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Args {
    /// Those of the file, or with any option the first of them with each combination of the options.
    fn workloads(&self, machine: &Machine) -> Vec<Workload> {
        let of_file = self.rw.is_empty()
            && self.bs.is_empty()
            && self.workers.is_none()
            && self.iodepth.is_none();
        let Some(first) = machine.workloads.first().filter(|_| !of_file) else {
            return machine.workloads.clone();
        };
        let all = |given: &[u64], own| if given.is_empty() { vec![own] } else { given.to_vec() };
        let mut workloads = Vec::new();
        for bs in all(&self.bs, first.bs) {
            let kinds = if self.rw.is_empty() { vec![first.rw] } else { self.rw.clone() };
            workloads.extend(kinds.into_iter().map(|rw| Workload {
                rw,
                bs,
                workers: self.workers.or(first.workers),
                iodepth: self.iodepth.or(first.iodepth),
                measured: None,
                ..first.clone()
            }));
        }
        workloads
    }
}

/// The page is about the machine of the file.
fn of_machine(heading: Heading, machine: &Machine, args: &Args) -> Heading {
    let name = if machine.name.is_empty() { &args.file } else { &machine.name };
    let machine = match machine.source.as_str() {
        "" => name.clone(),
        source => format!("{name} ({source})"),
    };
    Heading { machine: machine.into(), host: String::new(), ..heading }
}
