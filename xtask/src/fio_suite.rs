//! fio's own tests with fathom in fio's place: which of those pass that pass with fio, and of its scripts, how many tests.

use crate::programs;
use crate::run::{self, Probe};
use crate::{Result, table};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Tests from this number on are programs of fio's own.
const OWN_PROGRAMS: std::ops::RangeInclusive<u32> = 1000..=1099;
const LIMIT: Duration = Duration::from_secs(3600);
struct Script {
    name: &'static str,
    /// How it takes its fio, and where it may write.
    how: &'static str,
    /// Tests that fathom cannot pass, and why.
    lacks: (usize, &'static str),
}

const fn script(name: &'static str, how: &'static str) -> Script {
    Script { name, how, lacks: (0, "") }
}

const PLAIN: &str = "-f FIO -a DIR";
const SCRIPTS: [Script; 11] = [
    script("readonly", PLAIN),
    script("sequence", PLAIN),
    script("log_compression", "-f FIO"),
    script("strided", PLAIN),
    script("verify_state_save", PLAIN),
    script("verify-trim", "-k -f FIO -a DIR --dut DEVICE"),
    script("latency_percentiles", PLAIN),
    Script {
        name: "random_seed",
        how: PLAIN,
        lacks: (4, "they read the seeds of fio's generators (--debug=random)"),
    },
    script("numberio_overlap", PLAIN),
    Script {
        name: "steadystate_tests",
        how: "FIO",
        lacks: (6, "they read how fio parses options (--debug=parse)"),
    },
    script("verify", PLAIN),
];
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
    /// A block device that may be overwritten, as fathom's --erase takes it; without it, verify-trim is left out
    #[arg(long, value_name = "DEVICE[@SERIAL]")]
    erase: Option<String>,
    /// Numbers of tests, and names of scripts in fio's t/ without `.py`; without any, all that run job files, and all
    /// scripts
    tests: Vec<String>,
}

pub fn run(options: &Options) -> Result<()> {
    let source = programs::found(&options.source)?;
    let fathom = programs::fathom(options.fathom.as_deref())?;
    let dir = tempfile::tempdir()?;
    let python = python()?;
    // fathom speaks as fio only by that name.
    let as_fio = dir.path().join("fio");
    std::os::unix::fs::symlink(&fathom, &as_fio)?;
    let numbers: Vec<&String> = options.tests.iter().filter(|t| t.parse::<u32>().is_ok()).collect();
    let jobs = match options.tests.is_empty() || !numbers.is_empty() {
        true => job_files(&numbers, &python, &source, &as_fio)?,
        false => true,
    };
    let scripts = scripts(options, &python, &source, &as_fio, dir.path())?;
    if jobs && scripts { Ok(()) } else { Err("some tests of fio fail".into()) }
}

