//! The table of keys. Each key is one entry, from which parser, help, documentation and
//! suggestions are derived.

/// `value("FORM") "key" | "alias": "description", "difference from fio" => |job, v| assignment;`, or instead of the last
/// part `= setter;`.
macro_rules! keys {
    ($($kind:ident $(($form:literal))? $name:literal $(| $alias:literal)*: $doc:literal $(, $differs:tt)?
        $(=> |$job:tt, $v:tt| $set:expr;)? $(= $setter:expr;)?)*) => {
        pub(super) const KEYS: &[$crate::keys::Key] = &[$($crate::keys::Key {
            aliases: &[$($alias),*],
            differs: [$($differs,)? ""][0],
            ..$crate::keys::Key::$kind(
                $name, $($form,)? $doc, $(|$job, $v| { $set; Ok(()) })? $($setter)?
            )
        }),*];
    };
}

mod access;
mod data;
mod distribution;
mod engine;
mod logs;
mod priority;
mod rate;
mod report;
mod schedule;
mod target;

pub use engine::EngineName;
pub(crate) use engine::engines;

use crate::job::{Given, JobSpec};
use crate::suggest;
use crate::value::KeyValue;
use std::collections::BTreeSet;
use std::sync::LazyLock;

pub(crate) type Setter = fn(&mut JobSpec, KeyValue<'_>) -> Result<(), String>;

#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    pub group: KeyGroup,
    pub takes: Takes,
    pub doc: &'static str,
    /// How it differs from fio; empty if it does not.
    pub differs: &'static str,
    /// Values that request nothing, separated by commas, accepted even if the key is refused otherwise.
    pub off: &'static str,
    /// The key without which this one has no effect, whatever its value.
    pub needs: Option<&'static str>,
    pub action: Action,
}

#[derive(Debug, Clone, Copy)]
pub enum Action {
    Set(SetFn),
    Refuse(&'static str),
}

/// A function that sets a key; opaque outside this crate.
#[derive(Debug, Clone, Copy)]
pub struct SetFn(pub(crate) Setter);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// 0 or 1; without a value, 1.
    Flag,
    Value(&'static str),
    Optional(&'static str),
}

impl Takes {
    pub const fn form(self) -> &'static str {
        match self {
            Takes::Flag => "0|1",
            Takes::Value(form) | Takes::Optional(form) => form,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyGroup {
    Target,
    Access,
    Engine,
    Schedule,
    Rate,
    Data,
    Report,
    Refused,
}

impl KeyGroup {
    pub const ALL: [KeyGroup; 8] = {
        use KeyGroup::{Access, Data, Engine, Rate, Refused, Report, Schedule, Target};
        [Target, Access, Engine, Schedule, Rate, Data, Report, Refused]
    };

    pub const fn title(self) -> &'static str {
        match self {
            KeyGroup::Target => "Targets",
            KeyGroup::Access => "I/O pattern",
            KeyGroup::Engine => "I/O engine",
            KeyGroup::Schedule => "Job control",
            KeyGroup::Rate => "Rate limits and think time",
            KeyGroup::Data => "Buffers, flushes and errors",
            KeyGroup::Report => "Reporting",
            KeyGroup::Refused => "Refused keys",
        }
    }
}

impl Key {
    const fn new(name: &'static str, takes: Takes, doc: &'static str, set: Setter) -> Self {
        let action = Action::Set(SetFn(set));
        let (group, off, needs) = (KeyGroup::Target, "", None);
        Self { name, aliases: &[], group, takes, doc, differs: "", off, needs, action }
    }

    const fn flag(name: &'static str, doc: &'static str, set: Setter) -> Self {
        Self::new(name, Takes::Flag, doc, set)
    }

    const fn value(name: &'static str, form: &'static str, doc: &'static str, set: Setter) -> Self {
        Self::new(name, Takes::Value(form), doc, set)
    }

    const fn optional(
        name: &'static str,
        form: &'static str,
        doc: &'static str,
        set: Setter,
    ) -> Self {
        Self::new(name, Takes::Optional(form), doc, set)
    }

    fn in_group(self, group: KeyGroup) -> Self {
        Self { group, ..self }
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    pub fn is_flag(&self) -> bool {
        self.takes == Takes::Flag
    }

    pub(crate) fn is_off(&self, value: &str) -> bool {
        !value.is_empty() && self.off.split(',').any(|off| off == value)
    }
}

static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let groups: [(KeyGroup, &[Key]); 9] = [
        (KeyGroup::Target, target::KEYS),
        (KeyGroup::Access, access::KEYS),
        (KeyGroup::Engine, engine::KEYS),
        (KeyGroup::Schedule, schedule::KEYS),
        (KeyGroup::Schedule, priority::KEYS),
        (KeyGroup::Rate, rate::KEYS),
        (KeyGroup::Data, data::KEYS),
        (KeyGroup::Report, report::KEYS),
        (KeyGroup::Report, logs::KEYS),
    ];
    let supported =
        groups.into_iter().flat_map(|(group, keys)| keys.iter().map(move |k| k.in_group(group)));
    supported.chain(refused()).collect()
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
            let (word, needs) = word.split_once('<').unwrap_or((word, ""));
            let (name, off) = word.split_once('=').unwrap_or((word, ""));
            keys.push(Key {
                group: KeyGroup::Refused,
                off,
                needs: Some(needs).filter(|needs| !needs.is_empty()),
                action: Action::Refuse(why),
                ..Key::value(name, "…", doc, |_, _| Ok(()))
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

/// Flags that any number but 0 sets, as in fio.
const SET_BY_ANY: &[&str] = &[
    "exitall",
    "exitall_on_error",
    "group_reporting",
    "new_group",
    "norandommap",
    "refill_buffers",
    "stonewall",
    "thread",
    "time_based",
    "zero_buffers",
];

pub(crate) fn is_set_by_any(key: &Key) -> bool {
    SET_BY_ANY.contains(&key.name)
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

/// A note on the `options` and the keys of `jobs` that have no effect.
pub(crate) fn without_effect(options: &[&'static str], jobs: &[JobSpec]) -> Option<String> {
    let given: BTreeSet<&str> = jobs.iter().flat_map(|job| &job.given).map(|g| g.key).collect();
    let is_idle = |name: &&str| find(name).is_some_and(|key| key.differs.starts_with("No effect:"));
    let idle = given.into_iter().filter(is_idle).chain(options.iter().copied());
    let idle = idle.collect::<Vec<_>>().join(", ");
    (!idle.is_empty()).then(|| format!("no effect: {idle}; see `fathom run --cmdhelp=NAME`"))
}

/// Notes on keys of the command line that all jobs override: they are defaults for job files, as in fio.
pub(crate) fn overridden_by_files(given: &[Given], jobs: &[JobSpec]) -> Vec<String> {
    let from_file = |key: &str, job: &JobSpec| {
        job.given.iter().rfind(|last| last.key == key).is_some_and(|last| last.place.is_some())
    };
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
fn accept_flag(_: &mut JobSpec, value: KeyValue<'_>) -> Result<(), String> {
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
            assert!(key.needs.is_none_or(|needs| find(needs).is_some()), "{}", key.name);
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
                let _ = (set.0)(&mut JobSpec::new(), KeyValue::strict(text, 1024));
            }
        }
    }
}
