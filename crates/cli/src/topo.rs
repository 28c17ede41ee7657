//! `fathom topo`: where storage is attached, and what the links on the way carry.

use crate::output;
use crate::page::{self, PageArgs};
use crate::stdio::{Kind, error};
use crate::{Command, ranks};
use fathom_analysis::rules::topology_findings;
use fathom_analysis::topology::{TopologyReport, analyze};
use fathom_machine::Roots;
use fathom_machine::topology::{PCI_IDS, topology, volume_of};
use fathom_report::doc::Heading;
use fathom_report::pages::{self, Origin};
use fathom_report::{json, machine_file};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Which disks, and where they are read from.
#[derive(clap::Args)]
pub struct Args {
    /// Disks, partitions, files or directories; by default all disks
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Read sys, proc and pci.ids below DIR, for example a copy from another machine
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Write the machine as a file for `fathom predict` instead
    #[arg(long)]
    as_machine: bool,
    /// Report on this machine alone, even if a launcher (mpiexec, srun) started several
    #[arg(long)]
    no_ranks: bool,
    #[command(flatten)]
    page: PageArgs,
}

pub fn command(args: &Args) -> Result<ExitCode, String> {
    let own = |command: &Command| match command {
        Command::Topo(args) if !args.as_machine => {
            let (report, _, unknown) = args.read()?;
            match unknown.as_slice() {
                [] => json::text(&report),
                names => Err(unknown_target(&names.join(", "))),
            }
        }
        _ => Err("--as-machine is for one machine; use --no-ranks for a file of each".into()),
    };
    if let Some((all_inspected, _)) = ranks::compare_hosts("topo", args.no_ranks, &args.page, own)?
    {
        return Ok(if all_inspected { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let to = if args.as_machine { args.page.file(None) } else { args.page.destination(None) }?;
    let (report, roots, unknown) = args.read()?;
    unknown.iter().for_each(|name| error!("{}", unknown_target(name)));
    let all_found = unknown.is_empty();
    if !all_found && report.topology.volumes.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    if args.as_machine {
        let name = fathom_machine::host(&roots).hostname;
        output::emit(&machine_file(&report, &name), Kind::Lines, to.as_ref())?;
    } else {
        let mut page = pages::topo(&report, args.page.verbose);
        page.heading = heading(args, &roots);
        args.page.print(&page, || json::text(&report), to.as_ref())?;
    }
    Ok(if all_found { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Args {
    /// What is attached, and the targets that are not known.
    fn read(&self) -> Result<(TopologyReport, Roots, Vec<String>), String> {
        let roots = Roots { proc: self.root.join("proc"), sys: self.root.join("sys") };
        if !roots.sys.join("block").is_dir() {
            let sys = roots.sys.display();
            return Err(format!(
                "{sys} is not a sysfs; name a directory that contains sys and proc"
            ));
        }
        let own = Path::new("/");
        let places = [self.root.as_path(), own];
        let databases = places.iter().flat_map(|root| PCI_IDS.map(|path| root.join(path)));
        let mut report = analyze(topology(&roots, &databases.collect::<Vec<_>>()));
        report.findings = topology_findings(&report);
        let unknown = keep(&mut report, self, &roots);
        Ok((report, roots, unknown))
    }
}

/// Of this machine; of another only what its copy says, which is not when and how it was made.
fn heading(args: &Args, roots: &Roots) -> Option<Heading> {
    if args.root == Path::new("/") {
        return page::heading("topo", None);
    }
    let host = &fathom_machine::host(roots);
    let origin = Origin {
        name: "topo",
        version: "",
        command: &[],
        started_unix_ns: 0,
        host,
        targets: &[],
        shared: false,
    };
    origin.heading()
}

fn unknown_target(name: &str) -> String {
    format!("{name} is not a block device or on one; `fathom topo` lists all")
}

/// Leaves only the targets in the report. Returns those that are not known.
fn keep(report: &mut TopologyReport, args: &Args, roots: &Roots) -> Vec<String> {
    if args.targets.is_empty() {
        return Vec::new();
    }
    let is_own = args.root == Path::new("/");
    let name = |target: &String| {
        let known = report.topology.volume(target).map(|volume| volume.name.clone());
        let node = || target.strip_prefix("/dev/").map(str::to_string);
        // Paths are those of this machine.
        let path = || is_own.then(|| volume_of(roots, target)).flatten();
        known.or_else(path).or_else(node).unwrap_or_else(|| target.clone())
    };
    let names: Vec<String> = args.targets.iter().map(name).collect();
    report.keep(&names)
}
