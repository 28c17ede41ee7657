//! fio's own tests with fathom in fio's place: which of those pass that pass with fio.

use crate::programs;
use crate::run::{self, Probe};
use crate::{Result, table};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Tests from this number on are programs of fio's own.
const OWN_PROGRAMS: std::ops::RangeInclusive<u32> = 1000..=1099;
const LIMIT: Duration = Duration::from_secs(3600);
/// What fio's tests need of Python.
const PACKAGES: &str = "statsmodels scipy";

#[derive(clap::Args)]
pub struct Options {
    /// A directory with fio's source, in which fio is built
    #[arg(long, value_name = "DIR")]
    source: PathBuf,
    /// The fathom to test; without it, a release is built
    #[arg(long, value_name = "FILE")]
    fathom: Option<PathBuf>,
    /// Numbers of tests; without any, all that run job files
    tests: Vec<u32>,
}

pub fn run(options: &Options) -> Result<()> {
    let source = programs::found(&options.source)?;
    let fathom = programs::fathom(options.fathom.as_deref())?;
    let dir = tempfile::tempdir()?;
    let python = python()?;
    // fathom speaks as fio only by that name.
    let as_fio = dir.path().join("fio");
    std::os::unix::fs::symlink(&fathom, &as_fio)?;
    let suite = |fio: &Path, name: &str| -> Result<BTreeMap<u32, String>> {
        let script = source.join("t/run-fio-tests.py").display().to_string();
        let artifacts = dir.path().join(name).display().to_string();
        let (root, fio) = (source.display().to_string(), fio.display().to_string());
        let args = [script, "-r".into(), root, "-f".into(), fio, "-a".into(), artifacts];
        let mut args: Vec<String> = args.into();
        let (which, numbers) = match options.tests.as_slice() {
            [] => ("-s", OWN_PROGRAMS.map(|n| n.to_string()).collect::<Vec<_>>()),
            some => ("-o", some.iter().map(u32::to_string).collect()),
        };
        args.push(which.into());
        args.extend(numbers);
        let done = run::attempt(&python, &args, dir.path(), Probe::Nothing, LIMIT)?;
        let outcomes = outcomes(&done.stdout);
        if outcomes.is_empty() {
            let last = done.stderr.lines().last().unwrap_or("it printed nothing").to_string();
            return Err(format!("{}: {last}", source.join("t/run-fio-tests.py").display()).into());
        }
        Ok(outcomes)
    };
    let by_fio = suite(&source.join("fio"), "by-fio")?;
    let by_fathom = suite(&as_fio, "by-fathom")?;
    let passes = |outcome: &str| outcome.starts_with("PASSED");
    let passed: Vec<&u32> = by_fio.iter().filter(|(_, o)| passes(o)).map(|(n, _)| n).collect();
    let mut rows = vec![["test".to_string(), "with fathom".to_string()]];
    let mut same = 0;
    for number in &passed {
        let outcome = by_fathom.get(number).map_or("not run", String::as_str);
        same += usize::from(passes(outcome));
        rows.push([number.to_string(), outcome.chars().take(120).collect()]);
    }
    print!("{}", table::aligned(&rows));
    println!("\n{same} of {} tests that pass with fio pass with fathom", passed.len());
    if same == passed.len() { Ok(()) } else { Err("some tests of fio fail".into()) }
}

/// `Test 7 FAILED:  non-zero return code, t0007.fio`, by number.
fn outcomes(text: &str) -> BTreeMap<u32, String> {
    let outcome = |line: &str| {
        let (number, outcome) = line.strip_prefix("Test ")?.split_once(' ')?;
        Some((number.parse().ok()?, outcome.to_string()))
    };
    text.lines().filter_map(outcome).collect()
}

/// A Python that has what fio's tests need, installed below the target directory.
fn python() -> Result<PathBuf> {
    let venv = programs::target_dir()?.join("fio-suite");
    let python = venv.join("bin/python3");
    if !venv.join("bin/pip").exists() {
        let args = ["-m".into(), "venv".into(), venv.display().to_string()];
        run::attempt(Path::new("python3"), &args, Path::new("/"), Probe::Nothing, LIMIT)?;
    }
    let mut args: Vec<String> = ["-m", "pip", "--quiet", "install"].map(String::from).into();
    args.extend(PACKAGES.split(' ').map(String::from));
    let done = run::attempt(&python, &args, Path::new("/"), Probe::Nothing, LIMIT)?;
    match done.code {
        Some(0) => Ok(python),
        _ => Err(format!("pip cannot install {PACKAGES}: {}", done.stderr.trim()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read_by_number() {
        let text = "fio root is /x\nTest 1 PASSED t0001.fio\nTest 27 FAILED:  a, b t0027.fio\nx";
        let found = outcomes(text);
        assert_eq!(found.keys().collect::<Vec<_>>(), [&1, &27]);
        assert_eq!(found[&27], "FAILED:  a, b t0027.fio");
    }
}
