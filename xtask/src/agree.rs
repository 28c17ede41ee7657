//! `cargo xtask agree`: fathom's figures beside those of other programs. A case, a shell file in agree/cases, obtains the
//! same figures from both and prints a row for each; agree/lib.sh describes their form.

use crate::Result;
use crate::programs::{self, fathom, found};
use crate::run::{Probe, attempt};
use crate::table::aligned;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A case that takes longer is stuck.
const LIMIT: Duration = Duration::from_secs(4 * 3600);
/// Difference that always agrees, in percent.
const PERCENT: f64 = 2.0;
/// $1 is the directory of this tool, $2 the case, and the others are the variables.
const SHELL: &str =
    "set -euo pipefail; ROOT=$1 FATHOM=$3 TIME=$4 ALL=$5 DIR=$PWD LC_ALL=C; export LC_ALL
    . \"$ROOT/lib.sh\"; . \"$ROOT/cases/$2.sh\"";

#[derive(clap::Args)]
pub struct Options {
    /// Run only the cases whose names contain one of these
    #[arg(value_name = "CASE")]
    only: Vec<String>,
    /// List the cases
    #[arg(long)]
    list: bool,
    /// Length of a measurement, in seconds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// A directory on a disk for the cases' files, which are deleted afterwards
    #[arg(long, default_value = "target")]
    dir: PathBuf,
    /// Use this fathom instead of building it
    #[arg(long, value_name = "PATH")]
    fathom: Option<PathBuf>,
    /// Print all figures, including those too small to compare
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Default, PartialEq)]
struct Row {
    figure: String,
    ours: f64,
    theirs: f64,
    /// Differences up to this come from sampling times or rounding.
    floor: f64,
    percent: f64,
    /// What the documentation says about a difference.
    documented: String,
}

impl Row {
    fn parse(line: &str) -> Result<Self> {
        let malformed = || format!("{line:?}: expected a figure and at least three numbers");
        let mut cells = line.split('\t');
        let figure = cells.next().unwrap_or_default().to_string();
        let mut number = || cells.next().filter(|cell| !cell.is_empty()).map(str::parse::<f64>);
        let (ours, theirs, floor) = (number(), number(), number());
        let numbers = ours.zip(theirs).zip(floor).ok_or_else(malformed)?;
        let ((Ok(ours), Ok(theirs)), Ok(floor)) = numbers else { return Err(malformed().into()) };
        let percent = number().transpose()?.unwrap_or(PERCENT);
        let documented = cells.next().unwrap_or_default().to_string();
        Ok(Self { figure, ours, theirs, floor, percent, documented })
    }

    fn agrees(&self) -> bool {
        let apart = (self.ours - self.theirs).abs();
        apart <= self.floor || apart <= self.percent / 100.0 * self.theirs.abs()
    }

    fn differs(&self) -> bool {
        !self.agrees() && self.documented.is_empty()
    }

    fn cells(&self, case: &str) -> [String; 6] {
        let difference = if self.theirs == 0.0 { 0.0 } else { self.ours / self.theirs - 1.0 };
        let result = match (self.agrees(), self.documented.as_str()) {
            (true, _) => String::new(),
            (false, "") => "**differs**".to_string(),
            (false, documented) => format!("documented: {documented}"),
        };
        [
            case.to_string(),
            self.figure.clone(),
            short(self.ours),
            short(self.theirs),
            format!("{:+.1}%", difference * 100.0),
            result,
        ]
    }
}

