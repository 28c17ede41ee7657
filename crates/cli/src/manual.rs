//! Help, manual pages and shell completions, all generated from the definitions of the commands.

use crate::page::style;
use crate::stdio::Kind;
use crate::{output, topics};
use clap::builder::{StyledStr, ValueParser, ValueRange};
use clap::{Arg, ArgAction, Command};
use clap_complete::Shell;
use fathom_report::doc::{Document, Text};
use fathom_report::render::{self, Style};
use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;

/// The commands as help groups them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Measure", &["limit", "run", "sweep", "try", "confirm", "verify"]),
    ("Observe", &["top", "watch", "threads", "stacks", "blocks", "record"]),
    ("Machine", &["topo", "doctor", "restore"]),
    ("Results", &["runs", "show", "compare", "report", "predict", "clean"]),
    ("Help", &["help", "man", "completions"]),
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
    let cli = cli.bin_name("fathom");
    let cli = cli.after_help(list).help_template(template).mut_subcommands(with_common_options);
    let mut cli = with_help(cli).mut_args(|arg| match arg.is_global_set() {
        true => arg.help_heading(COMMON),
        false => arg,
    });
    cli.build();
    with_choices(with_any_sign(cli))
}

/// A value that begins with a minus sign is one, and refused as such, unless it may be any text.
fn with_any_sign(command: Command) -> Command {
    let texts = [ValueParser::string(), ValueParser::os_string(), ValueParser::path_buf()];
    let texts = texts.map(|parser| parser.type_id());
    let command = command.mut_args(|arg| {
        let is_one = arg.get_num_args() == Some(ValueRange::SINGLE) && !arg.is_positional();
        let is_text = texts.contains(&arg.get_value_parser().type_id());
        if is_one && !is_text { arg.allow_hyphen_values(true) } else { arg }
    });
    command.mut_subcommands(with_any_sign)
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
    let _ = writeln!(list, "`fathom help TOPIC` explains {}.", topics::list());
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

type Section = (String, Vec<Item>);

enum Item {
    Paragraph(String),
    Entry(String, String),
    Line(String),
}

pub struct Manual {
    /// Such as `fathom-limit`.
    name: String,
    sections: Vec<Section>,
}

impl Manual {
    pub fn find(cli: &Command, path: &[String]) -> Option<Self> {
        let of = |command: &Command, name: &String| command.find_subcommand(name).cloned();
        let found = path.iter().try_fold(cli.clone(), |command, name| of(&command, name))?;
        Some(Self::of(&found, path))
    }

    pub fn of(command: &Command, path: &[String]) -> Self {
        let words: Vec<&str> =
            [("fathom")].into_iter().chain(path.iter().map(String::as_str)).collect();
        let name = words.join("-");
        let about = plain(command.get_about());
        let mut sections = vec![
            ("NAME".into(), vec![Item::Paragraph(format!("{name} – {about}"))]),
            ("SYNOPSIS".into(), synopsis(command, &words.join(" "))),
            ("DESCRIPTION".into(), description(command)),
        ];
        let is_run = path == ["run"];
        match is_run {
            true => sections.extend(keys_of_run()),
            false => {
                sections.extend(groups(command));
                let is_common = |arg: &Arg| arg.get_help_heading() == Some(COMMON);
                sections.push(("OPTIONS".into(), entries(command, |arg| !is_common(arg))));
                sections.push(("COMMON OPTIONS".into(), entries(command, is_common)));
            }
        }
        sections.push(("EXIT STATUS".into(), exit_status(command, is_run)));
        let examples = plain(command.get_after_help());
        let examples = examples.lines().filter_map(|line| line.strip_prefix("  fathom "));
        let examples = examples.map(|line| Item::Line(format!("fathom {line}")));
        sections
            .push(("EXAMPLES".into(), if path.is_empty() { vec![] } else { examples.collect() }));
        sections.retain(|(_, items)| !items.is_empty());
        Self { name, sections }
    }

    pub fn text(&self, style: Style) -> String {
        let mut page = Document::default();
        for (title, items) in &self.sections {
            let mut body = Document::default();
            for item in items {
                match item {
                    Item::Paragraph(text) => body.paragraph(text.as_str()),
                    // Not wrapped.
                    Item::Line(line) => body.paragraph(line.replace(' ', "\u{a0}")),
                    Item::Entry(form, what) => {
                        let mut entry = Document::default();
                        entry.paragraph(what.as_str());
                        body.section(form, Text::default(), entry);
                    }
                }
            }
            page.section(title, Text::default(), body);
        }
        render::text(&page, style)
    }

    pub fn roff(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let title = self.name.to_uppercase();
        let mut out = format!(".TH {title} 1 \"\" \"fathom {version}\" \"fathom manual\"\n");
        for (title, items) in &self.sections {
            // Writing to a string cannot fail.
            let _ = writeln!(out, ".SH {title}");
            for item in items {
                let _ = match item {
                    Item::Paragraph(text) => writeln!(out, ".PP\n{}", escaped(text)),
                    Item::Line(line) => writeln!(out, ".nf\n{}\n.fi", escaped(line)),
                    Item::Entry(form, what) => {
                        writeln!(out, ".TP\n\\fB{}\\fR\n{}", escaped(form), escaped(what))
                    }
                };
            }
        }
        out
    }
}

/// `text` without what roff takes for its own.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let line = |line: &str| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line.to_string(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn synopsis(command: &Command, name: &str) -> Vec<Item> {
    if name == "fathom run" {
        return fathom_spec::RUN_USAGE.lines().map(|line| Item::Line(line.into())).collect();
    }
    let usage = command.clone().bin_name(name).render_usage().to_string();
    usage.trim_start_matches("Usage:").lines().map(|line| Item::Line(line.trim().into())).collect()
}

