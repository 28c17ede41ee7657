//! Compares fathom with its peers: each round runs every tool once, in rotating order, so that any other load affects all
//! of them equally.

mod beside;
mod cases;
mod results;
pub mod threads;
mod tools;
mod work;

use crate::fixtures::{self, Fixture, Loop, Zram};
use crate::{Result, programs};
use cases::{Case, Target};
use results::Rounds;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use tools::Tool;
use work::Work;

#[derive(clap::Args)]
pub struct Options {
    /// Rounds; each runs every tool once [default: 7, with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Short runs, to test the benchmarks themselves
    #[arg(long)]
    quick: bool,
    /// Length of each run in seconds [default: 5; for the rows of `disk` 2; with --quick 2 and 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    seconds: Option<u32>,
    /// fio's t/io_uring, built from its source; omitted from the comparison without it
    #[arg(long, value_name = "PATH")]
    t_io_uring: Option<PathBuf>,
    /// pSnapper's program `psn`; omitted from the comparison without it
    #[arg(long, value_name = "PATH")]
    psn: Option<PathBuf>,
    /// Run only the case of this name or, without one, those whose name contains it (may be given several times)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Use this fathom instead of building it
    #[arg(long, value_name = "PATH")]
    fathom: Option<PathBuf>,
    /// The fio to compare with
    #[arg(long, value_name = "PATH", default_value = "fio")]
    fio: PathBuf,
    /// Create the files in this directory, on the disk to be measured [default: target]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// List the cases
    #[arg(long)]
    list: bool,
}

struct Env {
    paths: Vec<(Tool, PathBuf)>,
    scratch: TempDir,
    reference: PathBuf,
    quick: bool,
    /// Length of each run, if set.
    seconds: Option<u32>,
}

/// Runs the benchmarks and prints the table. Speeds never fail it; a tool that fails does.
pub fn run(options: &Options) -> Result<()> {
    let known = cases::all()?;
    let cases: Vec<&Case> = known.iter().filter(|case| options.wants(case, &known)).collect();
    if cases.is_empty() {
        let names: Vec<&str> = known.iter().map(|case| case.name.as_str()).collect();
        return Err(format!("unknown case; valid cases are {}", names.join(", ")).into());
    }
    if options.list {
        cases.iter().for_each(|case| println!("{:<20} {}", case.name, case.title));
        return Ok(());
    }
    // With SIGINT caught, it ends only the running tool, and the fixtures are removed.
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted))?;
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&interrupted))?;

    let env = options.env()?;
    let rounds = options.rounds.unwrap_or(if options.quick { 2 } else { 7 });
    println!("{}\n", results::heading(&env, rounds));
    let mut all = Vec::new();
    for case in cases {
        all.push(run_case(case, &env, rounds, &interrupted)?);
    }
    let (rows, others): (Vec<_>, Vec<_>) = all.iter().partition(|case| case.case.in_row);
    if !rows.is_empty() {
        println!("{}\n", results::rows(&rows));
    }
    println!("{}\n\n{}", results::results(&others), results::commands(&all, &env));
    match all.iter().filter(|case| case.failed).count() {
        0 => Ok(()),
        n => Err(format!("{n} of {} cases failed; see the notes above", all.len()).into()),
    }
}

/// Runs all rounds of one case. An unavailable fixture is a note; a tool that fails
/// ends the case.
fn run_case<'a>(
    case: &'a Case,
    env: &Env,
    rounds: u32,
    interrupted: &AtomicBool,
) -> Result<Rounds<'a>> {
    let mut results = Rounds::new(case);
    let fixture = match work::permitted(case, env).and_then(|()| env.fixture(case.target)) {
        Ok(fixture) => fixture,
        Err(reason) => {
            results.note(format!("skipped: {reason}"));
            return Ok(results);
        }
    };
    for round in 1..=rounds {
        results.begin_round();
        let tools = env.paths.iter().map(|(tool, _)| *tool);
        let mut works: Vec<_> =
            tools.filter_map(|tool| Some((tool, Work::new(case, tool, &fixture, env)?))).collect();
        // The preceding tool can affect the speed of the next, so the order rotates.
        let first = (round as usize - 1) % works.len().max(1);
        works.rotate_left(first);
        for (tool, work) in works {
            eprintln!("{}: round {round} of {rounds}: {}", case.name, tool.title());
            fixture.warm()?;
            let outcome = work.measure();
            if interrupted.load(Ordering::Relaxed) {
                return Err("interrupted".into());
            }
            results.keep_command(work.description());
            match outcome {
                Ok(measured) => results.add(tool, measured),
                Err(error) => {
                    results.note(format!("{} failed: {error}", tool.title()));
                    results.failed = true;
                    return Ok(results);
                }
            }
        }
    }
    Ok(results)
}

impl Options {
    fn wants(&self, case: &Case, known: &[Case]) -> bool {
        let is_meant = |name: &String| {
            case.name == *name
                || case.name.contains(name) && known.iter().all(|other| other.name != *name)
        };
        (case.quick || !self.quick)
            && (self.only.is_empty() && !case.only_named || self.only.iter().any(is_meant))
    }

    fn env(&self) -> Result<Env> {
        let fathom = programs::fathom(self.fathom.as_deref())?;
        let fio = programs::found(&self.fio).unwrap_or_else(|_| self.fio.clone());
        let fio = programs::version(&fio).map(|_| fio);
        let fio = fio.inspect_err(|error| eprintln!("fio is skipped: {error}; install fio")).ok();
        if self.t_io_uring.is_none() {
            eprintln!("t/io_uring is skipped: give its path with --t-io-uring");
        }
        let given = |path: &Option<PathBuf>| path.as_deref().map(programs::found).transpose();
        let (t_io_uring, psn) = (given(&self.t_io_uring)?, given(&self.psn)?);
        let path = |program: &str| match program {
            "fathom" => Some(fathom.clone()),
            "fio" => fio.clone(),
            "psn" => psn.clone(),
            _ => t_io_uring.clone(),
        };
        let paths = Tool::ALL.into_iter().filter_map(|tool| Some((tool, path(tool.program())?)));
        let paths = paths.collect();
        let dir = match &self.dir {
            Some(dir) => dir.clone(),
            None => programs::target_dir()?,
        };
        let scratch =
            tempfile::Builder::new().prefix("fathom-bench-").tempdir_in(dir.canonicalize()?)?;
        let reference = scratch.path().join("reference");
        fixtures::sparse(&reference, 4 << 30)?;
        Ok(Env { paths, scratch, reference, quick: self.quick, seconds: self.seconds })
    }
}

impl Env {
    /// Creates the target. Files are kept until all cases are done, because others read them too.
    fn fixture(&self, target: Target) -> Result<Fixture> {
        let file = |name: &str, make: &dyn Fn(&Path) -> Result<()>| {
            let path = self.scratch.path().join(name);
            if !path.exists() {
                make(&path)?;
            }
            Ok(Fixture::File(path))
        };
        let size = |whole: u64| if self.quick { 64 << 20 } else { whole };
        match target {
            Target::Sparse(size) => {
                file(&format!("sparse-{}g", size >> 30), &|path| fixtures::sparse(path, size))
            }
            Target::Filled => file("filled", &|path| fixtures::filled(path, size(1 << 30))),
            Target::Loop => Ok(Fixture::Loop(Loop::new(self.scratch.path(), size(256 << 20))?)),
            Target::Zram(size) => Ok(Fixture::Zram(Zram::new(size)?)),
            Target::Threads(load) => Ok(Fixture::Threads(load.start()?)),
        }
    }
}