/// Whether as many tests of each script pass as with fio.
fn scripts(
    options: &Options,
    python: &Path,
    source: &Path,
    as_fio: &Path,
    dir: &Path,
) -> Result<bool> {
    let wanted = |script: &&Script| {
        (options.tests.is_empty() || options.tests.iter().any(|test| test == script.name))
            && (options.erase.is_some() || !script.how.contains("DEVICE"))
    };
    let device = options.erase.as_deref().unwrap_or_default();
    // fathom erases only what its command line names.
    let erasing = dir.join("erasing/fio");
    std::fs::create_dir_all(dir.join("erasing"))?;
    let text = format!("#!/bin/sh\nexec '{}' '--erase={device}' \"$@\"\n", as_fio.display());
    std::fs::write(&erasing, text)?;
    std::fs::set_permissions(&erasing, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let mut rows = vec![["script", "with fio", "with fathom", "known"].map(String::from)];
    let mut same = true;
    for Script { name, how, lacks: (lacks, why) } in SCRIPTS.iter().filter(wanted) {
        let path = source.join(format!("t/{name}.py")).display().to_string();
        let ours = if how.contains("DEVICE") { erasing.as_path() } else { as_fio };
        let mut counts = Vec::new();
        for (by, fio) in [("fio", source.join("fio")), ("fathom", ours.to_path_buf())] {
            let work = dir.join(format!("{name}-by-{by}"));
            std::fs::create_dir(&work)?;
            let word = |word: &str| match word {
                "FIO" => fio.display().to_string(),
                "DIR" => work.join("artifacts").display().to_string(),
                "DEVICE" => device.split('@').next().unwrap_or_default().to_string(),
                word => word.to_string(),
            };
            let args: Vec<String> =
                std::iter::once(path.clone()).chain(how.split(' ').map(word)).collect();
            let done = run::attempt(python, &args, &work, Probe::Nothing, LIMIT)?;
            counts.push((counted(&done.stdout), done.code));
        }
        let shown = |((passed, failed), code): &((usize, usize), Option<i32>)| {
            let code = code.map_or("a signal".to_string(), |code| code.to_string());
            format!("{passed} passed, {failed} failed, status {code}")
        };
        let [(by_fio, status), (by_fathom, our_status)] = counts[..] else { continue };
        same &= by_fathom.0 + lacks >= by_fio.0;
        same &= *lacks > 0 || status != Some(0) || our_status == Some(0);
        let known = if *lacks > 0 { format!("{lacks} fail: {why}") } else { String::new() };
        rows.push([name.to_string(), shown(&counts[0]), shown(&counts[1]), known]);
    }
    print!("\n{}", table::aligned(&rows));
    Ok(same)
}

/// How many lines of a script's output say that a test passed, and that one failed.
fn counted(text: &str) -> (usize, usize) {
    let lines = |word: &str, other: &str| {
        text.lines().filter(|line| line.contains(word) && !line.contains(other)).count()
    };
    (lines("PASSED", "FAILED"), lines("FAILED", "PASSED"))
}

/// Whether all tests of run-fio-tests.py that pass with fio pass with fathom.
fn job_files(numbers: &[&String], python: &Path, source: &Path, as_fio: &Path) -> Result<bool> {
    let dir = tempfile::tempdir()?;
    let suite = |fio: &Path, name: &str| -> Result<BTreeMap<u32, String>> {
        let script = source.join("t/run-fio-tests.py").display().to_string();
        let artifacts = dir.path().join(name).display().to_string();
        let (root, fio) = (source.display().to_string(), fio.display().to_string());
        let args = [script, "-r".into(), root, "-f".into(), fio, "-a".into(), artifacts];
        let mut args: Vec<String> = args.into();
        let (which, numbers) = match numbers {
            [] => ("-s", OWN_PROGRAMS.map(|n| n.to_string()).collect::<Vec<_>>()),
            some => ("-o", some.iter().map(|number| number.to_string()).collect()),
        };
        args.push(which.into());
        args.extend(numbers);
        let done = run::attempt(python, &args, dir.path(), Probe::Nothing, LIMIT)?;
        let outcomes = outcomes(&done.stdout);
        if outcomes.is_empty() {
            let last = done.stderr.lines().last().unwrap_or("it printed nothing").to_string();
            return Err(format!("{}: {last}", source.join("t/run-fio-tests.py").display()).into());
        }
        Ok(outcomes)
    };
    let by_fio = suite(&source.join("fio"), "by-fio")?;
    let by_fathom = suite(as_fio, "by-fathom")?;
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
    Ok(same == passed.len())
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
    fn tests_of_scripts_are_counted() {
        let text = "x\nTest 1 PASSED 1\n****Test 4 FAILED****\nTest with a=1 PASSED\n2 tests PASSED, 1 FAILED";
        assert_eq!(counted(text), (2, 1));
    }

    #[test]
    fn outcomes_are_read_by_number() {
        let text = "fio root is /x\nTest 1 PASSED t0001.fio\nTest 27 FAILED:  a, b t0027.fio\nx";
        let found = outcomes(text);
        assert_eq!(found.keys().collect::<Vec<_>>(), [&1, &27]);
        assert_eq!(found[&27], "FAILED:  a, b t0027.fio");
    }
}
