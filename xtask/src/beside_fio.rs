//! `cargo xtask beside-fio`: the same short jobs in fio and in fathom, and whether they did the same.

mod cases;

use crate::Result;
use cases::{CASES, Case, Same};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Length of the file that jobs find, in bytes.
const DATA_BYTES: u64 = 4 << 20;
/// Random shares may differ by this, and times by this part.
const TOLERANCE: f64 = 0.1;

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

/// What a tool did.
#[derive(Debug, PartialEq)]
struct Done {
    exit: Option<i32>,
    /// I/Os and bytes of reads, writes and trims, over all jobs.
    dirs: [(u64, u64); 3],
    /// The longest runtime of a job, in milliseconds.
    runtime_ms: u64,
}

/// Runs all cases and prints a table.
///
/// # Errors
/// A tool cannot be started, or a difference is not documented.
pub fn run(options: &Options) -> Result<()> {
    let fathom = std::path::absolute(&options.fathom)?;
    println!("| keys | reads | writes | trims | bytes | runtime, ms | exit | result |");
    println!("|---|---|---|---|---|---|---|---|");
    let wanted = |case: &&Case| options.only.as_ref().is_none_or(|part| case.keys.contains(part));
    let mut different = 0;
    for case in CASES.iter().filter(wanted) {
        let theirs = perform(&options.fio, &[], case, &options.directory)?;
        let own = ["run", "--no-record", "--sampling=off", "--overwrite=data", "--quiet"];
        let ours = perform(&fathom, &own, case, &options.directory)?;
        let result = match (case.is_same(&theirs, &ours), case.documented) {
            (true, _) => "same".to_string(),
            (false, Some(why)) => format!("documented: {why}"),
            (false, None) => {
                different += 1;
                "**differs**".to_string()
            }
        };
        println!("{}", row(case, &theirs, &ours, &result));
    }
    match different {
        0 => Ok(()),
        n => Err(format!("{n} jobs differ, and docs/fio-compat.md does not say how").into()),
    }
}

impl Case {
    fn is_same(&self, fio: &Done, fathom: &Done) -> bool {
        let near = |a: u64, b: u64| (a as f64 - b as f64).abs() <= TOLERANCE * (a.max(b) as f64);
        let sum = |done: &Done| done.dirs.iter().fold((0, 0), |s, d| (s.0 + d.0, s.1 + d.1));
        let shares_near = || {
            let mut dirs = fio.dirs.iter().zip(&fathom.dirs);
            dirs.all(|(a, b)| near(a.0, b.0) && near(a.1, b.1))
        };
        let work = match self.same {
            Same::All => fio.dirs == fathom.dirs,
            Same::Bytes => sum(fio).1 == sum(fathom).1 && shares_near(),
            Same::Total => fio.dirs.iter().map(|dir| dir.1).eq(fathom.dirs.iter().map(|dir| dir.1)),
            Same::Rate => shares_near() && near(fio.runtime_ms, fathom.runtime_ms),
            Same::Runtime => near(fio.runtime_ms, fathom.runtime_ms),
            Same::Exit => true,
        };
        work && fio.exit == fathom.exit
    }
}

/// Runs one case in a directory of its own.
fn perform(program: &Path, own: &[&str], case: &Case, directory: &Path) -> Result<Done> {
    let place = tempfile::tempdir_in(directory)?;
    std::fs::write(place.path().join("data"), vec![0x5a; DATA_BYTES as usize])?;
    let output = Command::new(program)
        .args(own)
        .args(["--output-format=json", "--eta=never"])
        .args(case.keys.split_whitespace().map(|key| format!("--{key}")))
        .current_dir(place.path())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // fio may print warnings before its JSON.
    let json = text.find('{').map_or("", |start| &text[start..]);
    let root: Value = serde_json::from_str(json).unwrap_or_default();
    let jobs = root["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |dir: &str, figure: &str| -> u64 {
        jobs.iter().filter_map(|job| job[dir][figure].as_u64()).sum()
    };
    let dirs = ["read", "write", "trim"];
    let runtime = |job: &Value| dirs.iter().filter_map(|dir| job[*dir]["runtime"].as_u64()).max();
    Ok(Done {
        exit: output.status.code(),
        dirs: dirs.map(|dir| (of(dir, "total_ios"), of(dir, "io_bytes"))),
        runtime_ms: jobs.iter().filter_map(runtime).max().unwrap_or(0),
    })
}

fn row(case: &Case, fio: &Done, fathom: &Done, result: &str) -> String {
    let pair = |a: u64, b: u64| if a == b { a.to_string() } else { format!("{a} / {b}") };
    let bytes = |done: &Done| done.dirs.iter().map(|dir| dir.1).sum();
    let ios = |dir: usize| pair(fio.dirs[dir].0, fathom.dirs[dir].0);
    let exit =
        |done: &Done| done.exit.map_or_else(|| "signal".to_string(), |code| code.to_string());
    let exits = match fio.exit == fathom.exit {
        true => exit(fio),
        false => format!("{} / {}", exit(fio), exit(fathom)),
    };
    let keys = case.keys.replace('|', "\\|");
    let cells = [
        format!("`{keys}`"),
        ios(0),
        ios(1),
        ios(2),
        pair(bytes(fio), bytes(fathom)),
        pair(fio.runtime_ms, fathom.runtime_ms),
        exits,
        result.to_string(),
    ];
    format!("| {} |", cells.join(" | "))
}
