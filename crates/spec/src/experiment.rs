//! Experiments: files in TOML, jobs on a command line, and grids of keys, as [`Experiment`]s.
//!
//! An experiment is a base job and variants of it; with a grid, every variant is measured in each cell of it and
//! compared with the baseline of the same cell. `docs/try.md` describes the file.

mod file;
mod values;

pub use file::experiment;
pub use values::values;

use crate::error::SpecError;
use crate::ini::Line;
use crate::job::Job;
use crate::keys;
use crate::spec::set_key;
use crate::value::escape_path;
use fathom_model::experiment::{CONDITIONS_MAX, Condition, Experiment, Load, Metric, TargetUse};
use fathom_model::watch::Level;

/// The axis of a sweep that is no key: how many of several machines take part.
pub const RANKS: &str = "ranks";
/// Name of the repetition of a baseline.
const AGAIN: &str = "again (A/A)";

type Pair = (String, String);

/// The keys of a job that is given as words, such as `--rw=randread bs=4k`, of which one at least is known; `None` where
/// it is something else, such as a path.
pub fn job_words(text: &str) -> Option<Vec<String>> {
    let words: Vec<&str> =
        text.split_whitespace().map(|word| word.trim_start_matches('-')).collect();
    let known = |word: &str| keys::find(word.split('=').next().unwrap_or_default());
    let is_flag = |word: &str| known(word).is_some_and(keys::Key::is_flag);
    let is_job = words.iter().all(|word| word.contains('=') || is_flag(word))
        && words.iter().any(|word| word.contains('=') && known(word).is_some());
    is_job.then(|| words.into_iter().map(str::to_string).collect())
}

/// Jobs compared with the first of them. Each is a list of `KEY=VALUE`.
pub fn compare_jobs(jobs: &[Vec<String>], metric: Metric) -> Result<Experiment, Vec<SpecError>> {
    let mut problems = Vec::new();
    let mut variants = Vec::new();
    for words in jobs {
        let pairs = words.iter().map(|word| pair(word)).collect::<Vec<Pair>>();
        for (key, value) in &pairs {
            problems.extend(check(key, value).err().map(SpecError::new));
        }
        variants.push(VariantDraft { job: pairs, ..VariantDraft::default() });
    }
    let names = distinct_names(&variants);
    variants.iter_mut().zip(names).for_each(|(variant, name)| variant.name = name);
    let draft = ExperimentDraft {
        name: "try".into(),
        metric,
        variants,
        control: true,
        ..ExperimentDraft::default()
    };
    finish(draft, problems)
}

/// A grid of keys, each cell of which stands for itself: `axes` with their lists of values, and the keys that all
/// cells have. A `rate` in percent is one of the peak; `ranks` is no key, but how many machines take part.
pub fn sweep(axes: &[(String, String)], job: &[String]) -> Result<Experiment, Vec<SpecError>> {
    let mut problems = Vec::new();
    let base: Vec<Pair> = job.iter().map(|word| pair(word)).collect();
    for (key, value) in &base {
        problems.extend(check(key, value).err().map(SpecError::new));
    }
    let mut grid = Vec::new();
    for (key, list) in axes {
        match values(list).map_err(|why| format!("--{key}={list}: {why}")) {
            Ok(all) => {
                for value in all.iter().filter(|value| !is_share(key, value)) {
                    let checked = match key.as_str() {
                        RANKS => number_of_ranks(value).map(drop),
                        _ => check(key, value),
                    };
                    problems.extend(checked.err().map(SpecError::new));
                }
                grid.push((key.clone(), all));
            }
            Err(why) => problems.push(SpecError::new(why)),
        }
    }
    let (name, variants) = ("sweep".into(), vec![VariantDraft::default()]);
    finish(ExperimentDraft { name, base, grid, variants, ..ExperimentDraft::default() }, problems)
}

