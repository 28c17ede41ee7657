//! fathom drives storage as fast as Linux allows and reports what limits throughput, with the evidence.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod blocks;
mod clean;
mod cmdline;
mod compare;
mod confirm;
mod doctor;
mod experiment;
mod limit;
mod live;
mod logs;
mod manual;
mod output;
mod page;
#[cfg(feature = "parquet")]
mod parquet;
mod predict;
mod quantity;
mod ranks;
mod record;
mod report;
mod rounds;
mod run;
mod runs;
mod settings;
mod show;
mod signals;
mod stacks;
mod stdio;
mod steady;
mod sweep;
mod targets;
mod threads;
mod top;
mod topics;
mod topo;
mod verify;
mod watch;

use crate::cmdline::Refusal;
use crate::page::Color;
use crate::stdio::{Kind, error};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use fathom_model::escape;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

/// Load generator and analyzer for Linux storage: drives disks, samples the machine, and reports what limits throughput.
#[derive(Parser)]
#[command(name = "fathom", version, arg_required_else_help = true, disable_help_subcommand = true)]
struct Cli {
    /// When to use color
    ///
    /// `auto` uses color on a terminal, unless NO_COLOR is set.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    color: Color,
    /// Show times in UTC instead of local time
    #[arg(long, global = true)]
    utc: bool,
    /// Print results and errors only
    #[arg(short, long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find how fast a disk or file is, and what limits it
    ///
    /// For small and large blocks, `fathom limit` finds the peak, the knee (the lowest load that reaches 95% of the peak)
    /// and the bottleneck, confirmed by tests that change one thing at a time. Without a target it measures a scratch file in the
    /// current directory, which it removes afterwards.
    ///
    /// Files and devices that you name are only read, unless --rw includes writes and --overwrite or --erase permits
    /// them.
    #[command(after_help = "\
Examples:
  fathom limit /dev/nvme0n1          random reads of a disk, about a minute
  fathom limit --quick               a scratch file in this directory, read and written")]
    Limit(limit::Args),
    /// Run fio job files and command lines
    ///
    /// Every fio key is honored, or refused by name with the reason. The result is a summary of the run, fio's JSON or
    /// fio's terse output. The job file `-` is standard input.
    #[command(
        disable_help_flag = true,
        after_help = "\
Examples:
  fathom run --rw=randread --bs=4k --iodepth=32 --runtime=10 --time_based /dev/nvme0n1
  fathom run job.fio --output-format=json --output=result.json"
    )]
    Run {
        /// Job files, or --key=value and targets; `fathom run --help` lists all keys
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Measure a grid of block sizes, queue depths, workers or loads, and plot the curves
    ///
    /// Every key takes a list (4k,64k) or a range (1..128, which doubles). Cells are measured in random order, round after
    /// round, until each is known to within 3%. The table marks the knee of each curve and the points that are
    /// statistically tied with its best.
    #[command(after_help = "\
Examples:
  fathom sweep --bs=4k,64k,1m --iodepth=1..128 /dev/nvme0n1
  fathom sweep --rate=10%..100% --format=html -o load.html /dev/nvme0n1")]
    Sweep(sweep::Args),
    /// Compare variants of a job: one thing changed at a time, in random rounds
    ///
    /// Variants differ in job keys, machine settings (restored afterwards), sampling, or the command that generates the
    /// load. The baseline is measured twice in each round (A/A), as a control.
    #[command(after_help = "\
Examples:
  fathom try scheduler /dev/nvme0n1  a built-in experiment; --list shows all
  fathom try 'rw=randread bs=4k iodepth=1' 'rw=randread bs=4k iodepth=8' FILE")]
    Try(experiment::Args),
    /// Test the verdict of a recorded run: does changing what limited it change its IOPS?
    ///
    /// Repeats the run's jobs in short windows for up to 30 seconds, with and without one change, such as twice the queue
    /// depth or no I/O scheduler. The first limiter becomes confirmed, refuted or inconclusive; if it is refuted, the next
    /// one is tested. The record keeps the result, and settings of the machine are restored. Targets that the run wrote
    /// need --overwrite or --erase again.
    #[command(after_help = "\
Examples:
  fathom confirm                     the latest run
  fathom confirm RUN --erase /dev/nvme0n1")]
    Confirm(confirm::Args),
    /// Show the machine live: CPUs, memory, disks, threads, CPU time by kernel layer
    ///
    /// On a terminal, `fathom top` is a full-screen view; `?` lists its keys. Otherwise, or with --format, it prints one
    /// line per interval. --replay shows a recorded run or ring the same way.
    #[command(after_help = "\
Examples:
  fathom top -i 2                    the full screen, sampled every 2 seconds
  fathom top --replay DIR            a recorded run, forwards and backwards")]
    Top(top::Args),
    /// Record and summarize the machine during a command, a process or a time span
    ///
    /// Ends when the command or the processes end, after --duration, or at Ctrl-C. The summary names what limited the
    /// program. With a command, it goes to standard error.
    #[command(after_help = "\
Examples:
  fathom watch -- make -j8           a command and everything it starts
  fathom watch --confirm -p 4711     a process, and a test of what limits it")]
    Watch(watch::Args),
    /// Show what threads do: state, system call, wait channel, kernel stack
    ///
    /// Samples threads from /proc or with a BPF iterator, and groups the samples as pSnapper does.
    #[command(after_help = "\
Examples:
  fathom threads -a -t 10            all threads, for 10 seconds
  fathom threads -p postgres -g comm,state,kstack")]
    Threads(threads::Args),
    /// Show where CPU time goes, by function, as text or a flame graph
    ///
    /// Samples the call chains of busy CPUs, as `perf record -g` does.
    ///
    /// With -o, the extension of the file selects the output: a flame graph (.svg), the page (.html, .md or .json) or folded
    /// stacks (.folded, .txt or none; `-` is standard output). With --format, the page is written to any FILE.
    #[command(after_help = "\
Examples:
  fathom stacks -t 30 -o flame.svg   a flame graph of the whole machine
  fathom stacks -u -- ./benchmark    a command, with its user stacks")]
    Stacks(stacks::Args),
    /// Show what the block layer does: merges, splits, batches, sizes, latencies, errors
    ///
    /// Prints a line per device and interval, and a summary at the end. Needs root.
    #[command(after_help = "\
Examples:
  fathom blocks nvme0n1 -t 10        one disk, for 10 seconds
  fathom blocks -- ./benchmark       the busiest disks while a command runs")]
    Blocks(blocks::Args),
    /// Record the machine continuously into a fixed-size ring buffer, or every I/O of a device
    ///
    /// Runs until Ctrl-C or SIGTERM. The oldest data is deleted as the ring reaches --keep or --max-size; --max-size
    /// takes precedence. `fathom top --replay` shows any part of the ring.
    ///
    /// With --ios, records every I/O of the devices named instead, as a trace that `read_iolog` replays (docs/replay.md).
    #[command(after_help = "\
Examples:
  fathom record --keep 7d --max-size 8g                  fathom top --replay DIR shows it
  fathom record --ios /run/trace.log vdb -t 60s          a trace to replay on another disk")]
    Record(record::Args),
    /// Show PCIe topology and link bandwidth of each disk, and the CPUs that serve it
    #[command(after_help = "\
Examples:
  fathom topo                        all disks, from CPU package to mount point
  fathom topo /data -o topo.html     the disks of a file system, with a diagram")]
    Topo(topo::Args),
    /// Check the settings and health of the machine and its disks
    ///
    /// Checks settings, health, topology and limits, and lists findings, worst first, each with the current value, the
    /// recommended value, and the command that sets it. Run it as root: otherwise it cannot query NVMe drives.
    /// docs/doctor.md describes each check.
    #[command(after_help = "\
Examples:
  fathom doctor /dev/nvme0n1         one disk and the machine
  fathom doctor --fix /dev/nvme0n1   make the safe changes, after confirmation")]
    Doctor(doctor::Args),
    /// Undo settings left behind by a killed fathom, or made by `doctor --fix`
    ///
    /// Settings that another program has changed since are left unchanged and reported. A reboot also restores all
    /// settings.
    #[command(after_help = "\
Examples:
  fathom restore --list              changed settings and their old values
  fathom restore                     restore them")]
    Restore(settings::Args),
    /// List, tag, export, import, remove or prune recorded runs
    ///
    /// Run directories are kept for 90 days and up to 4 GiB in total; each new run prunes older ones. Those with a tag stay.
    #[command(after_help = "\
Examples:
  fathom runs tag RUN1 RUN2 nightly  a name for both, also in `fathom compare`
  fathom runs export RUN --share     one file for a vendor, without names")]
    Runs(runs::Args),
    /// Reprint the result of a recorded run
    #[command(after_help = "\
Examples:
  fathom show                        the latest run
  fathom show DIR --format=markdown")]
    Show(show::Args),
    /// Compare recorded runs: is it slower, what changed, and may that be claimed
    ///
    /// BEFORE and AFTER are recorded runs, by name, directory or tag, or fio's JSON files; tags and --to compare sets of
    /// repetitions. A change is claimed only if it is more than runs differ by themselves: of three or more runs on one
    /// side, or of as many earlier runs of the same plan on the same machine. Other programs, throttling, a cache that was warm on
    /// one side only and incomplete runs block every claim. docs/compare.md describes the method.
    #[command(after_help = "\
Examples:
  fathom compare BEFORE AFTER        two runs, as `fathom runs` lists them
  fathom compare --baseline nightly RUN --fail-if 'p99 > +5%'")]
    Compare(compare::Args),
    /// Put one or several recorded runs into a file to forward
    ///
    /// An HTML page with the verdict, figures and charts of each run, and for several a table of all of them first. It loads
    /// nothing, needs no scripts, and opens from an e-mail.
    #[command(after_help = "\
Examples:
  fathom report -o report.html       the latest run
  fathom report nightly RUN --format=markdown -o report.md")]
    Report(report::Args),
    /// Predict what a machine that a file describes would deliver, what limits it, and what would yield more
    ///
    /// The file names CPUs, PCIe links and disks with what they are specified for; `fathom topo --as-machine` writes that of
    /// this machine. Throughput flows from the disks through the parts that they share to the CPUs. Figures may be bounds, and so is
    /// the answer. docs/predict.md describes the file and the method.
    #[command(after_help = "\
Examples:
  fathom predict workstation.toml    the workloads that the file names
  fathom predict workstation.toml --bs=4k,512k --workers=16")]
    Predict(predict::Args),
    /// After a crash or a power cut, say what was lost although it was acknowledged
    ///
    /// DIR is what `fathom run --journal=DIR` recorded: each write, and which of them a flush, or their own completion
    /// (sync=dsync), acknowledged as durable. Reads all of these blocks, and says of each whether it is as acknowledged, newer,
    /// or lost: the disk, or the file system, lied. The exit status is 0 if nothing was lost, 1 if something was, and 2 if
    /// that cannot be told, also since nothing was acknowledged. docs/crash.md describes how to cut the power.
    #[command(after_help = "\
Examples:
  fathom run --journal=/media/usb/j --erase=/dev/sdb --filename=/dev/sdb --rw=randwrite --bs=4k --direct=1 --fsync=32 --verify=crc32c
  fathom verify /media/usb/j         after the power is back")]
    Verify(verify::Args),
    /// List files left by killed runs, and remove them with --remove
    ///
    /// Only files that carry fathom's mark are removed. A target of a killed run that may have been changed since it was created is
    /// listed but never removed.
    #[command(after_help = "\
Examples:
  fathom clean                       in this directory
  fathom clean --remove /data")]
    Clean(clean::Args),
    /// Explain a term, or print the manual page of a command
    ///
    /// Topics: knee, latency, plugging, polling, queue-depth, root-complex. Each says what the term means, where results
    /// show it, and what to do.
    #[command(after_help = "\
Examples:
  fathom help knee                   a term that results use
  fathom help runs prune             the same as `fathom runs prune --help`")]
    Help(topics::Args),
    /// Print shell completions
    #[command(after_help = "\
Examples:
  fathom completions bash >/etc/bash_completion.d/fathom
  fathom completions fish >~/.config/fish/completions/fathom.fish")]
    Completions(manual::CompletionArgs),
    /// Print a manual page for man(1)
    #[command(after_help = "\
Examples:
  fathom man | man -l -
  fathom man limit >fathom-limit.1")]
    Man(manual::ManArgs),
    #[command(name = watch::EXEC_STOPPED, hide = true)]
    ExecStopped(watch::ExecStoppedArgs),
}

