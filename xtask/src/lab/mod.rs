//! The lab: fathom in emulated machines with Debian's kernels and real NVMe drivers. It tests correctness, not speed.
//! `docs/lab.md` describes how to run it and write cases.

mod case;
mod cut;
mod guest;
mod hang;
mod qmp;
mod run;
mod schedule;

use crate::{Result, programs};
use case::{Case, Kernel, Machine};
use fathom_model::list;
use guest::Setup;
use run::{Fault, Outcome, Places};
use schedule::{Boot, Kernels};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
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
    /// Run each case on all of its kernels, not on the first one alone, and those that need an idle host
    #[arg(long, conflicts_with = "kernel")]
    all: bool,
    /// The shell's machine, in the form that cases have
    #[arg(long, value_name = "TEXT", default_value = "")]
    machine: String,
    /// Parameters for the shell's kernel
    #[arg(long, value_name = "TEXT", default_value = "")]
    cmdline: String,
    /// Use the programs in this directory, such as target/debug, instead of building them
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// List the cases
    #[arg(long)]
    list: bool,
    /// Fetch and build all that guests boot, and run no case
    #[arg(long)]
    prepare: bool,
}

pub fn run(options: &Options) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let all = programs::cases(&root.join("lab/cases"), |_, name, text| Case::parse(name, text))?;
    if options.list {
        all.iter().for_each(|case| println!("{:<24} {}", case.name, case.title));
        return Ok(());
    }
    let is_shell = options.cases == ["shell"];
    let kernels = match options.kernel {
        Some(kernel) => Kernels::Only(kernel),
        None if options.all => Kernels::All,
        None => Kernels::First,
    };
    let boots = match is_shell {
        true => Vec::new(),
        false => schedule::boots(&chosen(&all, options)?, kernels),
    };
    if boots.is_empty() && !is_shell {
        return Err("no case is for that kernel".into());
    }

    let start = Instant::now();
    let lab = root.join("target/lab");
    fs::create_dir_all(&lab)?;
    let dir = tempfile::Builder::new().prefix("fathom-lab-").tempdir()?;
    let of_peers = boots.iter().flat_map(|boot| &boot.cases[0].peers).copied();
    let mut kernels: Vec<Kernel> = boots.iter().map(|boot| boot.kernel).chain(of_peers).collect();
    if is_shell {
        kernels.push(options.kernel.unwrap_or(Kernel::V6_1));
    }
    let kernels = list::ascending(kernels);
    build_images(&root, &lab, dir.path(), options.programs.as_deref(), &kernels)?;
    if is_shell {
        return shell(options, kernels[0], dir.path());
    }
    println!("the guests' files are ready after {:.0} s", start.elapsed().as_secs_f64());
    if options.prepare {
        return Ok(());
    }
    let images = dir.path().to_path_buf();
    let places = Places { images, logs: lab.join("logs"), records: lab.join("records") };
    let Counts { passed, failed, repeated } = run_all(boots, &places, &lab)?;
    println!("{passed} passed, {failed} failed, in {:.0} s", start.elapsed().as_secs_f64());
    if !repeated.is_empty() {
        println!("repeated in a fresh guest: {}", repeated.join(", "));
    }
    if failed > 0 { Err(format!("{failed} cases failed").into()) } else { Ok(()) }
}

