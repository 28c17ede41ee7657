//! The table of keys. Each key is one entry; parser, help, documentation and suggestions
//! derive from it.

mod access;
mod data;
mod engine;
mod rate;
mod refused;
mod report;
mod schedule;
mod target;

use crate::job::JobSpec;
use crate::suggest;
use crate::value::Value;
use std::sync::LazyLock;

/// How a key changes a job.
pub(crate) type Setter = fn(&mut JobSpec, Value<'_>) -> Result<(), String>;

/// One key of job files and command lines.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its first name.
    pub name: &'static str,
    /// Its other names.
    pub aliases: &'static [&'static str],
    /// The chapter that it belongs to.
    pub group: Group,
    /// What stands behind its `=`.
    pub takes: Takes,
    /// What it does, in one line.
    pub doc: &'static str,
    /// Where fathom reads it in another way than fio; empty where it does not.
    pub differs: &'static str,
    /// What is done with it.
    pub action: Action,
}

/// What is done with a key.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// It is honoured.
    Set(SetFn),
    /// It is refused, for this reason.
    Refuse(&'static str),
}

/// A function that sets a key; opaque outside of this crate.
#[derive(Debug, Clone, Copy)]
pub struct SetFn(pub(crate) Setter);

/// What stands behind the `=` of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// 0 or 1; nothing means 1.
    Flag,
    /// A value of this form.
    Value(&'static str),
}

impl Takes {
    /// The form of the value.
    #[must_use]
    pub const fn form(self) -> &'static str {
        match self {
            Takes::Flag => "0|1",
            Takes::Value(form) => form,
        }
    }
}

/// A chapter of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// What is worked on.
    Target,
    /// Directions, sizes, places.
    Access,
    /// How I/O reaches the kernel.
    Engine,
    /// When jobs start and end, and where they run.
    Schedule,
    /// Rates and pauses.
    Rate,
    /// What is written, and when it is flushed.
    Data,
    /// What is shown.
    Report,
    /// Refused.
    Refused,
}

impl Group {
    /// All chapters, in the order in which they are shown.
    pub const ALL: [Group; 8] = [
        Group::Target,
        Group::Access,
        Group::Engine,
        Group::Schedule,
        Group::Rate,
        Group::Data,
        Group::Report,
        Group::Refused,
    ];

    /// The chapter's title.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Group::Target => "Targets",
            Group::Access => "Directions, sizes and places",
            Group::Engine => "Engine",
            Group::Schedule => "Jobs and time",
            Group::Rate => "Rates and pauses",
            Group::Data => "Contents, flushes and errors",
            Group::Report => "Results",
            Group::Refused => "Refused",
        }
    }
}

impl Key {
    const fn new(name: &'static str, takes: Takes, doc: &'static str, set: Setter) -> Self {
        let action = Action::Set(SetFn(set));
        Self { name, aliases: &[], group: Group::Target, takes, doc, differs: "", action }
    }

    const fn flag(name: &'static str, doc: &'static str, set: Setter) -> Self {
        Self::new(name, Takes::Flag, doc, set)
    }

    const fn value(name: &'static str, form: &'static str, doc: &'static str, set: Setter) -> Self {
        Self::new(name, Takes::Value(form), doc, set)
    }

    const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    const fn differs(self, differs: &'static str) -> Self {
        Self { differs, ..self }
    }

    fn in_group(self, group: Group) -> Self {
        Self { group, ..self }
    }

    /// All names, the first one first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Whether it is a flag.
    #[must_use]
    pub fn is_flag(&self) -> bool {
        self.takes == Takes::Flag
    }
}

static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let chapters: [(Group, &[Key]); 7] = [
        (Group::Target, target::KEYS),
        (Group::Access, access::KEYS),
        (Group::Engine, engine::KEYS),
        (Group::Schedule, schedule::KEYS),
        (Group::Rate, rate::KEYS),
        (Group::Data, data::KEYS),
        (Group::Report, report::KEYS),
    ];
    let honoured =
        chapters.into_iter().flat_map(|(group, keys)| keys.iter().map(move |k| k.in_group(group)));
    honoured.chain(refused::keys()).collect()
});

/// All keys, chapter by chapter, those that are refused last.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    KEYS.iter()
}

/// The key with this name, first or other.
#[must_use]
pub fn find(name: &str) -> Option<&'static Key> {
    keys().find(|key| key.names().any(|n| n == name))
}

/// Why `name` is no key, with the nearest key that is.
pub(crate) fn unknown(name: &str) -> String {
    let shown: String = name.chars().take(64).collect();
    let honoured = keys().filter(|key| matches!(key.action, Action::Set(_)));
    let near = suggest::nearest(name, honoured.flat_map(Key::names))
        .or_else(|| suggest::nearest(name, keys().flat_map(Key::names)));
    match near {
        Some(near) => format!("unknown key '{shown}'; did you mean '{near}'?"),
        None => {
            format!("unknown key '{shown}'; 'fathom run --help' lists the keys that there are")
        }
    }
}

/// A setter for keys that change nothing here, whatever flag they carry.
fn accept_flag(_: &mut JobSpec, value: Value<'_>) -> Result<(), String> {
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
                let _ = (set.0)(&mut JobSpec::new(), Value { text, kb_base: 1024 });
            }
        }
    }
}