impl Command {
    /// Whether it depends on settings, so that those left by a killed process have to be restored first.
    fn measures(&self) -> bool {
        !matches!(
            self,
            Self::Clean(_)
                | Self::Compare(_)
                | Self::Completions(_)
                | Self::ExecStopped(_)
                | Self::Help(_)
                | Self::Man(_)
                | Self::Predict(_)
                | Self::Report(_)
                | Self::Restore(_)
                // Only once its own options are known.
                | Self::Run { .. }
                | Self::Runs(_)
                | Self::Show(_)
                | Self::Verify(_)
        )
    }
}

fn main() -> ExitCode {
    signals::fail_writes_beyond_limits();
    if let Some(args) = arguments_of_fio() {
        signals::raise_limits();
        return status(utf8(args).and_then(|args| run::as_fio(&args)), true);
    }
    // Samples of a run leave out its helper threads by their names, whatever the program is called.
    let _ = rustix::thread::set_name(c"fathom");
    let args = experiment::without_dashes(std::env::args_os().collect());
    let cli = manual::prepared(Cli::command());
    let parsed = cmdline::parse(cli.clone(), &args)
        .and_then(|found| Cli::from_arg_matches(&found).map_err(Refusal::Answer));
    let Cli { color, utc, quiet, command } = match parsed {
        Ok(cli) => cli,
        Err(Refusal::Wrong(wrong)) => return refuse(&wrong, &args),
        Err(Refusal::Answer(answer)) => return explain(&answer, &cli, &args),
    };
    page::set_color(color);
    if utc {
        page::use_utc();
    }
    if quiet {
        stdio::be_quiet();
    }
    // A command started by fathom must inherit unchanged limits.
    let starts_one = matches!(
        command,
        Command::Blocks(_)
            | Command::Stacks(_)
            | Command::Sweep(_)
            | Command::Try(_)
            | Command::Watch(_)
            | Command::ExecStopped(_)
    );
    if !starts_one {
        signals::raise_limits();
    }
    let is_restored = !command.measures() || settings::recover();
    // That of `watch` is the command's.
    let is_of_command = matches!(command, Command::Watch(_) | Command::ExecStopped(_));
    let result = match command {
        Command::Blocks(args) => blocks::command(&args),
        Command::Clean(args) => clean::command(&args),
        Command::Compare(args) => compare::command(&args),
        Command::Confirm(args) => confirm::command(&args),
        Command::Completions(args) => manual::completions(&args, Cli::command()),
        Command::Help(args) => topics::command(&args, &cli),
        Command::Predict(args) => predict::command(&args),
        Command::Report(args) => report::command(&args),
        Command::Limit(args) => limit::command(&args),
        Command::Man(args) => manual::man(&args, &cli),
        Command::Record(args) => record::command(&args),
        Command::Run { args } => utf8(args).and_then(|args| run::command(&args)),
        Command::Runs(args) => runs::command(&args),
        Command::Show(args) => show::command(&args),
        Command::Stacks(args) => stacks::command(&args),
        Command::Sweep(args) => sweep::command(&args),
        Command::Threads(args) => threads::command(&args),
        Command::Top(args) => top::command(&args),
        Command::Topo(args) => topo::command(&args),
        Command::Try(args) => experiment::command(&args),
        Command::Verify(args) => verify::command(&args),
        Command::Watch(args) => watch::command(&args),
        Command::ExecStopped(args) => watch::exec_stopped(&args),
        Command::Doctor(args) => doctor::command(&args),
        Command::Restore(args) => settings::command(&args),
    };
    status(result, is_restored || is_of_command)
}

