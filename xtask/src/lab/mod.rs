//! The lab: fathom in emulated machines with Debian's kernels and real NVMe drivers. It tests correctness, not speed.
//! `docs/lab.md` describes how to run it and write cases.

mod case;
mod cpio;
mod cut;
mod debian;
mod guest;
mod hang;
mod host;
mod image;
mod modules;
mod qmp;
mod run;
mod schedule;
mod shell;

use crate::Result;
use case::{Case, Kernel};
use image::Image;
use run::{Fault, Outcome, Places};
use schedule::Boot;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

/// Number of concurrent guests, including those of other labs in the same tree.
const GUESTS: usize = 3;
/// Maximum number of lines printed of a failed case's log.
const TAIL: usize = 15;

#[derive(clap::Args)]
pub struct Options {
    /// The cases to run, or `shell` for a prompt in a guest [default: all cases]
    cases: Vec<String>,
    /// Run on this kernel only
    #[arg(long, value_name = "VERSION")]
    kernel: Option<Kernel>,
    /// The shell's machine, in the form that cases have
    #[arg(long, value_name = "TEXT", default_value = "")]
    machine: String,
    /// Parameters for the shell's kernel
    #[arg(long, value_name = "TEXT", default_value = "")]
    cmdline: String,
    /// List the cases
    #[arg(long)]
    list: bool,
    /// Fetch and build all that guests boot, and run no case
    #[arg(long)]
    prepare: bool,
}

/// Runs the cases and prints a line for each; an error if one failed.
pub fn run(options: &Options) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let all = read_cases(&root.join("lab/cases"))?;
    if options.list {
        all.iter().for_each(|case| println!("{:<24} {}", case.name, case.title));
        return Ok(());
    }
    let is_shell = options.cases == ["shell"];
    let kernel = options.kernel;
    let boots =
        if is_shell { Vec::new() } else { schedule::boots(&chosen(&all, &options.cases)?, kernel) };
    if boots.is_empty() && !is_shell {
        return Err("no case is for that kernel".into());
    }

    let start = Instant::now();
    let lab = root.join("target/lab");
    fs::create_dir_all(&lab)?;
    host::prepare()?;
    let dir = tempfile::Builder::new().prefix("fathom-lab-").tempdir()?;
    let mut kernels: Vec<Kernel> = boots.iter().map(|boot| boot.kernel).collect();
    if is_shell {
        kernels.push(kernel.unwrap_or(Kernel::V6_1));
    }
    let images = images(&root, &lab, dir.path(), kernels)?;
    if is_shell {
        let image = images.values().next().ok_or("no image")?;
        return shell::run(image, &options.machine, &options.cmdline, dir.path());
    }
    println!("the guests' files are ready after {:.0} s", start.elapsed().as_secs_f64());
    if options.prepare {
        return Ok(());
    }
    let places = Places { logs: lab.join("logs"), records: lab.join("records") };
    let Counts { passed, again, failed } = run_all(boots, &images, &places, &lab)?;
    let again =
        if again > 0 { format!(" ({again} of them in another guest)") } else { String::new() };
    println!("{passed} passed{again}, {failed} failed, in {:.0} s", start.elapsed().as_secs_f64());
    if failed > 0 { Err(format!("{failed} cases failed").into()) } else { Ok(()) }
}

fn read_cases(dir: &Path) -> Result<Vec<Case>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "sh"));
    paths.sort();
    paths.iter().map(|path| Case::read(path)).collect()
}

fn chosen(all: &[Case], names: &[String]) -> Result<Vec<Case>> {
    let known = || all.iter().map(|case| case.name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(name) = names.iter().find(|name| all.iter().all(|case| case.name != **name)) {
        return Err(format!("no case {name}; there are {}", known()).into());
    }
    let wanted = |case: &&Case| names.is_empty() || names.contains(&case.name);
    Ok(all.iter().filter(wanted).cloned().collect())
}

/// Downloads and builds the guests' files for these kernels. Only one lab at a time does so.
fn images(
    root: &Path,
    lab: &Path,
    dir: &Path,
    mut kernels: Vec<Kernel>,
) -> Result<BTreeMap<Kernel, Image>> {
    let lock = File::create(lab.join("lock"))?;
    lock.lock()?;
    kernels.sort();
    kernels.dedup();
    let programs = image::programs(root, dir)?;
    let build = |kernel| Ok((kernel, image::build(root, lab, dir, kernel, &programs)?));
    kernels.into_iter().map(build).collect()
}

/// Number of cases that passed, of those in another guest, and of failed ones.
#[derive(Default)]
struct Counts {
    passed: usize,
    again: usize,
    failed: usize,
}

/// Runs all boots, some of them concurrently.
fn run_all(
    boots: Vec<Boot>,
    images: &BTreeMap<Kernel, Image>,
    places: &Places,
    lab: &Path,
) -> Result<Counts> {
    let counts = Mutex::new(Counts::default());
    let report = |outcome: Outcome| {
        let mut counts = counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        print(&outcome);
        match (&outcome.first, &outcome.fault) {
            (_, Some(_)) => counts.failed += 1,
            (first, None) => {
                counts.passed += 1;
                counts.again += usize::from(first.is_some());
            }
        }
    };
    let boots = Mutex::new(boots.into_iter());
    let work = |index: usize| -> std::result::Result<(), String> {
        let next = || boots.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
        while let Some(boot) = next() {
            let run = || -> Result<()> {
                let slot = File::create(lab.join(format!("slot-{index}")))?;
                slot.lock()?;
                let image = images.get(&boot.kernel).ok_or("no image for a kernel")?;
                run::boot(&boot, image, places, &report)
            };
            run().map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let start = |index| std::thread::Builder::new().spawn_scoped(scope, move || work(index));
        let workers = (0..GUESTS).map(start).collect::<std::io::Result<Vec<_>>>();
        let workers = workers.map_err(|error| error.to_string())?;
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| "a guest's thread ended early")?)
    })?;
    Ok(counts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn print(outcome: &Outcome) {
    let Outcome { case, kernel, time, boot_time, first, fault } = outcome;
    let word = if fault.is_some() { "FAIL" } else { "ok" };
    let boot = match boot_time.as_secs_f64() {
        0.0 => String::new(),
        seconds => format!(" after {seconds:.1} s of booting"),
    };
    println!("{word:<4} {case:<24} {kernel:<4} {:>6.1} s{boot}", time.as_secs_f64());
    first.iter().for_each(|fault| explain("run again: its first guest was lost", fault));
    fault.iter().for_each(|fault| explain("failed", fault));
}

fn explain(when: &str, fault: &Fault) {
    let (console, log) = (fault.console.display(), fault.log.display());
    println!("     {when}: {}; console: {console}; log: {log}", fault.what);
    let quote = |lines: &[String]| lines.iter().for_each(|line| println!("     | {line}"));
    quote(&run::last_lines(&fault.log, TAIL, 0));
    if !fault.kernel.is_empty() {
        println!("     the guest's kernel:");
        quote(&fault.kernel);
    }
}
