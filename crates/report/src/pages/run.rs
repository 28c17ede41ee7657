//! The summary of a run that a person reads in ten seconds: problems, then figures, then what I/Os cost.

mod cost;
pub(super) mod figures;
pub(super) mod ranks;

use super::header::{Origin, incomplete};
use super::watch::machine;
use super::{ceilings, charts, doctor_line, limited_by};
use crate::doc::{Document, Lead, Text, count, text, time};
use fathom_analysis::ceilings::of_run;
use fathom_analysis::derive::{self, JobGroup};
use fathom_analysis::watch::Observed;
use fathom_model::facts::TargetFacts;
use fathom_model::list::{self, distinct};
use fathom_model::outcome::Outcome;
use fathom_model::plan::{BlockSizes, JobPlan, Mix, Order, Paths};
use fathom_model::record::RunRecord;
use fathom_model::watch::Unavailable;
use fathom_model::{Dir, escape, units};

/// Groups of up to this many jobs are also printed job by job.
const JOBS_SHOWN: usize = 8;
/// Up to this many different settings of a group are listed; for more, the range is printed.
const SETTINGS_SHOWN: usize = 3;

/// The summary of `record`; with what samplers `observed` meanwhile, where they ran. Reasons why something was not
/// measured are given only if `verbose`.
pub fn run(record: &RunRecord, observed: Option<&Observed>, verbose: bool) -> Document {
    let mut page = Document::headed(Origin::of("run", &record.header).heading());
    // A finding says what interrupted a run.
    let is_failed = matches!(record.header.outcome, Outcome::Failed { .. });
    if let Some(why) = incomplete(&record.header.outcome).filter(|_| is_failed) {
        page.paragraph(why);
    }
    page.findings(&record.header.findings);
    let groups = derive::sections(record);
    for group in &groups {
        section(&mut page, record, group);
    }
    totals(&mut page, record, &groups);
    ranks::ranks(&mut page, record);
    limited_by(&mut page, &record.header.findings);
    let mut body = Document::default();
    ceilings(&mut body, "part", &of_run(record, observed));
    let about = "what every part could sustain of these I/Os";
    page.lead(Lead::Ceilings, "Ceilings:", about, body);
    figures::headline(&mut page, &groups);
    charts::of_run(&mut page, record, &groups, observed);
    let mut rest = Document::default();
    cost::disks(&mut rest, record);
    doctor_line(&mut rest, &record.header.facts);
    machine(&mut rest, observed, record, &missing(record), verbose);
    let first = record.ranks.first();
    let first = first.map(|rank| format!("{}, rank 0", escape::text(&rank.hostname)));
    page.section_if_any("machine", first.unwrap_or_default(), rest);
    page
}

fn missing(record: &RunRecord) -> Vec<Unavailable> {
    let mut all: Vec<Unavailable> = Vec::new();
    for job in &record.jobs {
        let counters = job.cost_missing.iter().map(|why| Unavailable {
            source: "hardware counters".into(),
            reason: why.clone(),
            remedy: String::new(),
        });
        all.extend(counters.chain(job.cost_lacks.iter().cloned()));
    }
    all.extend(record.header.sampling.iter().flat_map(|watch| watch.missing.iter().cloned()));
    all.extend(record.header.facts.targets.iter().filter_map(TargetFacts::hidden_disk));
    distinct(all)
}

/// The sum of groups that ran at the same time. I/Os of different sizes are not comparable, so their number has no sum.
fn totals(page: &mut Document, record: &RunRecord, groups: &[JobGroup]) {
    let mut waves: Vec<u32> = groups.iter().map(|group| group.plan.wave).collect();
    waves.dedup();
    for wave in waves {
        let members: Vec<&JobGroup> = groups.iter().filter(|g| g.plan.wave == wave).collect();
        let [first, _, ..] = members.as_slice() else { continue };
        let jobs = members.iter().flat_map(|group| group.jobs.clone()).collect();
        let all = derive::group(record, first.plan, jobs).record;
        let iops = derive::per_second(derive::ios(&all), all.runtime_ns);
        let bytes = derive::per_second(derive::bytes(&all), all.runtime_ns);
        let names: Vec<&str> = members.iter().map(|group| group.plan.name.as_str()).collect();
        let rate = figures::bandwidth(bytes, &first.plan.show);
        let mut block_sizes = members.iter().map(|group| sizes(&plans(record, group)));
        let first_size = block_sizes.next();
        let are_alike = block_sizes.all(|size| Some(size) == first_size);
        let on_names = members.iter().filter(|group| figures::is_on_names(group.plan)).count();
        let figures = match (on_names, are_alike) {
            (0, true) => text!(count(iops), " IOPS, ", rate),
            (all, _) if all == members.len() => text!(count(iops), " ops/s"),
            _ => text!(rate),
        };
        let about = text!(figures, " (", names.join(" + "), ")");
        page.section("total", about, Document::default());
    }
}

fn plans<'a>(record: &'a RunRecord, group: &JobGroup) -> Vec<&'a JobPlan> {
    group.jobs.iter().filter_map(|index| record.plan.jobs.get(*index)).collect()
}

fn section(page: &mut Document, record: &RunRecord, group: &JobGroup) {
    let mut body = Document::default();
    let plans = plans(record, group);
    if let Some(description) = &group.plan.description {
        body.paragraph(description.as_str());
    }
    if group.record.runtime_ns > 0 {
        figures::figures(&mut body, group);
        // Those of several ranks have a table of their own.
        if record.ranks.is_empty() && figures::differ(record, group) {
            match group.jobs.len() {
                0..=JOBS_SHOWN => figures::each_job(&mut body, record, group),
                _ => figures::extremes(&mut body, record, group),
            }
        }
        // Samples lack what only a worker's final result holds.
        if !matches!(record.header.outcome, Outcome::Failed { .. }) {
            cost::cost(&mut body, record, group);
        }
    }
    let names = distinct(plans.iter().map(|plan| plan.name.clone()));
    page.named(&names.join(" + "), heading(record, group, &plans), body);
}