/// The exit status: failure while settings changed by a killed fathom cannot be restored and affect measurements.
fn status(result: Result<ExitCode, String>, is_restored: bool) -> ExitCode {
    match result {
        Ok(status) if is_restored => status,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => failed(error),
    }
}

/// The arguments, if the program was started as `fio`, through a link.
fn arguments_of_fio() -> Option<Vec<OsString>> {
    let mut args = std::env::args_os();
    let name = args.next()?;
    let is_fio = Path::new(&name).file_name().is_some_and(|name| name == "fio");
    is_fio.then(|| args.collect())
}

/// The arguments of `run` as text: a name that is read as another one could be another file's.
fn utf8(args: Vec<OsString>) -> Result<Vec<String>, String> {
    let text = |arg: OsString| {
        arg.into_string().map_err(|arg| {
            let arg = escape::bytes(arg.as_bytes());
            format!("the argument '{arg}' is not valid UTF-8; use names that are")
        })
    };
    args.into_iter().map(text).collect()
}

/// A command line that has been parsed before, with the names of a rank in it.
fn parsed_again(args: &[String]) -> Result<Command, String> {
    let args = experiment::without_dashes(args.iter().map(OsString::from).collect());
    let parsed = Cli::try_parse_from(args).map_err(|error| error.to_string());
    parsed.map(|cli| cli.command)
}

