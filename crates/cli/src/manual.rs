//! Help, manual pages and shell completions, all generated from the definitions of the commands.

mod page;

use crate::output;
use crate::page::style;
use crate::stdio::Kind;
use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command};
use clap_complete::Shell;
use page::Manual;
use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;

/// The commands as help groups them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Measure", &["limit", "run", "sweep", "try"]),
    ("Observe", &["top", "watch", "threads", "stacks", "blocks", "record"]),
    ("Machine", &["topo", "doctor", "restore"]),
    ("Results", &["runs", "show", "clean"]),
    ("Shell", &["completions", "man"]),
];

/// Heading of the options that every command has.
const COMMON: &str = "Common options";

/// Maximum width of the values of an option in place of a name for them.
const CHOICES_WIDTH: usize = 18;

#[derive(clap::Args)]
pub struct CompletionArgs {
    /// Shell to print completions for.
    shell: Shell,
}

#[derive(clap::Args)]
pub struct ManArgs {
    /// Command, such as limit or runs prune; without one, the page of fathom itself.
    command: Vec<String>,
}

/// The command line with its commands in groups, the values of options in place of their names, and common options last.
pub fn prepared(cli: Command) -> Command {
    let list = command_list(&cli);
    let template = "{about}\n\nUsage: {usage}{after-help}\n\nOptions:\n{options}\n";
    let cli = cli.bin_name("fathom").disable_help_subcommand(true);
    let cli = cli.after_help(list).help_template(template).mut_subcommands(with_common_options);
    let mut cli = with_help(cli).mut_args(|arg| match arg.is_global_set() {
        true => arg.help_heading(COMMON),
        false => arg,
    });
    cli.build();
    with_choices(cli)
}

fn command_list(cli: &Command) -> String {
    let mut list = String::new();
    for (group, names) in GROUPS.iter().filter(|(_, names)| !names.is_empty()) {
        // Writing to a string cannot fail.
        let _ = writeln!(list, "{group}:");
        for name in *names {
            let about = cli.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(list, "  {name:<12} {about}");
        }
        list.push('\n');
    }
    list + "`fathom COMMAND -h` shows a command's options with examples, `--help` its manual page.\n"
}

fn with_common_options(command: Command) -> Command {
    // The parser of fio's command lines has its own.
    if command.is_disable_help_flag_set() {
        return command;
    }
    let command = command.disable_help_subcommand(true).mut_subcommands(with_common_options);
    with_help(command)
}

fn with_help(command: Command) -> Command {
    let help = Arg::new("help").short('h').long("help").action(ArgAction::Help);
    let help = help.help("Summarize the options (-h), or print the manual page (--help)");
    command.disable_help_flag(true).arg(help.help_heading(COMMON))
}

/// Shows the possible values of an option in place of a name for them: `--format text|json`.
fn with_choices(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let values = arg.get_possible_values();
        if values.is_empty() || !arg.get_action().takes_values() || arg.is_positional() {
            return arg;
        }
        let names: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
        let choices = names.join("|");
        if choices.len() <= CHOICES_WIDTH {
            return arg.value_name(choices).hide_possible_values(true);
        }
        // A long form would leave no room for the descriptions of all options.
        let help = format!("{} ({})", plain(arg.get_help()), names.join(", "));
        arg.help(help).hide_possible_values(true)
    });
    command.mut_subcommands(with_choices)
}

pub fn requested(cli: &Command, args: &[OsString]) -> Option<String> {
    let args: Vec<&str> = args.iter().skip(1).map_while(|arg| arg.to_str()).collect();
    let args = args.split(|arg| *arg == "--").next().unwrap_or_default();
    args.contains(&"--help").then(|| {
        let mut manual = Manual::of(cli, &[]);
        let mut path = Vec::new();
        for arg in args {
            path.push((*arg).to_string());
            match Manual::find(cli, &path) {
                Some(found) => manual = found,
                None => drop(path.pop()),
            }
        }
        manual.text(style(false))
    })
}

/// The manual page of `fathom run`, whose options and keys are not clap's.
pub fn of_run(cli: Command) -> String {
    let manual = Manual::find(&prepared(cli), &["run".to_string()]);
    manual.map(|manual| manual.text(style(false))).unwrap_or_default()
}

pub fn completions(args: &CompletionArgs, mut cli: Command) -> Result<ExitCode, String> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut cli, "fathom", &mut text);
    output::stream(&String::from_utf8_lossy(&text), Kind::Lines).map(|_| ExitCode::SUCCESS)
}

/// Prints the manual page of fathom, or of one command, in the form that man(1) reads.
///
/// # Errors
/// If there is no such command, or the page cannot be written.
pub fn man(args: &ManArgs, cli: &Command) -> Result<ExitCode, String> {
    let unknown =
        || format!("unknown command {}; `fathom -h` lists the commands", args.command.join(" "));
    let manual = Manual::find(cli, &args.command).ok_or_else(unknown)?;
    output::stream(&manual.roff(), Kind::Lines).map(|_| ExitCode::SUCCESS)
}

/// Help text without the styles of a terminal.
fn plain(text: Option<&StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn cli() -> Command {
        prepared(crate::Cli::command())
    }

    #[test]
    fn every_command_is_in_one_group_and_has_two_examples() {
        for command in cli().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&name)).count();
            assert_eq!(groups, 1, "{name}");
            let help = plain(command.get_after_help());
            let examples = help.lines().filter(|line| line.contains("fathom ")).count();
            assert_eq!(examples, 2, "{name}: {help}");
        }
    }

    #[test]
    fn short_help_fits_on_a_screen() {
        for command in cli().get_subcommands() {
            let lines = command.clone().render_help().to_string().lines().count();
            assert!(lines <= 50, "{}: {lines} lines", command.get_name());
        }
        assert!(cli().render_help().to_string().lines().count() <= 45);
    }

    #[test]
    fn manual_pages_have_every_option_and_the_examples() {
        let cli = cli();
        for command in cli.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name().to_string();
            let manual = Manual::find(&cli, std::slice::from_ref(&name)).unwrap();
            let (text, roff) = (manual.text(Default::default()), manual.roff());
            for option in command.get_arguments().filter_map(Arg::get_long) {
                assert!(text.contains(&format!("--{option}")), "{name}: {option} in {text}");
                let escaped = format!("--{option}").replace('-', "\\-");
                assert!(roff.contains(&escaped), "{name}: {option} in {roff}");
            }
            for section in ["SYNOPSIS", "OPTIONS", "EXIT STATUS", "EXAMPLES"] {
                assert!(text.contains(section) && roff.contains(section), "{name}: {section}");
            }
        }
        let prune = ["runs", "prune"].map(str::to_string);
        assert!(Manual::find(&cli, &prune).is_some());
        assert!(Manual::find(&cli, &["nosuch".to_string()]).is_none());
    }

    #[test]
    fn help_is_requested_of_the_command_named() {
        let asked = |words: &[&str]| {
            let args: Vec<OsString> = words.iter().map(OsString::from).collect();
            requested(&cli(), &args)
        };
        let watch = asked(&["fathom", "watch", "--help"]).unwrap();
        assert!(watch.contains("fathom-watch"), "{watch}");
        let prune = asked(&["fathom", "--color", "never", "runs", "prune", "--help"]).unwrap();
        assert!(prune.contains("fathom-runs-prune"), "{prune}");
        assert!(asked(&["fathom", "watch", "-h"]).is_none());
        assert!(asked(&["fathom", "watch", "--", "ls", "--help"]).is_none());
    }
}
