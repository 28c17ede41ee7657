//! The table of keys. Each key is one entry, from which parser, help, documentation and
//! suggestions are derived.

/// A chapter of the table: `value("FORM") "key" | "alias": "description", "difference from fio"`, and what it does:
/// `-> field;` for a flag, `=> field = method(arguments);` with a method of [`KeyValue`], `=> |job, v| assignment;` or
/// `= setter;`. `any` is a flag that any number but 0 sets, as in fio. Before that, `@(PATTERN)` matches the engines
/// that support the key, and `@off "VALUE"` is a value other than 0 that requests nothing.
macro_rules! keys {
    ($group:ident; $($kind:ident $(($form:literal))? $name:literal $(| $alias:literal)*: $doc:literal $(, $differs:tt)?
        $(@($($only:tt)*))? $(@off $off:literal)?
        $(-> $($flag:ident).+;)? $(=> $($field:ident).+ = $read:ident($($arg:tt)*);)?
        $(=> |$job:tt, $v:tt| $set:expr;)? $(= $setter:expr;)?)*) => {
        pub(super) const KEYS: &[$crate::keys::Key] = &[$($crate::keys::Key {
            name: $name,
            aliases: &[$($alias),*],
            group: $crate::keys::KeyGroup::$group,
            takes: takes!($kind $($form)?),
            doc: $doc,
            differs: [$($differs,)? ""][0],
            off: [$($off,)? ""][0],
            only: [$(Some((|engine| matches!(engine, $($only)*)) as $crate::keys::Supports),)? None][0],
            action: $crate::keys::Action::Set(
                $(|job, v| { job.$($flag).+ = v.flag()?; Ok(()) })?
                $(|job, v| { job.$($field).+ = v.$read($($arg)*)?; Ok(()) })?
                $(|$job, $v| { $set; Ok(()) })?
                $($setter)?
            ),
        }),*];
    };
}

macro_rules! takes {
    (flag) => {
        $crate::keys::Takes::Flag
    };
    (any) => {
        $crate::keys::Takes::AnyNumber
    };
    (value $form:literal) => {
        $crate::keys::Takes::Value($form)
    };
    (optional $form:literal) => {
        $crate::keys::Takes::Optional($form)
    };
}

mod access;
mod data;
mod distribution;
mod engine;
mod priority;
mod rate;
mod replay;
mod report;
mod schedule;
mod target;
mod verify;
mod zones;

pub(crate) use engine::engines;

use crate::job::{Given, Job};
use crate::suggest;
use crate::value::KeyValue;
use fathom_model::plan::Engine;
use std::collections::BTreeSet;
use std::sync::LazyLock;

type Supports = fn(&Engine) -> bool;
pub(crate) type Setter = fn(&mut Job, KeyValue<'_>) -> Result<(), String>;

#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    pub group: KeyGroup,
    pub takes: Takes,
    pub doc: &'static str,
    /// How it differs from fio; empty if it does not.
    pub differs: &'static str,
    /// Values besides 0 that request nothing, separated by commas; the only ones accepted if the key is refused.
    pub off: &'static str,
    /// The engines that support it, if not all of them.
    pub only: Option<Supports>,
    pub action: Action,
}

#[derive(Debug, Clone, Copy)]
pub enum Action {
    Set(Setter),
    Refuse(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// 0 or 1; without a value, 1.
    Flag,
    /// A flag that any number but 0 sets, as in fio.
    AnyNumber,
    Value(&'static str),
    Optional(&'static str),
}

impl Takes {
    pub const fn form(self) -> &'static str {
        match self {
            Takes::Flag | Takes::AnyNumber => "0|1",
            Takes::Value(form) | Takes::Optional(form) => form,
        }
    }
}

fathom_model::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum KeyGroup {
        Target = "Targets",
        Access = "I/O pattern",
        Engine = "I/O engine",
        Schedule = "Job control",
        Rate = "Rate limits and think time",
        Data = "Buffers, flushes and errors",
        Verify = "Verification",
        Replay = "Traces",
        Report = "Reporting",
        Refused = "Refused keys",
    }
}

impl Key {
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    pub fn is_flag(&self) -> bool {
        matches!(self.takes, Takes::Flag | Takes::AnyNumber)
    }

    pub(crate) fn is_off(&self, value: &str) -> bool {
        !value.is_empty() && self.off.split(',').any(|off| off == value)
    }

