//! Splits the command line into options, keys, and positional arguments.

use crate::error::{Problems, SpecError};
use crate::ini::Line;
use crate::keys::{self, Key, Takes};
use crate::output::{self, Help, Output, RunAction, RunOption};
use crate::suggest;
use fathom_model::plan::Permissions;
use std::iter::Peekable;

#[derive(Debug, Default)]
pub(crate) struct Args {
    pub output: Output,
    pub permissions: Permissions,
    /// Job keys, including `name`, in order.
    pub keys: Vec<Line>,
    pub positional: Vec<String>,
}

#[derive(Clone, Copy)]
enum Meaning {
    Run(&'static RunOption),
    Key(&'static Key),
}

/// Splits a command line; what cannot be understood of it is added to `problems`.
pub(crate) fn split(args: &[String], problems: &mut Problems) -> Args {
    let mut out = Args::default();
    let mut rest = args.iter().map(String::as_str).peekable();
    while let Some(arg) = rest.next() {
        if arg == "--" {
            out.positional.extend(rest.by_ref().map(str::to_string));
            break;
        }
        // As in fio, one dash is equivalent to two.
        let body = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'));
        match body.filter(|body| !body.is_empty()) {
            _ if arg.is_empty() => {
                let message = "empty argument (''); remove it, or name a job file or target (is a \
                               shell variable unset?)";
                problems.add(SpecError::new(message));
            }
            Some(body) => {
                problems.ok(option(body, &mut rest, &mut out));
            }
            None => out.positional.push(arg.to_string()),
        }
    }
    out
}

/// Applies the option `body`, without its dashes; its value may be the next of `rest`.
fn option<'a>(
    body: &'a str,
    rest: &mut Peekable<impl Iterator<Item = &'a str>>,
    out: &mut Args,
) -> Result<(), SpecError> {
    let (name, value) = match body.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (body, None),
    };
    if name == "h" && value.is_none() {
        out.output.help = Some(Help::Short);
        return Ok(());
    }
    if name == "overwrite" && !matches!(value, None | Some("0" | "1")) {
        return permit(&mut out.permissions, value.unwrap_or_default());
    }
    let meaning = meaning(name).map_err(|why| {
        // The next argument is probably its value, not a job file.
        if value.is_none() {
            rest.next_if(|next| !next.starts_with('-'));
        }
        SpecError::new(why)
    })?;
    match meaning {
        (_, Meaning::Run(option)) => {
            let value = match (option.takes, value) {
                (None, Some(value)) => {
                    let message = format!("--{name} takes no value; remove '={value}'");
                    return Err(SpecError::new(message));
                }
                (None, None) => "",
                (Some(_), Some(value)) => value,
                (Some(form), None) => match option.default_value() {
                    Some(default) => default,
                    None => rest.next().ok_or_else(|| missing(option.name, form))?,
                },
            };
            if option.doc.starts_with("No effect") {
                out.output.idle_options.push(option.name);
            }
            apply_option(option, value, out)
        }
        (name, Meaning::Key(key)) => {
            let value = match value {
                Some(value) => Some(value.to_string()),
                None => next_value(name, key, rest)?,
            };
            out.keys.push(Line { key: name.to_string(), value, place: None });
            Ok(())
        }
    }
}

/// The value of a key given without `=`: the next argument, or none for a flag.
fn next_value<'a>(
    name: &str,
    key: &Key,
    rest: &mut Peekable<impl Iterator<Item = &'a str>>,
) -> Result<Option<String>, SpecError> {
    if let Takes::Optional(_) = key.takes {
        return Ok(None);
    }
    if key.is_flag() {
        // After a flag, only a bare 0 or 1 is a value; anything else is a target.
        return Ok(rest.next_if(|next| matches!(*next, "0" | "1")).map(str::to_string));
    }
    let next = rest.next().ok_or_else(|| missing(name, key.takes.form()))?;
    Ok(Some(next.to_string()))
}

fn permit(permissions: &mut Permissions, path: &str) -> Result<(), SpecError> {
    if path.is_empty() {
        return Err(SpecError::new(
            "--overwrite= needs a value; give the path of the file that may be written",
        ));
    }
    permissions.overwrite.push(path.to_string());
    Ok(())
}

fn long(name: &str) -> &str {
    let names = output::run_options().iter().map(|option| option.name);
    let mut long = names.filter(|long| output::short(long).is_some_and(|short| short == name));
    long.next().unwrap_or(name)
}

/// An option or key, and its name in full.
fn meaning(name: &str) -> Result<(&'static str, Meaning), String> {
    let exact = meanings().find(|(known, _)| *known == long(name));
    if let Some(found) = exact.or_else(|| abbreviated(name)) {
        return Ok(found);
    }
    let names = output::run_options().iter().map(|option| option.name);
    match suggest::nearest(name, names.filter(|n| n.len() > 3)) {
        Some(near) => Err(format!("unknown option '--{name}'; did you mean '--{near}'?")),
        None => Err(keys::unknown(name)),
    }
}

/// All options and keys, by all their names.
fn meanings() -> impl Iterator<Item = (&'static str, Meaning)> {
    let options = output::run_options().iter().map(|option| (option.name, Meaning::Run(option)));
    let names = |key: &'static Key| key.names().map(move |name| (name, Meaning::Key(key)));
    options.chain(keys::keys().flat_map(names))
}

/// The one option or key whose name begins with `name`, as getopt_long(3) finds it for fio.
fn abbreviated(name: &str) -> Option<(&'static str, Meaning)> {
    // A permission to destroy data has to be spelled out.
    let begins = |known: &str| !name.is_empty() && known.starts_with(name) && known != "erase";
    let mut begun = meanings().filter(|(known, _)| begins(known));
    let first = begun.next()?;
    // Names of one key are one meaning.
    let is_same = |other| match (first.1, other) {
        (Meaning::Key(one), Meaning::Key(other)) => one.name == other.name,
        _ => false,
    };
    begun.all(|(_, other)| is_same(other)).then_some(first)
}

fn missing(name: &str, form: &str) -> SpecError {
    SpecError::new(format!("--{name} needs a value; use --{name}={form}"))
}

fn apply_option(option: &RunOption, value: &str, out: &mut Args) -> Result<(), SpecError> {
    match option.action {
        RunAction::Set(set) => set(&mut out.output, &mut out.permissions, value)
            .map_err(|why| SpecError::new(format!("--{}: {why}", option.name))),
        RunAction::Refuse(why) => {
            Err(SpecError::new(format!("--{} is refused: {why}", option.name)))
        }
    }
}
