//! Parses the command line, and reports everything that is wrong with it at once.

use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, Error};
use std::error::Error as _;
use std::ffi::OsString;

pub enum Refusal {
    /// A request for help or the version.
    Answer(Error),
    Wrong(Vec<String>),
}

/// Parses `args`.
/// Refuses with all that is not accepted and the first other error, or with the answer to a request for help.
pub fn parse(mut cli: Command, args: &[OsString]) -> Result<ArgMatches, Refusal> {
    let mut args = args.to_vec();
    let mut wrong = Vec::new();
    loop {
        let error = match cli.clone().try_get_matches_from(&args) {
            Ok(found) if wrong.is_empty() => return Ok(found),
            Ok(_) => break,
            Err(error) => error,
        };
        let name = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(name)) => name.clone(),
            _ => String::new(),
        };
        match error.kind() {
            ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
                let error = value(&error, &name);
                if !wrong.contains(&error) {
                    wrong.push(error);
                }
                // The next round gets past this value.
                let accepts_it = accept_anything(&cli, &name);
                match accepts_it {
                    Some(changed) => cli = changed,
                    None => break,
                }
            }
            ErrorKind::UnknownArgument => {
                wrong.push(other(&error));
                let Some(at) = args.iter().position(|arg| is_argument(arg, &name)) else { break };
                args.remove(at);
            }
            _ if !error.use_stderr() && wrong.is_empty() => return Err(Refusal::Answer(error)),
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if wrong.is_empty() => {
                return Err(Refusal::Answer(error));
            }
            _ if !error.use_stderr() => break,
            // Its own message lists the hidden command, too.
            ErrorKind::MissingSubcommand => {
                wrong.push("no command given".to_string());
                break;
            }
            ErrorKind::MissingRequiredArgument => {
                wrong.push(missing(&error));
                break;
            }
            _ => {
                wrong.push(other(&error));
                break;
            }
        }
    }
    Err(Refusal::Wrong(wrong))
}

/// Whether `arg` is the option `name`, with or without a value.
fn is_argument(arg: &OsString, name: &str) -> bool {
    arg.to_str().is_some_and(|arg| arg.split('=').next() == Some(name))
}

/// The command line where the option `name` takes any value; `None` where it does so already.
fn accept_anything(cli: &Command, name: &str) -> Option<Command> {
    fn change(command: Command, name: &str, changed: &mut bool) -> Command {
        let command = command.mut_args(|arg| {
            if arg.to_string() != name || arg.get_value_parser().type_id() == any().type_id() {
                return arg;
            }
            *changed = true;
            arg.value_parser(any())
        });
        command.mut_subcommands(|below| change(below, name, changed))
    }
    let mut changed = false;
    let cli = change(cli.clone(), name, &mut changed);
    changed.then_some(cli)
}

fn any() -> ValueParser {
    ValueParser::os_string()
}

/// `--interval 2h: expected 50ms to 1h`.
fn value(error: &Error, name: &str) -> String {
    let option = name.split([' ', '=']).next().unwrap_or_default().trim_start_matches('[');
    let given = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) => value.as_str(),
        _ => "",
    };
    let expected = match (error.source(), error.get(ContextKind::ValidValue)) {
        (Some(why), _) => why.to_string(),
        (None, Some(ContextValue::Strings(valid))) if !valid.is_empty() => {
            format!("expected {}", any_of(valid))
        }
        _ => "expected a value".to_string(),
    };
    let given = if given.is_empty() { String::new() } else { format!(" {given}") };
    format!("{option}{given}: {expected}")
}

/// `RUN is missing: fathom runs tag <RUN>... <TAG>`.
fn missing(error: &Error) -> String {
    let (Some(ContextValue::Strings(names)), Some(ContextValue::StyledStr(usage))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::Usage))
    else {
        return other(error);
    };
    let names: Vec<&str> =
        names.iter().map(|name| name.trim_end_matches("...").trim_matches(['<', '>'])).collect();
    let are = if names.len() == 1 { "is" } else { "are" };
    let usage = usage.to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    format!("{} {are} missing: {usage}", names.join(" and "))
}

/// `a, b or c`.
fn any_of(names: &[String]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => names.concat(),
    }
}

/// Any other error in one line, with the nearest valid spelling.
fn other(error: &Error) -> String {
    let text = error.render().to_string();
    let text = text.trim_start_matches("error: ");
    let mut parts = text.split("\n\n").map(str::trim);
    let what = parts.next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let tips = parts.filter(|part| part.starts_with("tip: "));
    let tips = tips.flat_map(str::lines).map(|line| line.trim().trim_start_matches("tip: "));
    std::iter::once(what.as_str()).chain(tips).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn wrong(args: &[&str]) -> Vec<String> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let cli = crate::manual::prepared(crate::Cli::command());
        match parse(cli, &args) {
            Err(Refusal::Wrong(wrong)) => wrong,
            Err(Refusal::Answer(answer)) => panic!("{answer}"),
            Ok(_) => Vec::new(),
        }
    }

    #[test]
    fn all_bad_values_are_reported() {
        let args = ["fathom", "watch", "-i", "2h", "--sampling=some", "-t", "x", "--bogus"];
        let all = wrong(&args);
        assert!(all[0].starts_with("--interval 2h: expected 50ms to 1h"), "{all:?}");
        assert_eq!(all[1], "--sampling some: expected off, default or full");
        assert!(all[2].contains("'--bogus'"), "{all:?}");
        assert!(all[3].starts_with("--duration x: expected a time") && all.len() == 4, "{all:?}");
        assert!(wrong(&["fathom", "watch", "-i", "2s"]).is_empty());
        for value in ["-5", "-5s"] {
            let all = wrong(&["fathom", "watch", "-t", value]);
            let expected = format!("--duration {value}: expected a time");
            assert!(all.len() == 1 && all[0].starts_with(&expected), "{all:?}");
        }
        let all = wrong(&["fathom", "runs", "tag", "good"]);
        assert_eq!(all, ["RUN is missing: fathom runs tag <RUN>... <TAG>"]);
        let all = wrong(&["fathom", "runs", "tag"]);
        assert!(all[0].starts_with("RUN and TAG are missing: fathom runs tag"), "{all:?}");
    }

    #[test]
    fn other_errors_are_one_line_with_what_is_right() {
        let all = wrong(&["fathom", "top", "--cuont=3"]);
        assert!(all.len() == 1 && all[0].contains("'--count'"), "{all:?}");
        let all = wrong(&["fathom", "limt"]);
        assert!(all.len() == 1 && all[0].contains("'limit'"), "{all:?}");
    }
}