    pub(crate) fn is_for(&self, engine: &Engine) -> bool {
        self.only.is_none_or(|supports| supports(engine))
    }
}

static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let chapters = [
        target::KEYS,
        access::KEYS,
        zones::KEYS,
        engine::KEYS,
        schedule::KEYS,
        priority::KEYS,
        rate::KEYS,
        data::KEYS,
        verify::KEYS,
        replay::KEYS,
        report::KEYS,
    ];
    [chapters.concat(), refused()].concat()
});

fn refused() -> Vec<Key> {
    let (mut doc, mut why) = ("", "");
    let mut keys = Vec::new();
    for line in include_str!("refused.txt").lines().filter(|line| !line.starts_with('#')) {
        if let Some(heading) = line.split_once(" | ") {
            (doc, why) = heading;
            continue;
        }
        for word in line.split_whitespace() {
            let (name, off) = word.split_once('=').unwrap_or((word, ""));
            keys.push(Key {
                name,
                aliases: &[],
                group: KeyGroup::Refused,
                takes: Takes::Value("…"),
                doc,
                differs: "",
                off,
                only: None,
                action: Action::Refuse(why),
            });
        }
    }
    keys
}

pub fn keys() -> impl Iterator<Item = &'static Key> {
    KEYS.iter()
}

pub fn find(name: &str) -> Option<&'static Key> {
    keys().find(|key| key.names().any(|n| n == name))
}

/// Keys that only some engines support, `engine` among them.
pub(crate) fn keys_of(engine: &Engine) -> impl Iterator<Item = &'static Key> {
    keys().filter(|key| key.only.is_some() && key.is_for(engine))
}

pub(crate) fn unknown(name: &str) -> String {
    let shown: String = name.chars().take(64).collect();
    let supported = keys().filter(|key| matches!(key.action, Action::Set(_)));
    let near = suggest::nearest(name, supported.flat_map(Key::names))
        .or_else(|| suggest::nearest(name, keys().flat_map(Key::names)));
    match near {
        Some(near) => format!("unknown key '{shown}'; did you mean '{near}'?"),
        None => {
            format!("unknown key '{shown}'; 'fathom run --help' lists all keys")
        }
    }
}

pub(crate) fn without_effect(options: &[&'static str], jobs: &[Job]) -> Option<String> {
    let given: BTreeSet<&str> = jobs.iter().flat_map(|job| &job.given).map(|g| g.key).collect();
    let is_idle = |name: &&str| find(name).is_some_and(|key| key.differs.starts_with("No effect:"));
    let idle = given.into_iter().filter(is_idle).chain(options.iter().copied());
    let idle = idle.collect::<Vec<_>>().join(", ");
    (!idle.is_empty()).then(|| format!("no effect: {idle}; see `fathom run --cmdhelp=NAME`"))
}

/// Notes on keys of the command line that all jobs override: they are defaults for job files, as in fio.
pub(crate) fn overridden_by_files(given: &[Given], jobs: &[Job]) -> Vec<String> {
    let from_file = |key: &str, job: &Job| job.last(key).is_some_and(|last| last.place.is_some());
    let overridden = |given: &&Given| {
        given.place.is_none()
            && !jobs.is_empty()
            && jobs.iter().all(|job| from_file(given.key, job))
    };
    let note = |given: &Given| {
        format!(
            "--{}={} has no effect: as in fio, what the job file sets applies; change it there",
            given.key, given.value
        )
    };
    given.iter().filter(overridden).map(note).collect()
}

/// Setter for flags that are accepted without effect.
fn accept_flag(_: &mut Job, value: KeyValue<'_>) -> Result<(), String> {
    value.flag().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_occur_once() {
        let mut seen = HashSet::new();
        for name in keys().flat_map(Key::names) {
            assert!(seen.insert(name), "{name} occurs twice");
        }
    }

    #[test]
    fn every_key_is_described() {
        for key in keys() {
            assert!(!key.doc.is_empty(), "{}", key.name);
            assert!(!key.doc.contains(['|', '\n']), "{}", key.name);
            if let Action::Refuse(why) = key.action {
                assert!(!why.is_empty() && !why.ends_with('.'), "{}: {why}", key.name);
            }
        }
    }

    #[test]
    fn misspelt_keys_get_the_nearest_one() {
        assert!(unknown("iodeth").contains("'iodepth'"));
        assert!(unknown("block_size").contains("'blocksize'"));
        assert!(unknown("quux").contains("--help"));
    }

    #[test]
    fn every_key_takes_or_refuses_any_text() {
        for key in keys() {
            let Action::Set(set) = key.action else { continue };
            for text in ["", "0", "1", "-1", ":", ",", "%", "4k,8k", "x/y:z", "\u{e9}", "1-2"] {
                let _ = set(&mut Job::new(), KeyValue::strict(text, 1024));
            }
        }
    }
}
