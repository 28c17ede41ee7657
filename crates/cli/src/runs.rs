//! `fathom runs`: lists, tags, exports, imports, removes and prunes recorded runs.

use crate::experiment::record_files;
use crate::output::Destination;
use crate::page::{self, PageArgs};
use crate::stdio::{self, error};
use crate::{quantity, show};
use fathom_model::{escape, units};
use fathom_report::json;
use fathom_report::pages::{self, RunRow, RunSummary};
use fathom_store::{
    DEFAULT_BYTES_MAX, DEFAULT_KEEP, RunEntry, Runs, archive_name, check_tag, read_record, set_tag,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<RunsCommand>,
    #[command(flatten)]
    page: PageArgs,
}

#[derive(clap::Subcommand)]
enum RunsCommand {
    /// Give runs a tag: a name for one run or several, such as all repetitions of a test
    ///
    /// Runs with a tag are not pruned, and do not count towards the limit of their size. `fathom compare` and `fathom show`
    /// take tags for runs.
    Tag(TagArgs),
    /// Take a tag away from runs; for RUN, the tag itself stands for all that have it
    Untag(TagArgs),
    /// Write complete runs to one file, to send it to somebody or to keep it
    ///
    /// The file has the files of each run directory as they are (.tar.zst). `fathom runs import` adds them to the runs of another
    /// machine, where `fathom show` and `fathom compare` take them.
    Export(ExportArgs),
    /// Add the runs in an exported file to those recorded here
    Import {
        /// File that `fathom runs export` wrote
        file: PathBuf,
    },
    /// Remove runs by name
    Remove {
        /// Names, as listed
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Remove the oldest runs, but none with a tag
    ///
    /// Without options, removes runs older than 90 days, then the oldest ones in excess of 4 GiB.
    Prune {
        /// Remove runs older than this, such as 30d
        #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
        keep: Option<Duration>,
        /// Remove the oldest runs until the rest takes at most this, such as 2g
        #[arg(long, value_name = "SIZE", value_parser = quantity::bytes)]
        max_size: Option<u64>,
    },
}

#[derive(clap::Args)]
struct TagArgs {
    /// Names of runs, or other tags
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The tag: letters, digits, '.', '_' and '-'
    #[arg(required = true, value_name = "TAG")]
    tag: String,
}

#[derive(clap::Args)]
struct ExportArgs {
    /// Recorded runs, by name, directory or tag
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Write to FILE; by default a new file RUN.tar.zst in the working directory
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
    /// Replace host names, serials, paths and command lines by hashes, for a vendor
    ///
    /// The same name has the same hash within the file, and cannot be guessed from it. User names, mapped devices, jobs and
    /// addresses of other machines are replaced, too; names of processes stay, because the verdict needs them. Tags and
    /// commands for a next step are left out.
    #[arg(long)]
    share: bool,
    /// Write the machine's figures instead as a Parquet table: one row per sample, columns as in `top --format csv`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "share"])]
    parquet: Option<String>,
}

pub fn command(args: &Args) -> Result<ExitCode, String> {
    let runs = Runs::open()?;
    match (&args.action, &runs) {
        (None, _) => {
            let entries = runs.map_or(Ok(Vec::new()), |runs| runs.list())?;
            let rows: Vec<RunRow> = entries.into_iter().map(row).collect();
            let to = args.page.destination(None)?;
            let mut page = pages::runs(&rows, page::zone());
            page.heading = page::heading("runs", None);
            args.page.print(&page, || json::text(&rows), to.as_ref())?;
        }
        (Some(RunsCommand::Tag(args)), _) => tag(args, true)?,
        (Some(RunsCommand::Untag(args)), _) => tag(args, false)?,
        (Some(RunsCommand::Export(args)), _) => export(args)?,
        (Some(RunsCommand::Import { file }), _) => import(file)?,
        (Some(RunsCommand::Remove { names }), Some(runs)) => {
            let mut all_gone = true;
            for name in names {
                if !runs.remove(name)? {
                    error!("{}", kept(name));
                    all_gone = false;
                }
            }
            return Ok(if all_gone { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        (Some(RunsCommand::Remove { names }), None) => {
            return Err(format!("no such run: {}; no runs are recorded", names[0]));
        }
        (Some(RunsCommand::Prune { keep, max_size }), Some(runs)) => {
            let (keep, bytes_max) = match (keep, max_size) {
                (None, None) => (DEFAULT_KEEP, DEFAULT_BYTES_MAX),
                _ => (keep.unwrap_or(Duration::MAX), max_size.unwrap_or(u64::MAX)),
            };
            let pruned = runs.prune(keep, bytes_max, fathom_engine::clock::unix_ns())?;
            pruned.kept.iter().for_each(|run| error!("{}", kept(&run.name)));
            let removed = pruned.removed;
            let bytes: u64 = removed.iter().map(|run| run.size_bytes).sum();
            let runs = plural(removed.len());
            stdio::info(&format!("fathom: removed {runs} of {}", units::bytes(bytes)));
        }
        (Some(RunsCommand::Prune { .. }), None) => stdio::info("fathom: no runs are recorded"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Gives all runs the tag, or takes it from them. Nothing is changed if one of them is not found.
fn tag(args: &TagArgs, is_set: bool) -> Result<(), String> {
    let tag = &args.tag;
    check_tag(tag)?;
    let dirs = args.runs.iter().map(|name| show::recorded(name));
    let dirs = dirs.collect::<Result<Vec<_>, String>>()?.concat();
    for dir in &dirs {
        let is_changed = set_tag(dir, tag, is_set)?;
        let word = match (is_set, is_changed) {
            (true, true) => "tagged",
            (false, true) => "untagged",
            (true, false) => "has the tag already",
            (false, false) => "does not have the tag",
        };
        stdio::info(&format!("fathom: {}: {word}", escape::path(dir)));
    }
    Ok(())
}

fn export(args: &ExportArgs) -> Result<(), String> {
    let dirs = args.runs.iter().map(|run| show::find_all(run));
    let dirs = dirs.collect::<Result<Vec<_>, String>>()?.concat();
    if let Some(name) = &args.parquet {
        return export_figures(&dirs, name);
    }
    let name = match &args.output {
        Some(file) => file.clone(),
        None => archive_name(&dirs, args.share)?,
    };
    // Nobody named it, so that nobody wants it replaced.
    if args.output.is_none() && Path::new(&name).symlink_metadata().is_ok() {
        return Err(format!("{name} already exists; name a file with --output"));
    }
    let used = record_files(&dirs);
    let to = Destination::open(&name, used.iter().map(String::as_str))?;
    let (dir, file) = to.file_name().map_err(|error| format!("--output={name}: {error}"))?;
    let bytes = fathom_store::export(&dirs, args.share, dir, file)?;
    let (runs, bytes) = (plural(dirs.len()), units::bytes(bytes));
    stdio::info(&format!("fathom: wrote {}: {runs}, {bytes}", escape::text(&name)));
    if args.share {
        stdio::info(
            "fathom: host names, serials, paths and command lines are replaced; tags and commands for a next step are left out",
        );
    }
    Ok(())
}

#[cfg(not(feature = "parquet"))]
fn export_figures(_: &[PathBuf], _: &str) -> Result<(), String> {
    Err("--parquet: not in this build; install one that has it with `cargo install --path crates/cli --features parquet`".into())
}

#[cfg(feature = "parquet")]
fn export_figures(dirs: &[PathBuf], name: &str) -> Result<(), String> {
    let used = record_files(dirs);
    let named = |why: String| why.replacen("--output=", "--parquet=", 1);
    let to = Destination::open(name, used.iter().map(String::as_str)).map_err(named)?;
    let (dir, file) = to.file_name().map_err(|error| format!("--parquet={name}: {error}"))?;
    let mut rows = 0;
    let written = dir.replace_with(file, fathom_store::Readers::Umask, |file| {
        rows = crate::parquet::write(dirs, file)?;
        Ok(())
    });
    written.map_err(|error| format!("cannot export to {error}"))?;
    stdio::info(&format!("fathom: wrote {}: {rows} rows", escape::text(name)));
    Ok(())
}

fn import(file: &Path) -> Result<(), String> {
    let now = fathom_engine::clock::unix_ns();
    for run in fathom_store::import(file)? {
        let is_old = u128::from(now.saturating_sub(run.started_unix_ns)) > DEFAULT_KEEP.as_nanos();
        let word = match (run.is_new, is_old) {
            (false, _) => "exists already",
            (true, false) => "imported",
            (true, true) => {
                "imported; the next run prunes it, unless it gets a tag (fathom runs tag)"
            }
        };
        stdio::info(&format!("fathom: {}: {word}", run.name));
    }
    Ok(())
}

fn kept(name: &str) -> String {
    format!("{name} was not removed: it contains what fathom did not create; remove that yourself")
}

fn plural(runs: usize) -> String {
    if runs == 1 { "1 run".to_string() } else { format!("{runs} runs") }
}

fn row(entry: RunEntry) -> RunRow {
    let unread = |error: String| RunSummary { headline: error.into(), ..RunSummary::default() };
    RunRow {
        summary: summary(&entry).unwrap_or_else(unread),
        started_unix_ns: entry.started_unix_ns,
        name: entry.name,
        tags: entry.tags,
        in_progress: entry.is_active,
        size_bytes: entry.size_bytes,
    }
}

fn summary(entry: &RunEntry) -> Result<RunSummary, String> {
    Ok(pages::run_summary(&read_record(&entry.path)?))
}