/// The command line of `fathom run` for the workers of `condition` on `targets`; none for a command.
pub fn condition_args(condition: &Condition, targets: &[String]) -> Vec<String> {
    let Load::Job(keys) = &condition.load else { return Vec::new() };
    let keys = || keys.iter().map(|key| format!("--{key}"));
    if keys().any(|key| key.starts_with("--filename=") || key.starts_with("--directory=")) {
        return keys().collect();
    }
    let path = |target: &String| escape_path(target);
    let of = |files: String| {
        let file = (!files.is_empty()).then(|| format!("--filename={files}"));
        std::iter::once("--name=job".to_string()).chain(keys()).chain(file).collect::<Vec<String>>()
    };
    match condition.targets {
        TargetUse::Only(at) => of(targets.get(at).map(path).unwrap_or_default()),
        TargetUse::Shared => of(targets.iter().map(path).collect::<Vec<_>>().join(":")),
        TargetUse::Each if targets.is_empty() => of(String::new()),
        TargetUse::Each => targets.iter().flat_map(|target| of(path(target))).collect(),
    }
}

/// An experiment before its conditions are spelled out.
#[derive(Debug, Default)]
struct ExperimentDraft {
    name: String,
    question: String,
    source: String,
    metric: Metric,
    base: Vec<Pair>,
    grid: Vec<(String, Vec<String>)>,
    variants: Vec<VariantDraft>,
    control: bool,
    /// Each target is measured alone, and all are compared with the sum.
    each_target: Option<usize>,
}

#[derive(Debug, Clone, Default)]
struct VariantDraft {
    name: String,
    job: Vec<Pair>,
    settings: Vec<String>,
    /// Nothing where it is not given: windows are short.
    sampling: Option<Level>,
    command: Option<String>,
    targets: TargetUse,
    published: Option<fathom_model::experiment::Published>,
    /// The value of the grid for which that is; empty for all.
    published_in: String,
}

fn pair(word: &str) -> Pair {
    let (key, value) = word.split_once('=').unwrap_or((word, "1"));
    let name = keys::find(key).map_or(key, |key| key.name);
    (name.to_string(), value.to_string())
}

fn is_share(key: &str, value: &str) -> bool {
    key == "rate" && value.ends_with('%')
}

fn number_of_ranks(value: &str) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("ranks: '{value}' is not a number of 1 or more"))
}

fn check(key: &str, value: &str) -> Result<(), String> {
    if matches!(key, "runtime" | "time_based" | "ramp_time") {
        return Err(format!("{key}: an experiment sets the times itself; use --duration"));
    }
    let line = Line { key: key.to_string(), value: Some(value.to_string()), place: None };
    set_key(&mut Job::new(), &line, false).map_err(|error| error.message)
}

/// Each variant's keys that others have with another value, or not at all.
fn distinct_names(variants: &[VariantDraft]) -> Vec<String> {
    let is_common = |pair: &Pair| variants.iter().all(|variant| variant.job.contains(pair));
    let name = |(index, variant): (usize, &VariantDraft)| {
        let own = variant.job.iter().filter(|pair| !is_common(pair));
        let own: Vec<String> = own.map(|(key, value)| format!("{key}={value}")).collect();
        if own.is_empty() { format!("job {}", index + 1) } else { own.join(" ") }
    };
    variants.iter().enumerate().map(name).collect()
}

fn finish(
    draft: ExperimentDraft,
    mut problems: Vec<SpecError>,
) -> Result<Experiment, Vec<SpecError>> {
    let lengths = draft.grid.iter().map(|(_, values)| values.len());
    let cells = lengths.fold(1_usize, usize::saturating_mul);
    let count = cells.saturating_mul(draft.variants.len() + 1);
    if count > CONDITIONS_MAX {
        problems.push(SpecError::new(format!(
            "{count} conditions, but at most {CONDITIONS_MAX} can be measured; shorten the lists"
        )));
    }
    problems.extend(same_variants(&draft).map(SpecError::new));
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut conditions = Vec::new();
    for cell in cells_of(&draft.grid) {
        match draft.each_target {
            Some(targets) => each_target(&draft, &cell, targets, &mut conditions),
            None => in_cell(&draft, &cell, &mut conditions),
        }
    }
    let ExperimentDraft { name, question, source, metric, grid, .. } = draft;
    let axes = grid.into_iter().map(|(key, _)| key).collect();
    Ok(Experiment { name, question, source, metric, conditions, axes })
}