fn description(command: &Command) -> Vec<Item> {
    let about = plain(command.get_about());
    let text = plain(command.get_long_about().or(command.get_about()));
    let parts: Vec<&str> = text.split("\n\n").collect();
    // The first paragraph is the one of the section NAME.
    let is_repeated =
        parts.len() > 1 && parts[0].trim_end_matches('.') == about.trim_end_matches('.');
    let parts = &parts[usize::from(is_repeated)..];
    parts.iter().map(|part| Item::Paragraph(sentence(part))).collect()
}

/// `text` with a full stop.
fn sentence(text: &str) -> String {
    format!("{}.", text.trim_end_matches('.'))
}

/// The commands below `command`: those of fathom itself in their groups.
fn groups(command: &Command) -> Vec<Section> {
    let entry =
        |command: &Command| Item::Entry(command.get_name().to_string(), plain(command.get_about()));
    if command.get_name() != "fathom" {
        let all = command.get_subcommands().map(entry).collect();
        return vec![("COMMANDS".into(), all)];
    }
    let group = |(title, names): &(&str, &[&str])| {
        let commands = names.iter().filter_map(|name| command.find_subcommand(name));
        (format!("COMMANDS: {}", title.to_uppercase()), commands.map(entry).collect())
    };
    GROUPS.iter().map(group).collect()
}

fn entries(command: &Command, is_shown: impl Fn(&Arg) -> bool) -> Vec<Item> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set() && is_shown(arg));
    shown.map(|arg| Item::Entry(form(arg), what(arg))).collect()
}

/// `-t, --duration TIME`.
fn form(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let value = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    if arg.is_positional() {
        return value;
    }
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let names = short.into_iter().chain(long).collect::<Vec<_>>().join(", ");
    if arg.get_action().takes_values() { format!("{names} {value}") } else { names }
}

/// What an option does, and its value where it is not given.
fn what(arg: &Arg) -> String {
    let text = plain(arg.get_long_help().or(arg.get_help()));
    let text = text.split("\n\n").map(sentence).collect::<Vec<_>>().join(" ");
    let takes_value = arg.get_action().takes_values();
    let default = arg.get_default_values().iter().map(|value| match value.to_string_lossy() {
        // Not to be read as two dots, with the one that ends the sentence.
        here if here == "." => "'.'".into(),
        other => other,
    });
    let default: Vec<_> = default.filter(|_| takes_value).collect();
    if default.is_empty() { text } else { format!("{text} Default: {}.", default.join(",")) }
}

fn keys_of_run() -> Vec<Section> {
    let section = |(title, entries): (&str, Vec<(String, &str)>)| {
        let entry = |(form, doc): (String, &str)| Item::Entry(form, format!("{doc}."));
        (title.to_uppercase(), entries.into_iter().map(entry).collect())
    };
    fathom_spec::run_manual().into_iter().map(section).collect()
}

fn exit_status(command: &Command, is_run: bool) -> Vec<Item> {
    let usage = if is_run { "1, as for fio; 2 for --fail-if" } else { "2" };
    let mut all = vec![
        Item::Entry("0".into(), "The whole request was carried out.".into()),
        Item::Entry(
            "1".into(),
            "Part of it was not carried out, or the result could not be written.".into(),
        ),
        Item::Entry(usage.into(), "Usage error.".into()),
    ];
    let has = |name| command.get_arguments().any(|arg| arg.get_long() == Some(name));
    let (missed, open) = match (is_run || has("fail-if"), has("target")) {
        (true, _) => {
            ("A condition of --fail-if holds.", "No condition holds, and one cannot be decided.")
        }
        (false, true) => {
            ("No rate meets --target.", "Whether a rate meets --target cannot be decided.")
        }
        (false, false) => ("", ""),
    };
    let further = [("3", missed), ("4", open)].into_iter().filter(|(_, text)| !text.is_empty());
    all.extend(further.map(|(status, text)| Item::Entry(status.into(), text.into())));
    if command.get_arguments().any(Arg::is_last_set) {
        let status = "With a COMMAND, fathom exits with the status of the command: 128 plus the number \
                      of the signal that ended it, 127 if it does not exist.";
        all.push(Item::Paragraph(status.into()));
    }
    all
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
    fn manual_pages_have_the_exit_statuses_of_requirements() {
        let cli = cli();
        for (name, expected) in [("run", true), ("compare", true), ("limit", true), ("topo", false)]
        {
            let command = cli.find_subcommand(name).unwrap();
            let all = exit_status(command, name == "run");
            let has = |status: &str| {
                all.iter().any(|one| matches!(one, Item::Entry(key, _) if key == status))
            };
            assert_eq!((has("3"), has("4")), (expected, expected), "{name}");
        }
    }

    #[test]
    fn short_help_fits_on_a_screen() {
        for command in cli().get_subcommands() {
            let lines = command.clone().render_help().to_string().lines().count();
            assert!(lines <= 50, "{}: {lines} lines", command.get_name());
        }
        assert!(cli().render_help().to_string().lines().count() <= 50);
    }

    #[test]
    fn manual_pages_have_every_option_and_the_examples() {
        let cli = cli();
        for command in cli.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name().to_string();
            let manual = Manual::find(&cli, std::slice::from_ref(&name)).unwrap();
            let (text, roff) = (manual.text(Default::default()), manual.roff());
            let shown = command.get_arguments().filter(|option| !option.is_hide_set());
            for option in shown.filter_map(Arg::get_long) {
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
