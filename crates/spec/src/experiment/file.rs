//! An experiment's file.

use super::{ExperimentDraft, Pair, VariantDraft, check, finish, values};
use crate::error::{Place, SpecError};
use crate::{keys, suggest};
use fathom_model::experiment::{Direction, Experiment, Metric, Published, TargetUse};
use fathom_model::setting::SettingChange;
use fathom_model::watch::Level;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const TOP: [&str; 9] =
    ["name", "question", "source", "metric", "control", "each_target", "job", "grid", "variant"];
const VARIANT: [&str; 9] = [
    "name",
    "job",
    "settings",
    "sampling",
    "command",
    "targets",
    "published",
    "published_in",
    "direction",
];

/// The experiment in `text`, the contents of `file`, on a machine with `cpus` CPUs, for `targets` targets, 0 where they
/// are not known. In values, `$ncpus` stands for the number of CPUs.
pub fn experiment(
    text: &str,
    file: &str,
    cpus: u64,
    targets: usize,
) -> Result<Experiment, Vec<SpecError>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut reader = TomlReader { text, file, cpus, problems: Vec::new() };
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        reader.problem(at, error.message().to_string());
    }
    let mut draft = reader.top(table.get_ref(), targets);
    if draft.name.is_empty() {
        let name = file.rsplit('/').next().unwrap_or(file);
        draft.name = name.strip_suffix(".toml").unwrap_or(name).to_string();
    }
    reader.problems.sort_by_key(|problem| problem.place.as_ref().map_or(0, |place| place.line));
    let found = finish(draft, reader.problems);
    let place = Place { file: file.to_string(), line: 1 };
    found.map_err(|all| all.into_iter().map(|problem| problem.at(Some(&place))).collect())
}

struct TomlReader<'a> {
    text: &'a str,
    file: &'a str,
    cpus: u64,
    problems: Vec<SpecError>,
}

type Entry<'a, 'i> = (&'a Spanned<std::borrow::Cow<'i, str>>, &'a Spanned<DeValue<'i>>);