/// Two variants that do the same, which would be compared with each other.
fn same_variants(draft: &ExperimentDraft) -> Option<String> {
    let what = |v: &VariantDraft| {
        let mut job = v.job.clone();
        job.sort();
        (job, v.settings.clone(), v.sampling, v.command.clone(), v.targets)
    };
    let variants = draft.variants.iter().enumerate();
    variants.filter_map(|(at, one)| {
        let same = draft.variants[..at].iter().find(|other| what(other) == what(one))?;
        Some(format!(
            "'{}' and '{}' are identical, so there is nothing to compare; the baseline is measured twice in any case",
            same.name, one.name
        ))
    }).next()
}

/// The places of a grid, the last axis changing fastest; one without a grid.
fn cells_of(grid: &[(String, Vec<String>)]) -> Vec<Vec<String>> {
    let mut cells: Vec<Vec<String>> = vec![Vec::new()];
    for (_, values) in grid {
        let longer = |cell: &Vec<String>| {
            let cell = cell.clone();
            values.iter().map(move |value| [cell.clone(), vec![value.clone()]].concat())
        };
        cells = cells.iter().flat_map(longer).collect();
    }
    cells
}

fn in_cell(draft: &ExperimentDraft, cell: &[String], conditions: &mut Vec<Condition>) {
    let baseline = conditions.len();
    let compared = draft.variants.len() > 1;
    for (index, variant) in draft.variants.iter().enumerate() {
        let condition = condition(draft, variant, cell);
        let against = if compared && index > 0 { vec![baseline] } else { Vec::new() };
        conditions.push(Condition { against, ..condition.clone() });
        if index == 0 && compared && draft.control {
            let name = format!("{} {AGAIN}", condition.name);
            let repeats = Some(baseline);
            conditions.push(Condition { name, repeats, published: None, ..condition });
        }
    }
}

/// Each target alone, then all together, compared with the sum.
fn each_target(
    draft: &ExperimentDraft,
    cell: &[String],
    targets: usize,
    conditions: &mut Vec<Condition>,
) {
    let Some(variant) = draft.variants.first() else { return };
    let first = conditions.len();
    for at in 0..targets {
        let targets = TargetUse::Only(at);
        let name = format!("target {} alone", at + 1);
        conditions.push(Condition { name, targets, ..condition(draft, variant, cell) });
    }
    for variant in &draft.variants {
        let all = condition(draft, variant, cell);
        conditions.push(Condition { against: (first..first + targets).collect(), ..all });
    }
}

fn condition(draft: &ExperimentDraft, variant: &VariantDraft, cell: &[String]) -> Condition {
    let mut job = draft.base.clone();
    let (mut rate_share, mut ranks) = (None, None);
    let mut set = |(key, value): Pair| match job.iter_mut().find(|(known, _)| *known == key) {
        Some(known) => known.1 = value,
        None => job.push((key, value)),
    };
    for ((key, _), value) in draft.grid.iter().zip(cell) {
        match value.strip_suffix('%').filter(|_| is_share(key, value)) {
            _ if key == RANKS => ranks = number_of_ranks(value).ok(),
            Some(percent) => rate_share = percent.parse::<f64>().ok().map(|share| share / 100.0),
            None => set((key.clone(), value.clone())),
        }
    }
    variant.job.iter().cloned().for_each(&mut set);
    let load = match &variant.command {
        Some(command) => Load::Command(command.clone()),
        None => Load::Job(job.iter().map(|(key, value)| format!("{key}={value}")).collect()),
    };
    let place = &variant.published_in;
    let is_published = place.is_empty() || cell.contains(place);
    Condition {
        name: variant.name.clone(),
        cell: cell.to_vec(),
        load,
        targets: variant.targets,
        settings: variant.settings.clone(),
        sampling: variant.sampling.unwrap_or(Level::Off),
        rate_share,
        ranks,
        published: variant.published.clone().filter(|_| is_published),
        ..Condition::default()
    }
}

#[cfg(test)]
mod tests;
