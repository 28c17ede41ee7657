//! `cargo xtask beside-fio`: the same short jobs in fio and in fathom, and whether they did the same.

use crate::Result;
use crate::fio::{self, Done};
use crate::programs;
use crate::run::{Probe, attempt};
use crate::table::aligned;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Length of the file that jobs find, in bytes.
const DATA_BYTES: usize = 4 << 20;
/// Random shares may differ by this, and times by this part.
const TOLERANCE: f64 = 0.1;
const JOBS: &str = include_str!("beside_fio/jobs.txt");

#[derive(clap::Args)]
pub struct Options {
    /// fathom's program.
    #[arg(long, default_value = "target/release/fathom")]
    fathom: PathBuf,
    /// fio's program.
    #[arg(long, default_value = "fio")]
    fio: PathBuf,
    /// Where the jobs' files are created.
    #[arg(long, default_value = "target")]
    directory: PathBuf,
    /// Run only the cases whose keys contain this.
    #[arg(long)]
    only: Option<String>,
}

type Outcome = (Option<i32>, Done);

pub fn run(options: &Options) -> Result<()> {
    let (fathom, fio) = (programs::found(&options.fathom)?, programs::found(&options.fio)?);
    let header = ["keys", "reads", "writes", "trims", "bytes", "runtime, ms", "exit", "result"];
    let mut rows = vec![header.map(String::from)];
    let mut different = 0;
    for line in JOBS.lines().filter(|line| !line.starts_with('#')) {
        let (job, documented) =
            line.split_once(" | ").map_or((line, None), |(job, why)| (job, Some(why)));
        let (same, keys) = job.split_once(' ').ok_or("a job without keys")?;
        if options.only.as_ref().is_some_and(|part| !keys.contains(part)) {
            continue;
        }
        eprintln!("{keys}");
        let theirs = perform(&fio, &[], keys, &options.directory)?;
        let own = ["run", "--no-record", "--sampling=off", "--overwrite=data", "--quiet"];
        let ours = perform(&fathom, &own, keys, &options.directory)?;
        let result = match (is_same(same, &theirs, &ours)?, documented) {
            (true, _) => "same".to_string(),
            (false, Some(why)) => format!("documented: {why}"),
            (false, None) => {
                different += 1;
                "**differs**".to_string()
            }
        };
        rows.push(row(keys.trim(), &theirs, &ours, result));
    }
    println!("{}", aligned(&rows));
    match different {
        0 => Ok(()),
        n => Err(format!("{n} jobs differ, and docs/fio-compat.md does not say how").into()),
    }
}

fn is_same(what: &str, (fio_exit, fio): &Outcome, (exit, fathom): &Outcome) -> Result<bool> {
    let near = |a: u64, b: u64| (a as f64 - b as f64).abs() <= TOLERANCE * (a.max(b) as f64);
    let mut dirs = fio.dirs.iter().zip(&fathom.dirs);
    let runtime = near(fio.runtime_ms, fathom.runtime_ms);
    let work = match what {
        "all" => fio.dirs == fathom.dirs,
        "total" => dirs.all(|(a, b)| a.bytes == b.bytes),
        "runtime" => runtime,
        "exit" => true,
        "bytes" | "rate" => {
            let beside =
                if what == "rate" { runtime } else { fio.sum().bytes == fathom.sum().bytes };
            beside && dirs.all(|(a, b)| near(a.ios, b.ios) && near(a.bytes, b.bytes))
        }
        _ => return Err(format!("{what}: unknown in jobs.txt").into()),
    };
    Ok(work && fio_exit == exit)
}

fn perform(program: &Path, own: &[&str], keys: &str, directory: &Path) -> Result<Outcome> {
    let place = tempfile::tempdir_in(directory)?;
    std::fs::write(place.path().join("data"), vec![0x5a; DATA_BYTES])?;
    let mut args: Vec<String> = [own, &["--output-format=json", "--eta=never"]]
        .concat()
        .into_iter()
        .map(String::from)
        .collect();
    args.extend(keys.split_whitespace().map(|key| format!("--{key}")));
    let done = attempt(program, &args, place.path(), Probe::Nothing, Duration::from_secs(60))?;
    // What was refused did nothing.
    Ok((done.code, fio::read(&done.stdout).unwrap_or_default()))
}

fn row(
    keys: &str,
    (fio_exit, fio): &Outcome,
    (exit, fathom): &Outcome,
    result: String,
) -> [String; 8] {
    let pair = |a: String, b: String| if a == b { a } else { format!("{a} / {b}") };
    let counts = |of: fn(&Done) -> u64| pair(of(fio).to_string(), of(fathom).to_string());
    let status =
        |exit: &Option<i32>| exit.map_or_else(|| "signal".to_string(), |code| code.to_string());
    [
        format!("`{}`", keys.replace('|', "\\|")),
        counts(|done| done.dirs[0].ios),
        counts(|done| done.dirs[1].ios),
        counts(|done| done.dirs[2].ios),
        counts(|done| done.sum().bytes),
        counts(|done| done.runtime_ms),
        pair(status(fio_exit), status(exit)),
        result,
    ]
}
