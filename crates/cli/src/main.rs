//! fathom drives storage as fast as Linux can go, and says what stopped it, with the evidence.
#![forbid(unsafe_code)]

mod blocks;
mod clean;
mod cost;
mod limit;
mod live;
mod output;
mod quantity;
mod record;
mod records;
mod run;
mod session;
mod signals;
mod sources;
mod stacks;
mod stdio;
mod threads;
mod top;
mod watch;

use crate::stdio::{Kind, note};
use clap::{Parser, Subcommand};
use std::io::IsTerminal;
use std::process::ExitCode;

/// Drives storage as fast as Linux can go, and says what stopped it, with the evidence.
#[derive(Parser)]
#[command(name = "fathom", version, arg_required_else_help = true, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show what the block layer does: batches, splits, merges, sizes, times, errors.
    Blocks(blocks::Args),
    /// List what killed runs left in a directory, and remove it if asked to.
    Clean(clean::Args),
    /// Find what a disk can do on this machine, and what stops it there (read-only).
    Limit(limit::Args),
    /// Watch the machine all the time, and keep the last hours or days, for looking back.
    Record(record::Args),
    /// Run fio job files and command lines.
    #[command(disable_help_flag = true)]
    Run {
        /// Job files, or --key=value and targets; `fathom run --help` lists all keys.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// See where processors are: functions of the kernel and of programs, as a page or a flame graph.
    Stacks(stacks::Args),
    /// Show what threads do: state, system call, wait channel and more, many times a second.
    Threads(threads::Args),
    /// Watch the whole machine as it works: processors, disks, threads, layers of the kernel, rings.
    Top(top::Args),
    /// Watch the machine, a process or a command, and keep all that is seen in a record.
    Watch(watch::Args),
    #[command(name = watch::HELD, hide = true)]
    Held(watch::HeldArgs),
}

fn main() -> ExitCode {
    signals::fail_writes_beyond_limits();
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(answer) => return explain(&answer),
    };
    // A command that is watched is to find the limits that it would have found without.
    let starts_one = matches!(
        command,
        Command::Blocks(_) | Command::Stacks(_) | Command::Watch(_) | Command::Held(_)
    );
    if !starts_one {
        session::raise_limits();
    }
    let result = match command {
        Command::Blocks(args) => blocks::command(&args),
        Command::Clean(args) => clean::command(&args),
        Command::Limit(args) => limit::command(&args),
        Command::Record(args) => record::command(&args),
        Command::Run { args } => run::command(&args),
        Command::Stacks(args) => stacks::command(&args),
        Command::Threads(args) => threads::command(&args),
        Command::Top(args) => top::command(&args),
        Command::Watch(args) => watch::command(&args),
        Command::Held(args) => watch::held(&args),
    };
    result.unwrap_or_else(failed)
}

/// Prints help or the version, or what is wrong with the command line.
fn explain(answer: &clap::Error) -> ExitCode {
    let text = answer.render();
    if answer.use_stderr() {
        // It repeats what was typed, so that only plain text is safe.
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