/// `random read 4 KiB · io_uring · QD 32 · 3 jobs · direct · /dev/nvme0n1 · 10 s`, or
/// `filecreate · 1 job · a.0.0 and 99 more · 20 ms`
fn heading(record: &RunRecord, group: &JobGroup, plans: &[&JobPlan]) -> Text {
    let each = |of: fn(&JobPlan) -> String| distinct(plans.iter().map(|plan| of(plan))).join(", ");
    let requested = plans.iter().filter_map(|plan| plan.requested_depth).max();
    let depths = match (plans.iter().all(|plan| plan.engine.is_synchronous()), requested) {
        (true, None) => String::new(),
        (true, Some(depth)) => format!("QD\u{a0}1 (iodepth={depth} requested)"),
        _ => format!("QD\u{a0}{}", listed(plans.iter().map(|plan| plan.depth), u32::to_string)),
    };
    let time = match group.record.runtime_ns {
        _ if group.plan.until.ios == Some(0) => "files laid out, no I/O requested".into(),
        0 if matches!(record.header.outcome, Outcome::Failed { .. }) => "no results".into(),
        0 => "did not start".into(),
        ns => Text::from(time(ns as f64)),
    };
    let engines = each(|plan| plan.engine.name().to_string());
    let jobs = crate::doc::plural(group.jobs.len() as u64, "job");
    if plans.iter().all(|plan| plan.engine.paths().is_some()) {
        return super::parts([engines.into(), jobs, targets(record, plans).into(), time]);
    }
    super::parts([
        text!(each(work), " ", sizes(plans)),
        engines.into(),
        depths.into(),
        jobs,
        each(|plan| path_to_device(plan).to_string()).into(),
        targets(record, plans).into(),
        time,
    ])
}

fn path_to_device(plan: &JobPlan) -> &'static str {
    match (plan.engine.is_passthrough(), plan.direct) {
        (true, _) => "passthrough",
        (false, true) => "direct",
        (false, false) => "buffered",
    }
}

/// The different ones of `all`, or from the least to the greatest where there are many.
fn listed<T: Ord>(all: impl IntoIterator<Item = T>, shown: impl Fn(&T) -> String) -> String {
    let all = list::ascending(all);
    match all.as_slice() {
        [least, .., most] if all.len() > SETTINGS_SHOWN => {
            format!("{}–{}", shown(least), shown(most)).replace(' ', "\u{a0}")
        }
        few => few.iter().map(shown).collect::<Vec<_>>().join(", "),
    }
}

fn work(plan: &JobPlan) -> String {
    let order = match plan.access.order {
        Order::Random { .. } => "random",
        Order::Sequential { .. } => "sequential",
    };
    let work = match plan.access.mix {
        Mix::Only(dir) => format!("{order} {dir}"),
        Mix::ReadWrite { read_percent } => format!("{order} read/write {read_percent}%"),
        Mix::TrimThenWrite => format!("{order} trim, then write"),
        Mix::Traced(_) => match &plan.replay {
            Some(replay) => format!("replay of {}", replay.trace),
            None => "replay".to_string(),
        },
    };
    match &plan.verify {
        Some(verify) if verify.only => format!("verification of {work}"),
        _ => work,
    }
}

fn sizes(plans: &[&JobPlan]) -> String {
    let of = |plan: &&JobPlan, dir: Dir| match &plan.access.block_sizes[dir] {
        BlockSizes::Fixed(size) => (*size, *size),
        other => (other.min(), other.max()),
    };
    let shown = |(least, most): &(u64, u64)| match least == most {
        true => units::bytes(*least),
        false => format!("{}–{}", units::bytes(*least), units::bytes(*most)),
    };
    let dirs = |dir: Dir| {
        let plans = plans.iter().filter(|plan| plan.used_dirs().any(|used| used == dir));
        let sizes = distinct(plans.map(|plan| of(plan, dir)));
        match sizes.iter().map(|size| size.0).min().zip(sizes.iter().map(|size| size.1).max()) {
            Some(range) if sizes.len() > SETTINGS_SHOWN => shown(&range),
            _ => listed(sizes, shown),
        }
    };
    let all = distinct(Dir::ALL.into_iter().map(dirs).filter(|text| !text.is_empty()));
    all.join(" / ")
}

/// The first target and how many more there are; empty for engines without.
fn targets(record: &RunRecord, plans: &[&JobPlan]) -> String {
    let names: Vec<&Paths> = plans.iter().filter_map(|plan| plan.engine.paths()).collect();
    if let Some(first) = names.first().and_then(|paths| paths.iter().next()) {
        return match names.iter().map(|paths| paths.count()).sum::<usize>() {
            1 => first,
            count => format!("{first} and {} more", count - 1),
        };
    }
    let regions = plans.iter().flat_map(|plan| &plan.regions);
    let targets = list::ascending(regions.map(|region| region.target));
    let first = targets.first().and_then(|first| record.plan.targets.get(*first));
    match (first, targets.len()) {
        (None, _) => String::new(),
        (Some(first), 1) => first.path.clone(),
        (Some(first), n) => format!("{} and {} more", first.path, n - 1),
    }
}