impl TomlReader<'_> {
    fn problem(&mut self, at: usize, why: String) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let place = Place { file: self.file.to_string(), line };
        self.problems.push(SpecError::new(why).at(Some(&place)));
    }

    fn top(&mut self, table: &DeTable<'_>, targets: usize) -> ExperimentDraft {
        let mut draft = ExperimentDraft { control: true, ..ExperimentDraft::default() };
        let mut each_target_at = 0;
        for entry in table {
            let key = entry.0;
            match &**key.get_ref() {
                "name" => draft.name = self.string(entry),
                "question" => draft.question = self.string(entry),
                "source" => draft.source = self.string(entry),
                "metric" => draft.metric = self.choice(entry, &Metric::NAMES),
                "control" => draft.control = self.flag(entry),
                "each_target" => {
                    each_target_at = key.span().start;
                    draft.each_target = self.flag(entry).then_some(targets);
                }
                "job" => draft.base = self.job(entry),
                "grid" => draft.grid = self.grid(entry),
                "variant" => draft.variants = self.variants(entry),
                other => self.unknown(key.span().start, other, &TOP),
            }
        }
        if draft.each_target.is_some() {
            // Only these of all targets are the sum of those of each.
            if !matches!(draft.metric, Metric::Iops | Metric::Bandwidth) {
                let why = "each_target compares sums over targets; set metric to iops or bandwidth";
                self.problem(each_target_at, why.into());
            }
            if targets == 1 {
                let why = "each_target needs two targets or more; name them after the experiment";
                self.problem(each_target_at, why.into());
            }
        }
        let axes: Vec<String> = draft.grid.iter().map(|(key, _)| key.clone()).collect();
        for (key, _) in draft.variants.iter().flat_map(|variant| &variant.job) {
            if axes.contains(key) {
                self.problem(0, format!("a variant sets {key}, which the grid varies; remove one"));
            }
        }
        if draft.variants.is_empty() {
            draft.variants.push(VariantDraft::default());
            if draft.grid.is_empty() {
                self.problem(0, "there is nothing to compare; add [[variant]] or [grid]".into());
            }
        }
        draft
    }

    fn variants(&mut self, (key, value): Entry<'_, '_>) -> Vec<VariantDraft> {
        let DeValue::Array(array) = value.get_ref() else {
            self.problem(key.span().start, "variant: expected tables; write [[variant]]".into());
            return Vec::new();
        };
        let mut variants: Vec<VariantDraft> = Vec::new();
        for item in array.iter() {
            let at = item.span().start;
            let DeValue::Table(table) = item.get_ref() else {
                self.problem(at, "variant: expected a table; write [[variant]]".into());
                continue;
            };
            let variant = self.variant(at, table);
            if variants.iter().any(|other| other.name == variant.name) {
                self.problem(
                    at,
                    format!("the variant '{}' occurs twice; rename one", variant.name),
                );
            }
            variants.push(variant);
        }
        variants
    }

    fn variant(&mut self, at: usize, table: &DeTable<'_>) -> VariantDraft {
        let mut variant = VariantDraft::default();
        let (mut text, mut direction) = (String::new(), None);
        for entry in table {
            let key = entry.0;
            match &**key.get_ref() {
                "name" => variant.name = self.string(entry),
                "job" => variant.job = self.job(entry),
                "settings" => variant.settings = self.settings(entry),
                "sampling" => variant.sampling = Some(self.choice(entry, &Level::NAMES)),
                "command" => variant.command = Some(self.string(entry)),
                "targets" => {
                    let names = [("each", TargetUse::Each), ("shared", TargetUse::Shared)];
                    variant.targets = self.choice(entry, &names);
                }
                "published" => text = self.string(entry),
                "published_in" => variant.published_in = self.scalar(entry.1),
                "direction" => {
                    let names = [
                        ("higher", Some(Direction::Higher)),
                        ("lower", Some(Direction::Lower)),
                        ("same", Some(Direction::Same)),
                    ];
                    direction = self.choice(entry, &names);
                }
                other => self.unknown(key.span().start, other, &VARIANT),
            }
        }
        if variant.name.is_empty() {
            self.problem(at, "a variant has no name; add name = \"…\"".into());
        }
        if variant.command.is_some() && !variant.job.is_empty() {
            let why = "has both command and job; a command generates its own load, so remove job";
            self.problem(at, format!("the variant '{}' {why}", variant.name));
        }
        let is_known = direction.is_some() || !text.is_empty();
        variant.published = is_known.then_some(Published { text, direction });
        variant
    }

    /// Keys of a job: a table, or words in a string.
    fn job(&mut self, entry: Entry<'_, '_>) -> Vec<Pair> {
        let (key, value) = entry;
        let at = value.span().start;
        let pairs: Vec<(usize, Pair)> = match value.get_ref() {
            DeValue::Table(table) => {
                let pair = |(key, value): Entry<'_, '_>| {
                    let name = key.get_ref().to_string();
                    (key.span().start, (name, self.scalar(value)))
                };
                table.iter().map(pair).collect()
            }
            DeValue::String(text) => text
                .split_whitespace()
                .map(|word| (at, super::pair(word.trim_start_matches('-'))))
                .collect(),
            _ => {
                self.problem(key.span().start, "job: expected a table of keys".into());
                Vec::new()
            }
        };
        pairs.into_iter().map(|(at, (key, value))| self.checked(at, &key, value)).collect()
    }

    fn checked(&mut self, at: usize, key: &str, value: String) -> Pair {
        if let Err(why) = check(key, &value) {
            self.problem(at, why);
        }
        (keys::find(key).map_or(key, |key| key.name).to_string(), value)
    }

    fn grid(&mut self, (key, value): Entry<'_, '_>) -> Vec<(String, Vec<String>)> {
        let DeValue::Table(table) = value.get_ref() else {
            self.problem(key.span().start, "grid: expected a table of lists".into());
            return Vec::new();
        };
        let mut grid = Vec::new();
        for (key, value) in table {
            let at = key.span().start;
            let list = match value.get_ref() {
                DeValue::Array(array) => {
                    let items: Vec<String> = array.iter().map(|item| self.scalar(item)).collect();
                    items.join(",")
                }
                _ => self.scalar(value),
            };
            match values(&list) {
                Ok(all) => {
                    let pairs = all.into_iter().map(|value| self.checked(at, key.get_ref(), value));
                    let pairs: Vec<Pair> = pairs.collect();
                    let name = pairs.first().map_or_else(String::new, |(key, _)| key.clone());
                    grid.push((name, pairs.into_iter().map(|(_, value)| value).collect()));
                }
                Err(why) => self.problem(at, format!("{}: {why}", key.get_ref())),
            }
        }
        grid
    }

    fn settings(&mut self, (key, value): Entry<'_, '_>) -> Vec<String> {
        let DeValue::Table(table) = value.get_ref() else {
            let why = "settings: expected a table, such as { scheduler = \"none\" }";
            self.problem(key.span().start, why.into());
            return Vec::new();
        };
        let mut settings = Vec::new();
        for (key, value) in table {
            let change = format!("{}={}", key.get_ref(), self.scalar(value));
            // Whose setting it is depends on the targets.
            if let Err(why) = SettingChange::parse(&change, "TARGET") {
                self.problem(key.span().start, why);
            }
            settings.push(change);
        }
        settings
    }

    /// A string, number or truth value as the text that fio's keys take.
    fn scalar(&mut self, value: &Spanned<DeValue<'_>>) -> String {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(flag) => u8::from(*flag).to_string(),
            _ => {
                self.problem(value.span().start, "expected a string or a number".into());
                String::new()
            }
        };
        text.replace("$ncpus", &self.cpus.to_string())
    }

    fn string(&mut self, (key, value): Entry<'_, '_>) -> String {
        if let DeValue::String(text) = value.get_ref() {
            return text.trim().to_string();
        }
        self.problem(value.span().start, format!("{}: expected a string", key.get_ref()));
        String::new()
    }

    fn flag(&mut self, (key, value): Entry<'_, '_>) -> bool {
        if let DeValue::Boolean(flag) = value.get_ref() {
            return *flag;
        }
        self.problem(value.span().start, format!("{}: expected true or false", key.get_ref()));
        false
    }

    fn choice<T: Copy + Default>(&mut self, entry: Entry<'_, '_>, names: &[(&str, T)]) -> T {
        let text = self.string(entry);
        if let Some((_, found)) = names.iter().find(|(name, _)| *name == text) {
            return *found;
        }
        if !text.is_empty() {
            let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            let why = format!("'{text}' is not one of {}", names.join(", "));
            self.problem(entry.1.span().start, why);
        }
        T::default()
    }

    fn unknown(&mut self, at: usize, name: &str, known: &[&str]) {
        let near = suggest::nearest(name, known.iter().copied());
        let near = near.map_or_else(
            || format!("known are {}", known.join(", ")),
            |near| format!("did you mean '{near}'?"),
        );
        self.problem(at, format!("unknown key '{name}'; {near}"));
    }
}
