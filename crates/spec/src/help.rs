//! Help and documentation, generated from the tables of keys and options.

use crate::keys::{self, Action, Key, KeyGroup};
use crate::output::{self, RunOption, run_options};
use std::fmt::Write;

pub const RUN_USAGE: &str = "\
fathom run [OPTIONS] [JOBFILE…] [--name=JOB --key=value…]
fathom run [OPTIONS] --key=value… TARGET…
";

const ABOUT: &str = "
Run the jobs of fio job files, or of a fio command line. The job file `-` is standard input.

";

const EXAMPLES: &str = "
Examples:
  fathom run --rw=randread --bs=4k --iodepth=32 --runtime=10 --time_based /dev/nvme0n1
  fathom run job.fio --output-format=json --output=result.json
";

pub fn run_help_short() -> String {
    let mut text = format!("{RUN_USAGE}{ABOUT}Options\n");
    for (form, doc) in options(|option| !option.doc.starts_with("No effect")) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {form:34} {doc}");
    }
    text.push_str("\n--help also lists all job keys, --cmdhelp=KEY explains one.\n");
    text + EXAMPLES
}

pub fn run_manual() -> Vec<(&'static str, Vec<(String, &'static str)>)> {
    let form = |key: &Key| {
        let names: Vec<&str> = key.names().collect();
        (format!("{}={}", names.join("|"), key.takes.form()), key.doc)
    };
    let groups = KeyGroup::ALL.into_iter().filter(|group| *group != KeyGroup::Refused);
    let keys = groups.map(|group| {
        (group.name(), keys::keys().filter(|key| key.group == group).map(form).collect())
    });
    std::iter::once(("Options", options(|_| true))).chain(keys).collect()
}

fn options(shown: impl Fn(&RunOption) -> bool) -> Vec<(String, &'static str)> {
    let accepted = run_options().iter().filter(|option| option.refusal().is_none());
    let form = |option: &RunOption| {
        let value = option.takes.map(|form| format!("={form}")).unwrap_or_default();
        let short = output::short(option.name).map(|short| format!("-{short}, "));
        (format!("{}--{}{value}", short.unwrap_or_default(), option.name), option.doc)
    };
    let overwrite = "Permit writing to this existing file; repeatable";
    let overwrite = ("--overwrite=PATH".to_string(), overwrite);
    accepted.filter(|option| shown(option)).map(form).chain([overwrite]).collect()
}

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
        let _ = writeln!(text, "  Aliases: {}.", key.aliases.join(", "));
    }
    if !key.differs.is_empty() {
        let _ = writeln!(text, "  Differs from fio: {}", key.differs);
    }
    if let Action::Refuse(why) = key.action {
        let _ = writeln!(text, "  Refused: {why}.");
    }
    Ok(text)
}

pub fn engine_help(name: Option<&str>) -> Result<String, crate::SpecError> {
    let Some(name) = name else {
        let names = keys::engines().map(|(name, _)| format!("  {name}\n"));
        return Ok(format!("Available IO engines:\n{}", names.collect::<String>()));
    };
    let engine = keys::engines().find(|(known, _)| *known == name).ok_or_else(|| {
        crate::SpecError::new(format!("unknown engine '{name}'; --enghelp lists all engines"))
    })?;
    let mut text = String::new();
    for key in keys::keys_of(&engine.1) {
        let form = format!("{}={}", key.name, key.takes.form());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {form:34} {}", key.doc);
    }
    Ok(text)
}
