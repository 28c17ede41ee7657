//! Splits the command line into options, keys, and positional arguments.

use crate::error::SpecError;
use crate::ini::Line;
use crate::keys::{self, Key};
use crate::output::{self, Help, Output, Permissions, RunAction, RunOption};
use crate::suggest;
use std::iter::Peekable;

/// A parsed command line: options applied, the rest in order.
#[derive(Debug, Default)]
pub(crate) struct Args {
    pub output: Output,
    pub permissions: Permissions,
    /// Job keys, including `name`, in order.
    pub keys: Vec<Line>,
    /// Job files or targets.
    pub positional: Vec<String>,
}

/// What a dashed name refers to.
enum Meaning {
    Run(&'static RunOption),
    Key(&'static Key),
}

/// Splits a command line.
pub(crate) fn split(args: &[String]) -> Result<Args, SpecError> {
    let mut out = Args::default();
    let mut rest = args.iter().map(String::as_str).peekable();
    while let Some(arg) = rest.next() {
        if arg == "--" {
            out.positional.extend(rest.by_ref().map(str::to_string));
            break;
        }
        if arg.is_empty() {
            let message = "empty argument (''); remove it, or name a job file or target (is a shell \
                           variable unset?)";
            return Err(SpecError::new(message));
        }
        // As in fio, one dash is equivalent to two.
        let Some(body) = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')) else {
            out.positional.push(arg.to_string());
            continue;
        };
        if body.is_empty() {
            out.positional.push(arg.to_string());
            continue;
        }
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        if name == "h" && value.is_none() {
            out.output.help = Some(Help::Short);
            continue;
        }
        if name == "overwrite" && !matches!(value, None | Some("0" | "1")) {
            permit(&mut out.permissions, value.unwrap_or_default())?;
            continue;
        }
        match meaning(name).map_err(SpecError::new)? {
            Meaning::Run(option) => {
                let value = match (option.takes, value) {
                    (None, Some(value)) => {
                        let message = format!("--{name} takes no value; remove '={value}'");
                        return Err(SpecError::new(message));
                    }
                    (None, None) => "",
                    (Some(_), Some(value)) => value,
                    (Some(_), None) if option.refusal().is_some() || name == "cmdhelp" => "all",
                    (Some(form), None) => rest.next().ok_or_else(|| missing(name, form))?,
                };
                apply_option(option, value, &mut out)?;
                if option.doc.starts_with("No effect") {
                    out.output.idle_options.push(option.name);
                }
            }
            Meaning::Key(key) => {
                let value = match value {
                    Some(value) => Some(value.to_string()),
                    None => next_value(name, key, &mut rest)?,
                };
                out.keys.push(Line { key: name.to_string(), value, place: None });
            }
        }
    }
    Ok(out)
}

/// The value of a key given without `=`: the next argument, or none for a flag.
fn next_value<'a>(
    name: &str,
    key: &Key,
    rest: &mut Peekable<impl Iterator<Item = &'a str>>,
) -> Result<Option<String>, SpecError> {
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

/// The long form of a name.
fn long(name: &str) -> &str {
    let names = output::run_options().iter().map(|option| option.name);
    let mut long = names.filter(|long| output::short(long).is_some_and(|short| short == name));
    long.next().unwrap_or(name)
}

fn meaning(name: &str) -> Result<Meaning, String> {
    if let Some(option) = output::find(long(name)) {
        return Ok(Meaning::Run(option));
    }
    if let Some(key) = keys::find(name) {
        return Ok(Meaning::Key(key));
    }
    let names = output::run_options().iter().map(|option| option.name);
    match suggest::nearest(name, names.filter(|n| n.len() > 3)) {
        Some(near) => Err(format!("unknown option '--{name}'; did you mean '--{near}'?")),
        None => Err(keys::unknown(name)),
    }
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
