//! A manual page, as text for a terminal and in the form that man(1) reads.

use super::{COMMON, GROUPS, plain};
use clap::{Arg, Command};
use fathom_report::doc::{Document, Text};
use fathom_report::render::{self, Style};
use std::fmt::Write;

type Section = (String, Vec<Item>);

enum Item {
    Paragraph(String),
    /// An option and what it does.
    Entry(String, String),
    /// A line that is printed as it is.
    Line(String),
}

pub struct Manual {
    /// Such as `fathom-limit`.
    name: String,
    sections: Vec<Section>,
}

impl Manual {
    /// The page of the command that `path` names.
    pub fn find(cli: &Command, path: &[String]) -> Option<Self> {
        let of = |command: &Command, name: &String| command.find_subcommand(name).cloned();
        let found = path.iter().try_fold(cli.clone(), |command, name| of(&command, name))?;
        Some(Self::of(&found, path))
    }

    /// The page of `command`, which `path` names.
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
            true => sections.extend(of_run()),
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

/// The options and keys of `fathom run`.
fn of_run() -> Vec<Section> {
    let section = |(title, entries): (&str, Vec<(String, &str)>)| {
        let entry = |(form, doc): (String, &str)| Item::Entry(form, format!("{doc}."));
        (title.to_uppercase(), entries.into_iter().map(entry).collect())
    };
    fathom_spec::run_manual().into_iter().map(section).collect()
}

fn exit_status(command: &Command, is_run: bool) -> Vec<Item> {
    let usage = if is_run { "1, as for fio" } else { "2" };
    let mut all = vec![
        Item::Entry("0".into(), "The whole request was carried out.".into()),
        Item::Entry(
            "1".into(),
            "Part of it was not carried out, or the result could not be written.".into(),
        ),
        Item::Entry(usage.into(), "Usage error.".into()),
    ];
    if command.get_arguments().any(Arg::is_last_set) {
        let status = "With a COMMAND, fathom exits with the status of the command: 128 plus the number \
                      of the signal that ended it, 127 if it does not exist.";
        all.push(Item::Paragraph(status.into()));
    }
    all
}
