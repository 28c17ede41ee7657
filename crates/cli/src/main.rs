//! fathom drives storage as fast as Linux allows and reports what limits it, with the evidence.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod blocks;
mod clean;
mod experiments;
mod level;
mod limit;
mod limits;
mod live;
mod manual;
mod output;
mod page;
mod quantity;
mod record;
mod run;
mod runs;
mod show;
mod signals;
mod stacks;
mod stdio;
mod sweep;
mod threads;
mod top;
mod trial;
mod watch;

use crate::page::Color;
use crate::stdio::{Kind, note};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::io::IsTerminal;
use std::process::ExitCode;

/// Load generator and analyzer for Linux storage: drives it, monitors the machine, and reports what limits it.
#[derive(Parser)]
#[command(name = "fathom", version, arg_required_else_help = true, propagate_version = true)]
struct Cli {
    /// When to use color.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    color: Color,
    /// Show times in UTC instead of local time.
    #[arg(long, global = true)]
    utc: bool,
    /// Print results and errors only.
    #[arg(short, long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find the limits of a disk or file on this machine, and what sets them.
    #[command(after_help = "\
Examples:
  fathom limit /dev/nvme0n1          random reads of a disk, about a minute
  fathom limit --quick               a scratch file in this directory, read and written")]
    Limit(limit::Args),
    /// Run fio job files and command lines.
    #[command(disable_help_flag = true)]
    Run {
        /// Job files, or --key=value and targets; `fathom run --help` lists all keys.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Measure a grid of block sizes, queue depths, workers or loads, with curves.
    #[command(after_help = "\
Examples:
  fathom sweep --bs=4k,64k,1m --iodepth=1..128 /dev/nvme0n1
  fathom sweep --rate=10%..100% --format=html -o load.html /dev/nvme0n1")]
    Sweep(sweep::Args),
    /// Compare variants of a job: one thing changed at a time, in random rounds, with a control.
    #[command(after_help = "\
Examples:
  fathom try scheduler /dev/nvme0n1  a shipped experiment; --list shows all
  fathom try 'rw=randread bs=4k iodepth=1' 'rw=randread bs=4k iodepth=8' FILE")]
    Try(trial::Args),
    /// Show the machine live: CPUs, memory, disks, threads, CPU time by kernel layer.
    #[command(after_help = "\
Examples:
  fathom top -i 2                    the full screen, a sample every 2 seconds
  fathom top --replay DIR            a recorded run, forwards and backwards")]
    Top(top::Args),
    /// Record and summarize the machine during a command, a process or a time span.
    #[command(after_help = "\
Examples:
  fathom watch -- make -j8           a command and everything it starts
  fathom watch -p 4711 -t 1m         a process, for a minute")]
    Watch(watch::Args),
    /// Show what threads do: state, system call, wait channel, kernel stack.
    #[command(after_help = "\
Examples:
  fathom threads -a -t 10            all threads, for 10 seconds
  fathom threads -p postgres -g comm,state,kstack")]
    Threads(threads::Args),
    /// Show where CPU time goes, by function, as a page or a flame graph.
    #[command(after_help = "\
Examples:
  fathom stacks -t 30 -o flame.svg   a flame graph of the whole machine
  fathom stacks -u -- ./benchmark    a command, with its user stacks")]
    Stacks(stacks::Args),
    /// Show what the block layer does: merges, splits, batches, sizes, latencies, errors.
    #[command(after_help = "\
Examples:
  fathom blocks nvme0n1 -t 10        one disk, for 10 seconds
  fathom blocks -- ./benchmark       the busiest disks while a command runs")]
    Blocks(blocks::Args),
    /// Record the machine continuously into a ring of bounded size.
    #[command(after_help = "\
Examples:
  fathom record --keep 7d --max-size 8g
  fathom top --replay ~/.local/state/fathom/ring --from 14:03")]
    Record(record::Args),
    /// List, remove or prune recorded runs.
    #[command(after_help = "\
Examples:
  fathom runs                        what is recorded, newest last
  fathom runs prune --keep 30d --max-size 2g")]
    Runs(runs::Args),
    /// Print a recorded run again, as the run printed it.
    #[command(after_help = "\
Examples:
  fathom show                        the latest run
  fathom show DIR --format=markdown")]
    Show(show::Args),
    /// List files left by killed runs, and remove them with --remove.
    #[command(after_help = "\
Examples:
  fathom clean                       in this directory
  fathom clean --remove /data")]
    Clean(clean::Args),
    /// Print shell completions.
    #[command(after_help = "\
Examples:
  fathom completions bash >/etc/bash_completion.d/fathom
  fathom completions fish >~/.config/fish/completions/fathom.fish")]
    Completions(manual::CompletionArgs),
    /// Print a man page.
    #[command(after_help = "\
Examples:
  fathom man | man -l -
  fathom man limit >fathom-limit.1")]
    Man(manual::ManArgs),
    #[command(name = watch::HELD, hide = true)]
    Held(watch::HeldArgs),
}

fn main() -> ExitCode {
    signals::fail_writes_beyond_limits();
    let parsed = manual::grouped(Cli::command()).try_get_matches();
    let Cli { color, utc, quiet, command } =
        match parsed.and_then(|found| Cli::from_arg_matches(&found)) {
            Ok(cli) => cli,
            Err(answer) => return explain(&answer),
        };
    page::set_color(color);
    if utc {
        page::use_utc();
    }
    if quiet {
        stdio::be_quiet();
    }
    // A command started by fathom inherits the limits: it must find those that it would have without.
    let starts_one = matches!(
        command,
        Command::Blocks(_) | Command::Stacks(_) | Command::Watch(_) | Command::Held(_)
    );
    if !starts_one {
        limits::raise();
    }
    let result = match command {
        Command::Blocks(args) => blocks::command(&args),
        Command::Clean(args) => clean::command(&args),
        Command::Completions(args) => manual::completions(&args, Cli::command()),
        Command::Limit(args) => limit::command(&args),
        Command::Man(args) => manual::page(&args, manual::grouped(Cli::command())),
        Command::Record(args) => record::command(&args),
        Command::Run { args } => run::command(&args),
        Command::Runs(args) => runs::command(&args),
        Command::Show(args) => show::command(&args),
        Command::Stacks(args) => stacks::command(&args),
        Command::Sweep(args) => sweep::command(&args),
        Command::Threads(args) => threads::command(&args),
        Command::Top(args) => top::command(&args),
        Command::Try(args) => trial::command(&args),
        Command::Watch(args) => watch::command(&args),
        Command::Held(args) => watch::held(&args),
    };
    result.unwrap_or_else(failed)
}

/// Prints help or the version, or what is wrong with the command line.
fn explain(answer: &clap::Error) -> ExitCode {
    let text = answer.render();
    if answer.use_stderr() {
        // It repeats user input, so only plain text is safe.
        let _ = stdio::print_beside(&text.to_string(), Kind::Lines);
        return ExitCode::from(2);
    }
    let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let printed = match color {
        true => output::stream(&text.ansi().to_string(), Kind::ColoredLines),
        false => output::stream(&text.to_string(), Kind::Lines),
    };
    printed.map_or_else(failed, |_| ExitCode::SUCCESS)
}

fn failed(error: String) -> ExitCode {
    note!("{error}");
    ExitCode::FAILURE
}
