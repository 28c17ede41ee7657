//! Help, man pages and shell completions, all generated from the definitions of the commands.

use crate::output;
use crate::stdio::Kind;
use clap::Command;
use clap_complete::Shell;
use std::fmt::Write;
use std::process::ExitCode;

/// The commands as help groups them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Measure", &["limit", "run", "sweep", "try"]),
    ("Observe", &["top", "watch", "threads", "stacks", "blocks", "record"]),
    ("Results", &["runs", "show"]),
    ("Files", &["clean"]),
    ("Shell", &["completions", "man"]),
];

/// What `fathom completions` takes.
#[derive(clap::Args)]
pub struct CompletionArgs {
    /// The shell.
    shell: Shell,
}

/// What `fathom man` takes.
#[derive(clap::Args)]
pub struct ManArgs {
    /// The command; by default fathom itself.
    command: Option<String>,
}

/// The command line with its commands listed in groups.
#[must_use]
pub fn grouped(cli: Command) -> Command {
    let mut list = String::new();
    for (group, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(list, "{group}:");
        for name in names {
            let about = cli.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(list, "  {name:<12} {about}");
        }
        list.push('\n');
    }
    list += "`fathom COMMAND -h` shows a command's options and two examples.";
    let template = "{about}\n\n{usage-heading} {usage}\n{after-help}\n\nOptions:\n{options}\n";
    cli.after_help(list).help_template(template)
}

/// Prints the completions of a shell.
///
/// # Errors
/// If they cannot be written.
pub fn completions(args: &CompletionArgs, mut cli: Command) -> Result<ExitCode, String> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut cli, "fathom", &mut text);
    output::stream(&String::from_utf8_lossy(&text), Kind::Lines).map(|_| ExitCode::SUCCESS)
}

/// Prints the man page of fathom, or of one command.
///
/// # Errors
/// If there is no such command, or the page cannot be written.
pub fn page(args: &ManArgs, cli: Command) -> Result<ExitCode, String> {
    let cli = match &args.command {
        None => cli,
        Some(name) => {
            let unknown = || format!("unknown command {name}; `fathom --help` lists the commands");
            let command = cli.find_subcommand(name).cloned().ok_or_else(unknown)?;
            let command =
                command.display_name(format!("fathom-{name}")).bin_name(format!("fathom {name}"));
            // The keys of jobs are not clap's.
            if name == "run" { command.after_help(fathom_spec::run_help()) } else { command }
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(cli).render(&mut text).map_err(|e| e.to_string())?;
    output::stream(&String::from_utf8_lossy(&text), Kind::Lines).map(|_| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_is_in_one_group_and_has_two_examples() {
        let cli = crate::Cli::command();
        let shown = cli.get_subcommands().filter(|command| !command.is_hide_set());
        for command in shown {
            let name = command.get_name();
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&name)).count();
            assert_eq!(groups, 1, "{name}");
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = help.lines().filter(|line| line.contains("fathom ")).count();
            assert!(name == "run" || examples == 2, "{name}: {help}");
        }
    }

    #[test]
    fn short_help_fits_on_a_screen() {
        let cli = grouped(crate::Cli::command());
        for command in cli.get_subcommands() {
            let lines = command.clone().render_help().to_string().lines().count();
            assert!(lines <= 50, "{}: {lines} lines", command.get_name());
        }
        assert!(cli.clone().render_help().to_string().lines().count() <= 50);
    }
}