/// Runs the cases and prints the table; a case that fails is left out of it.
pub fn run(options: &Options) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agree").canonicalize()?;
    let is_chosen = |name: &str| options.only.iter().any(|part| name.contains(part));
    let mut cases = cases(&root)?;
    cases.retain(|(name, _)| options.only.is_empty() || is_chosen(name));
    if options.list {
        cases.iter().for_each(|(name, title)| println!("{name:<16} {title}"));
        return Ok(());
    }
    let program = found(&fathom(options.fathom.as_deref())?)?;
    let place = options.dir.canonicalize()?;
    let mut table = vec![["case", "figure", "fathom", "other", "difference", ""].map(String::from)];
    let (mut apart, mut failed) = (0, Vec::new());
    for (name, title) in &cases {
        eprintln!("{name}: {title}");
        match rows(&root, name, &program, &place, options) {
            Ok(rows) => {
                apart += rows.iter().filter(|row| row.differs()).count();
                table.extend(rows.iter().map(|row| row.cells(name)));
            }
            Err(error) => failed.push(format!("{name}: {error}")),
        }
    }
    println!("{}\n\n{apart} of {} figures differ.", aligned(&table), table.len() - 1);
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
}

/// The cases by name, each with its first line.
fn cases(root: &Path) -> Result<Vec<(String, String)>> {
    programs::cases(&root.join("cases"), |_, name, text| {
        let title = text.lines().next().and_then(|line| line.strip_prefix("# "));
        Ok((name.to_string(), title.ok_or("no title")?.to_string()))
    })
}

fn rows(
    root: &Path,
    name: &str,
    program: &Path,
    place: &Path,
    options: &Options,
) -> Result<Vec<Row>> {
    let dir = tempfile::Builder::new().prefix("fathom-agree-").tempdir_in(place)?;
    let text = |path: &Path| path.display().to_string();
    let all = if options.all { "1" } else { "" };
    let mut args = ["-c", SHELL, "agree"].map(String::from).to_vec();
    args.extend([text(root), name.into(), text(program), options.seconds.to_string(), all.into()]);
    let done = attempt(Path::new("bash"), &args, dir.path(), Probe::Nothing, LIMIT)?;
    if done.code != Some(0) {
        let last = done.stderr.lines().last().unwrap_or("failed without a message");
        return Err(last.into());
    }
    done.stdout.lines().map(Row::parse).collect()
}

fn short(value: f64) -> String {
    let digits = if value.abs() < 10.0 { 2 } else { usize::from(value.abs() < 1000.0) };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agrees() {
        let agrees = |line: &str| Row::parse(line).unwrap().agrees();
        assert!(agrees("r/s\t101.9\t100\t0.1") && agrees("r/s\t0.3\t0.4\t0.2"));
        assert!(!agrees("r/s\t102.1\t100\t0.1") && !agrees("r/s\t97.9\t100\t0.1"));
        assert!(!agrees("r/s\t1\t0\t0.1") && agrees("r/s\t92\t100\t0\t10"));
        assert!(!agrees("ios\t1001\t1000\t0\t0"));
        let row = Row::parse("ios\t1\t2\t0\t0\tfio loses some").unwrap();
        assert!(!row.agrees() && !row.differs());
        assert_eq!(row.cells("fio")[5], "documented: fio loses some");
        for bad in ["", "r/s", "r/s\t1\t2", "r/s\t1\t\t3", "r/s\tx\t1\t1"] {
            assert!(Row::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_row_shows_what_is_far_apart() {
        let cells = |line: &str| Row::parse(line).unwrap().cells("iostat");
        let far = cells("vda r/s\t1100\t1000\t0.1");
        assert_eq!(far, ["iostat", "vda r/s", "1100", "1000", "+10.0%", "**differs**"]);
        let near = cells("vda r_await\t1.234\t1.23\t0.01");
        assert_eq!(near[2..], ["1.23", "1.23", "+0.3%", ""].map(String::from));
    }

    #[test]
    fn every_case_says_what_it_compares() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agree");
        let cases = cases(&root).unwrap();
        assert!(cases.iter().any(|(name, _)| name == "counters"));
        for (name, _) in cases {
            let script = root.join(format!("cases/{name}.sh"));
            let parsed = std::process::Command::new("bash").arg("-n").arg(script).status();
            assert!(parsed.unwrap().success(), "{name}");
        }
    }
}