fn chosen(all: &[Case], options: &Options) -> Result<Vec<Case>> {
    let names = &options.cases;
    let known = || all.iter().map(|case| case.name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(name) = names.iter().find(|name| all.iter().all(|case| case.name != **name)) {
        return Err(format!("no case {name}; there are {}", known()).into());
    }
    let wanted = |case: &&Case| match names.is_empty() {
        true => options.all || !case.only_with_all,
        false => names.contains(&case.name),
    };
    Ok(all.iter().filter(wanted).cloned().collect())
}

/// Downloads and builds the guests' files for these kernels. Only one lab at a time does so.
///
/// Without given programs, builds them the way the tests do: optimized ones would take minutes to build, and save less in
/// the guests.
fn build_images(
    root: &Path,
    lab: &Path,
    dir: &Path,
    programs: Option<&Path>,
    kernels: &[Kernel],
) -> Result<()> {
    let lock = File::create(lab.join("lock"))?;
    lock.lock()?;
    let target = root.join("target");
    if programs.is_none() {
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--quiet", "--locked", "--workspace", "--bins", "--target-dir"]);
        if !cargo.arg(&target).current_dir(root).status()?.success() {
            return Err("fathom did not build".into());
        }
    }
    let programs = programs.map_or_else(|| target.join("debug"), Path::to_path_buf);
    let mut image = Command::new(root.join("lab/image.sh"));
    image.args([lab, dir, &programs]).args(kernels.iter().map(|kernel| kernel.name()));
    let status = image.status()?;
    if status.success() { Ok(()) } else { Err(format!("lab/image.sh: {status}").into()) }
}

/// A prompt in a guest, on the terminal.
fn shell(options: &Options, kernel: Kernel, dir: &Path) -> Result<()> {
    let setup = Setup {
        images: dir,
        kernel,
        machine: &Machine::parse(&options.machine)?,
        cmdline: &format!("lab.shell {}", options.cmdline),
        peers: &[],
        number: 0,
        logged: false,
        dir: dir.to_path_buf(),
        console: dir.join("console"),
    };
    guest::make_disks(&setup)?;
    println!("`exit` ends the guest, Ctrl-A X kills it");
    let arguments = guest::arguments(&setup, guest::GuestPeer::Terminal);
    let status = Command::new(guest::QEMU).args(arguments).status()?;
    if status.success() { Ok(()) } else { Err(format!("QEMU: {status}").into()) }
}

/// Number of cases that passed and that failed, and those of both that were repeated.
#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    repeated: Vec<String>,
}

fn run_all(boots: Vec<Boot>, places: &Places, lab: &Path) -> Result<Counts> {
    let counts = Mutex::new(Counts::default());
    let report = |outcome: Outcome| {
        let mut counts = counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        print(&outcome);
        counts.passed += usize::from(outcome.passed);
        counts.failed += usize::from(!outcome.passed);
        if outcome.faults.len() + usize::from(outcome.passed) > 1 {
            let result = if outcome.passed { "passed" } else { "failed" };
            let Outcome { case, kernel, .. } = outcome;
            counts.repeated.push(format!("{case} on {kernel} ({result})"));
        }
    };
    let boots = Mutex::new(boots.into_iter());
    let work = |index: usize| -> std::result::Result<(), String> {
        let next = || boots.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
        while let Some(boot) = next() {
            let run = || -> Result<()> {
                let slot = File::create(lab.join(format!("slot-{index}")))?;
                slot.lock()?;
                run::boot(&boot, places, &report)
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
    let Outcome { case, kernel, time, boot_time, faults, passed } = outcome;
    let word = if *passed { "ok" } else { "FAIL" };
    let boot = match boot_time.as_secs_f64() {
        0.0 => String::new(),
        seconds => format!(" after {seconds:.1} s of booting"),
    };
    println!("{word:<4} {case:<24} {kernel:<4} {:>6.1} s{boot}", time.as_secs_f64());
    for (index, fault) in faults.iter().enumerate() {
        explain(index + 1, fault);
    }
    if *passed && !faults.is_empty() {
        println!("     attempt {}: passed, in a fresh guest", faults.len() + 1);
    }
}

fn explain(attempt: usize, fault: &Fault) {
    let (console, log) = (fault.console.display(), fault.log.display());
    let failed = if fault.lost { "lost its guest" } else { "failed" };
    println!("     attempt {attempt} {failed}: {}; console: {console}; log: {log}", fault.what);
    let quote = |lines: &[String]| lines.iter().for_each(|line| println!("     | {line}"));
    quote(&run::last_lines(&fault.log, TAIL, 0));
    if !fault.kernel.is_empty() {
        println!("     the guest's kernel:");
        quote(&fault.kernel);
    }
}
