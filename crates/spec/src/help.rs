//! Help and documentation, derived from the tables.

use crate::keys::{self, Action, Group, Key};
use crate::output::{self, run_options};
use std::fmt::Write;

const USAGE: &str = "\
fathom run [OPTIONS] [JOBFILE…] [--name=JOB --key=value…]
fathom run [OPTIONS] --key=value… TARGET…

Runs fio's job files and command lines. `-` reads a job file from standard input.

";

/// What `fathom run --help` prints.
#[must_use]
pub fn run_help() -> String {
    let mut text = USAGE.to_string();
    text.push_str("Options of the run\n");
    for option in run_options().iter().filter(|option| option.refusal().is_none()) {
        let form = option.takes.map(|form| format!("={form}")).unwrap_or_default();
        line(&mut text, &format!("--{}{form}", option.name), option.doc);
    }
    line(&mut text, "--overwrite=PATH", "Permit writing to this existing file; may repeat");
    for group in Group::ALL.into_iter().filter(|group| *group != Group::Refused) {
        let _ = write!(text, "\n{}\n", group.title());
        for key in keys::keys().filter(|key| key.group == group) {
            let names: Vec<&str> = key.names().collect();
            line(&mut text, &format!("{}={}", names.join("|"), key.takes.form()), key.doc);
        }
    }
    text
}

fn line(text: &mut String, left: &str, right: &str) {
    if left.chars().count() > 34 {
        let _ = writeln!(text, "  {left}\n  {:34} {right}", "");
    } else {
        let _ = writeln!(text, "  {left:34} {right}");
    }
}

/// What `fathom run --cmdhelp=NAME` prints.
///
/// # Errors
/// That there is no such key, and the nearest one.
pub fn key_help(name: &str) -> Result<String, crate::SpecError> {
    if let Some(option) = output::find(name).filter(|_| keys::find(name).is_none()) {
        let form = option.takes.map(|form| format!("={form}")).unwrap_or_default();
        let mut text = format!("--{name}{form}\n  {}.\n", option.doc);
        if let Some(why) = option.refusal() {
            let _ = writeln!(text, "  Refused: {why}.");
        }
        return Ok(text);
    }
    let key = keys::find(name).ok_or_else(|| crate::SpecError::new(keys::unknown(name)))?;
    let mut text = format!("{}={}\n  {}.\n", key.name, key.takes.form(), key.doc);
    if !key.aliases.is_empty() {
        let _ = writeln!(text, "  Other names: {}.", key.aliases.join(", "));
    }
    if !key.differs.is_empty() {
        let _ = writeln!(text, "  Against fio: {}", key.differs);
    }
    if let Action::Refuse(why) = key.action {
        let _ = writeln!(text, "  Refused: {why}.");
    }
    Ok(text)
}

/// The tables of `docs/fio-compat.md`, in Markdown.
#[must_use]
pub fn compat_table() -> String {
    let mut text = String::new();
    for group in Group::ALL.into_iter().filter(|group| *group != Group::Refused) {
        let _ = write!(
            text,
            "### {}\n\n| key | value | what it does | against fio |\n|---|---|---|---|\n",
            group.title()
        );
        for key in keys::keys().filter(|key| key.group == group) {
            let names: Vec<String> = key.names().map(|name| format!("`{name}`")).collect();
            let form = key.takes.form().replace('|', "\\|");
            let names = names.join(", ");
            let _ = writeln!(text, "| {names} | `{form}` | {} | {} |", key.doc, key.differs);
        }
        text.push('\n');
    }
    text.push_str("### Refused\n\n| keys | what they do | why they are refused, and what works |\n|---|---|---|\n");
    let refused: Vec<&Key> = keys::keys().filter(|key| key.group == Group::Refused).collect();
    for same in refused.chunk_by(|a, b| a.doc == b.doc) {
        let Action::Refuse(why) = same[0].action else { continue };
        let names: Vec<String> = same.iter().map(|key| format!("`{}`", key.name)).collect();
        let _ = writeln!(text, "| {} | {} | {why} |", names.join(", "), same[0].doc);
    }
    text.push_str("\n### Options of the run\n\n| option | what it does | refused, and what works |\n|---|---|---|\n");
    for option in run_options() {
        let refusal = option.refusal().unwrap_or_default();
        let _ = writeln!(text, "| `--{}` | {} | {refusal} |", option.name, option.doc);
    }
    text
}