/// Prints the errors in the command line, and where to find help.
fn refuse(wrong: &[String], args: &[OsString]) -> ExitCode {
    wrong.iter().for_each(|what| error!("{what}"));
    let (mut command, mut names) = (Cli::command(), String::new());
    for name in args.iter().skip(1).filter_map(|arg| arg.to_str()) {
        let Some(found) = command.find_subcommand(name).cloned() else { break };
        command = found;
        names = format!("{names} {name}");
    }
    stdio::print_line(&match names.as_str() {
        "" => "`fathom -h` lists the commands.".to_string(),
        names => format!("`fathom{names} -h` lists its options."),
    });
    ExitCode::from(2)
}

fn explain(answer: &clap::Error, cli: &clap::Command, args: &[OsString]) -> ExitCode {
    let text = answer.render();
    if answer.use_stderr() {
        // It repeats user input, so only plain text is safe.
        let _ = stdio::print_to_stderr(&text.to_string(), Kind::Lines);
        return ExitCode::from(2);
    }
    let color = page::style(false).color;
    let manual = manual::requested(cli, args);
    let printed = match (manual, color) {
        (Some(manual), true) => output::stream(&manual, Kind::ColoredLines),
        (Some(manual), false) => output::stream(&manual, Kind::Lines),
        (None, true) => output::stream(&text.ansi().to_string(), Kind::ColoredLines),
        (None, false) => output::stream(&text.to_string(), Kind::Lines),
    };
    printed.map_or_else(failed, |_| ExitCode::SUCCESS)
}

fn failed(error: String) -> ExitCode {
    error!("{error}");
    ExitCode::FAILURE
}
