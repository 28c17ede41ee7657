//! `fathom doctor`: checks of the machine and its disks, and the safe changes.

use crate::page::{self, PageArgs};
use crate::stdio::{self, error};
use crate::{Command, ranks, targets};
use fathom_analysis::rules::{Diagnosis, diagnose, topology_findings};
use fathom_analysis::topology::analyze;
use fathom_machine::settings::Settings;
use fathom_machine::topology::{PCI_IDS, topology};
use fathom_machine::{Roots, inspect};
use fathom_model::Finding;
use fathom_model::facts::DeviceFacts;
use fathom_model::setting::SettingChange;
use fathom_report::{json, pages};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// Disks, partitions, volumes, or files on them; by default all disks
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Make the safe changes, after confirmation; they last until the next boot or `fathom restore`
    #[arg(long)]
    fix: bool,
    /// Do not ask for confirmation
    #[arg(long, requires = "fix")]
    yes: bool,
    /// Exit with status 1 if there are warnings or errors
    #[arg(long)]
    strict: bool,
    /// Report on this machine alone, even if a launcher (mpiexec, srun) started several
    #[arg(long)]
    no_ranks: bool,
    #[command(flatten)]
    page: PageArgs,
}

pub fn command(args: &Args) -> Result<ExitCode, String> {
    let own =
        |command: &Command| match command {
            Command::Doctor(args) if !args.fix => json::text(&args.diagnose()?.1),
            _ => Err("with several ranks, nothing is changed; with --no-ranks, --fix changes each"
                .into()),
        };
    let compared = ranks::compare_hosts("doctor", args.no_ranks, &args.page, own)?;
    if let Some((all_inspected, report)) = compared {
        return Ok(status(all_inspected && (!args.strict || !report.has_problems())));
    }
    let to = args.page.destination(args.targets.iter().map(String::as_str))?;
    let (disks, diagnosis) = args.diagnose()?;
    let mut page = pages::doctor(&diagnosis, args.page.verbose);
    page.heading = page::heading("doctor", &disks);
    args.page.print(&page, || json::text(&diagnosis), to.as_ref())?;
    let is_fixed = !args.fix || fix(&diagnosis, args.yes)?;
    let has_problems = args.strict && diagnosis.has_problems();
    Ok(status(is_fixed && !has_problems))
}

fn status(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Args {
    fn diagnose(&self) -> Result<(Vec<DeviceFacts>, Diagnosis), String> {
        let roots = Roots::default();
        let disks = disks(&roots, &self.targets)?;
        let host = fathom_machine::host(&roots);
        let mut diagnosis = diagnose(&host, &inspect::inspect(&roots, &disks));
        diagnosis.topology = attachment(&roots, (!self.targets.is_empty()).then_some(&disks));
        Ok((disks, diagnosis))
    }
}

fn disks(roots: &Roots, targets: &[String]) -> Result<Vec<DeviceFacts>, String> {
    if targets.is_empty() {
        return Ok(inspect::all_disks(roots));
    }
    let names = targets::devices(roots, targets)?;
    Ok(inspect::disks_of(roots, names.iter().map(String::as_str)))
}

/// Findings about the links to `disks`; to all if none are named.
fn attachment(roots: &Roots, disks: Option<&Vec<DeviceFacts>>) -> Vec<Finding> {
    let databases: Vec<PathBuf> = PCI_IDS.iter().map(|path| Path::new("/").join(path)).collect();
    let mut report = analyze(topology(roots, &databases));
    if let Some(disks) = disks {
        let names: Vec<String> = disks.iter().map(|disk| disk.name.clone()).collect();
        // Disks that the topology does not know are not attached to a link.
        report.keep(&names);
    }
    topology_findings(&report)
}

/// Shows the changes and makes them if that is confirmed. Whether all were made.
fn fix(diagnosis: &Diagnosis, is_confirmed: bool) -> Result<bool, String> {
    let changes = diagnosis.changes();
    if changes.is_empty() {
        stdio::info("fathom: there are no safe changes to make");
        return Ok(true);
    }
    changes.iter().for_each(|change| stdio::print_line(&format!("change: {change}")));
    if !is_confirmed && !confirmed(changes.len())? {
        error!("nothing was changed");
        return Ok(false);
    }
    let settings = Settings::system();
    let mut is_done = true;
    for change in &changes {
        is_done &= made(&settings, change);
    }
    stdio::info("The changes last until the next boot; `fathom restore` undoes them.");
    Ok(is_done)
}

fn made(settings: &Settings, change: &SettingChange) -> bool {
    match settings.keep(std::slice::from_ref(change)) {
        Ok(applied) => {
            for one in applied {
                stdio::print_line(&format!("changed: {} (was {})", one.change, one.old));
            }
            true
        }
        Err(error) => {
            error!("{error}");
            false
        }
    }
}

fn confirmed(count: usize) -> Result<bool, String> {
    if !std::io::stdin().is_terminal() {
        return Err("standard input is not a terminal; confirm the changes with --yes".into());
    }
    let them = if count == 1 { "this change" } else { "these changes" };
    stdio::print_line(&format!("Make {them}? [y/N]"));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|e| format!("cannot read the answer: {e}"))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
