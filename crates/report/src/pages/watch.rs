//! Sampled figures: the summary of `fathom watch`, and the machine section of a run.

use super::header::{Origin, device_list};
use super::threads::{figure_cells, figure_columns, other_groups};
use super::{
    IoCost, account, calls, charts, counters, gaps, is_biased, layers, limited_by, not_measured,
    parts, percentile, programs, range, rings, sentence, thread_states,
};
use crate::doc::{
    DataColumn, Document, Heading, Text, count, events, named, number, of, percent, plural, share,
    text, time, whole,
};
use crate::figures;
use fathom_analysis::blocks::AwaitGap;
use fathom_analysis::derive::{self, per_second};
use fathom_analysis::layers::LayerTimes;
use fathom_analysis::machine::{DiskRates, MachineRates};
use fathom_analysis::metrics::{DISK, DiskMetric, FigureGroup, FigureUnit, Interval, METRICS};
use fathom_analysis::threads::{SMALL, ThreadGroup};
use fathom_analysis::watch::Observed;
use fathom_model::RunRecord;
use fathom_model::advice::intervals_merged;
use fathom_model::shell;
use fathom_model::watch::{
    BlocksSample, DeviceBlocks, DiskKind, Level, SamplerCost, SamplingRecord, Unavailable,
};

/// Maximum number of thread groups and of rings printed.
const GROUPS_MAX: usize = 8;
/// Devices with a shorter mean and peak queue and lower utilization are omitted.
const QUEUE_MIN: f64 = 0.005;
/// Percentages below this round to 0 and are omitted.
const SHARE_MIN: f64 = 0.05;
/// Groups of figures that have entries of their own, or that only `top` shows.
const SHOWN: [FigureGroup; 7] = [
    FigureGroup::Cpu,
    FigureGroup::Tasks,
    FigureGroup::Pressure,
    FigureGroup::Memory,
    FigureGroup::Paging,
    FigureGroup::Counters,
    FigureGroup::Cgroup,
];

/// The result of `fathom watch`. Reasons why something was not measured are given only if `verbose`.
pub fn watch(seen: &Observed, record: &RunRecord, verbose: bool) -> Document {
    let none = SamplingRecord::default();
    let watch = record.header.sampling.as_ref().unwrap_or(&none);
    let rates = seen.rates();
    let mut page = Document::headed(heading(record, &rates));
    head(&mut page, seen, record, watch);
    let interval = Interval { before: seen.first(), now: seen.last(), rates: &rates };
    programs::programs(&mut page, &seen.processes, &rates, !watch.pids.is_empty());
    limited_by(&mut page, &record.header.findings);
    let mut machine = Document::default();
    disks(&mut machine, &rates, seen);
    if rates.system.is_some() {
        cpus(&mut machine, &interval, seen);
        memory(&mut machine, &interval);
        programs::cgroup(&mut machine, &interval);
    }
    page.section_if_any("machine", Text::default(), machine);
    charts::disks_over_time(&mut page, &record.header.findings, seen);
    account(&mut page, seen);
    layer_table(&mut page, seen, None, "");
    system_calls(&mut page, seen);
    threads(&mut page, seen);
    let mut rest = Document::default();
    details(&mut rest, &interval, seen);
    overhead(&mut rest, seen, watch);
    not_measured(&mut rest, &watch.missing, verbose);
    page.section_if_any("details", Text::default(), rest);
    page
}

/// With the devices that did I/O.
fn heading(record: &RunRecord, rates: &MachineRates) -> Option<Heading> {
    let is_active = |name: &str| {
        let disk = rates.disks.iter().find(|disk| disk.name == name);
        disk.is_some_and(|disk| disk.read.ios + disk.write.ios + disk.discard.ios > 0.0)
    };
    let all = record.header.sampling.iter().flat_map(|watch| &watch.devices);
    let devices = device_list(all.filter(|device| is_active(&device.name)));
    Origin::of("watch", &record.header).heading().map(|heading| Heading { devices, ..heading })
}

/// The machine during a run of fathom, and what was not measured.
pub(super) fn machine(
    page: &mut Document,
    observed: Option<&Observed>,
    record: &RunRecord,
    missing: &[Unavailable],
    verbose: bool,
) {
    let observed = observed.filter(|observed| observed.samples > 1);
    let Some((seen, watch)) = observed.zip(record.header.sampling.as_ref()) else {
        return not_measured(page, missing, verbose);
    };
    let rates = seen.rates();
    let interval = Interval { before: seen.first(), now: seen.last(), rates: &rates };
    cpus(page, &interval, seen);
    let is_full = watch.level == Level::Full;
    if is_full {
        details(page, &interval, seen);
    }
    overhead(page, seen, watch);
    not_measured(page, missing, verbose);
    // The whole machine's samples are not those of the run's I/Os.
    let is_own = !charts::is_of_machine(record);
    let about = if is_own { "" } else { "the whole machine" };
    layer_table(page, seen, is_own.then(|| io_cost(record)).flatten(), about);
    if is_full {
        account(page, seen);
        system_calls(page, seen);
        threads(page, seen);
    }
}

fn details(page: &mut Document, interval: &Interval<'_>, seen: &Observed) {
    let rates = interval.rates;
    for (place, text) in rates.counters.iter().flat_map(counters::lines).enumerate() {
        page.entry(if place == 0 { "counters" } else { "" }, text);
    }
    seen.last().blocks.iter().for_each(|blocks| block_layer(page, blocks, rates));
    if let Some(mut all) = interval.rings() {
        all.rings.truncate(GROUPS_MAX);
        rings(page, &all);
    }
    let mut shown = SHOWN.to_vec();
    for group in METRICS.iter().map(|metric| metric.group) {
        if !shown.contains(&group) {
            shown.push(group);
            page.entry(group.title(), parts(figures::group(interval, group, |_| true)));
        }
    }
}

fn system_calls(page: &mut Document, seen: &Observed) {
    seen.last().calls.iter().for_each(|sample| calls(page, sample, seen.elapsed_ns));
}

/// CPU time per I/O over all jobs, which the layers divide, and their IOPS, by which the samples are divided.
fn io_cost(record: &RunRecord) -> Option<(f64, Option<f64>)> {
    let all = derive::merge_jobs(&record.jobs.iter().collect::<Vec<_>>());
    Some((derive::cpu_per_io_ns(&all)?, derive::iops_at_once(record)))
}

fn head(page: &mut Document, seen: &Observed, record: &RunRecord, watch: &SamplingRecord) {
    let interval = (watch.interval_ns > 0).then_some(watch.interval_ns as f64);
    let samples = match seen.samples {
        0 => Some("no samples".into()),
        _ => interval.map(|ns| text!("sampled every ", time(ns))),
    };
    match &watch.command {
        Some(command) => {
            let ended = match command.status {
                Some(status @ 129..) => format!("ended by signal\u{a0}{}", status - 128),
                Some(status) => format!("exit\u{a0}status\u{a0}{status}"),
                None => "did not end".to_string(),
            };
            let words: Vec<_> = command.argv.iter().map(|word| shell::quoted(word)).collect();
            let took = time(command.elapsed_ns as f64).into();
            page.entry("command", parts([words.join(" ").into(), took, ended.into()]));
        }
        None => {
            // The record of a killed run is older than its last samples.
            let took = time(record.header.elapsed_ns.max(seen.elapsed_ns) as f64);
            let pids: Vec<String> = watch.pids.iter().map(i32::to_string).collect();
            let whom = match pids.len() {
                0 => "whole machine".to_string(),
                1 => format!("process {} and its descendants", pids.join(", ")),
                _ => format!("processes {} and their descendants", pids.join(", ")),
            };
            page.entry("watched", parts([text!(whom, " for ", took), samples.into()]));
        }
    }
}

/// The shares of a group that do not round to 0, with their names.
fn shares(interval: &Interval<'_>, group: FigureGroup) -> Text {
    Text::join(figures::group(interval, group, |share| share >= SHARE_MIN), ", ")
}

fn cpus(page: &mut Document, interval: &Interval<'_>, seen: &Observed) {
    let Some(system) = &interval.rates.system else { return };
    let busy = percent(system.cpu.busy());
    let busy = text!(busy, " busy (", named("max", percent(seen.busy_max)), ")");
    let number = plural(system.cpus.len() as u64, "CPU");
    page.entry("CPU", parts([number, busy, shares(interval, FigureGroup::Cpu)]));
    let busiest = system.cpus.iter().max_by(|a, b| a.shares.busy().total_cmp(&b.shares.busy()));
    if let Some(busiest) = busiest.filter(|_| system.cpus.len() > 1) {
        let share = percent(busiest.shares.busy());
        let busiest = text!(named("busiest: CPU", whole(busiest.cpu)), " with ", share);
        let rates = ["context_switches_per_s", "interrupts_per_s"];
        let rates = rates.map(|id| figures::machine(interval, id));
        page.entry("", parts([busiest].into_iter().chain(rates)));
    }
}

fn memory(page: &mut Document, interval: &Interval<'_>) {
    let number = |id| figures::number(interval, id);
    if let Some((available, total)) =
        number("memory_available_bytes").zip(number("memory_total_bytes"))
    {
        let available = text!(of(available, "of "), total, " available");
        let others = ["memory_cache_bytes", "dirty_bytes"];
        let others = others.map(|id| figures::machine(interval, id));
        page.entry("memory", parts([available].into_iter().chain(others)));
    }
    let some = shares(interval, FigureGroup::Pressure);
    if !some.is_empty() {
        page.entry("pressure", text!("PSI some: ", some));
    }
}

fn disks(page: &mut Document, rates: &MachineRates, seen: &Observed) {
    let peak = |disk: &DiskRates| seen.queue_max.get(&disk.name).copied().unwrap_or_default();
    let mut active: Vec<&DiskRates> = rates
        .disks
        .iter()
        // A partition's I/Os are counted on its disk as well.
        .filter(|disk| disk.kind != DiskKind::Partition)
        .filter(|disk| disk.queue.max(peak(disk)) >= QUEUE_MIN || disk.util >= SHARE_MIN)
        .collect();
    active.sort_by(|a, b| b.queue.total_cmp(&a.queue));
    for disk in active {
        page.entry(&disk.name, device_figures(disk, seen.elapsed_ns, Some(peak(disk))));
    }
}

/// The figures of a disk that pages show, with its highest mean queue if known.
pub(super) fn device_figures(disk: &DiskRates, elapsed_ns: u64, peak: Option<f64>) -> Text {
    let directions =
        [FigureGroup::Read, FigureGroup::Write, FigureGroup::Discard, FigureGroup::Flush];
    let directions = directions.map(|group| direction(disk, group, elapsed_ns));
    let device = main_figures(disk, FigureGroup::Device).map(|(metric, value)| {
        let text = figures::phrase(metric, figures::quantity(metric, value));
        match peak.filter(|_| metric.id == "queue") {
            // Short last intervals have no peak, so that the mean of a short run may exceed the others'.
            Some(peak) => text!(text, " (", named("max", number(peak.max(value))), ")"),
            None => text,
        }
    });
    parts(directions.into_iter().chain(device))
}

fn main_figures(
    disk: &DiskRates,
    group: FigureGroup,
) -> impl Iterator<Item = (&'static DiskMetric, f64)> {
    let all = DISK.iter().filter(move |metric| metric.group == group && metric.is_main());
    all.filter_map(move |metric| Some((metric, (metric.value)(disk)?)))
}

/// I/Os in one direction, the first figure of which is their rate; empty without any.
fn direction(disk: &DiskRates, group: FigureGroup, elapsed_ns: u64) -> Text {
    let mut ios = 0.0;
    let figure = |(place, (metric, value)): (usize, (&DiskMetric, f64))| {
        let mut quantity = figures::quantity(metric, value);
        if place == 0 {
            ios = value * elapsed_ns as f64 / 1e9;
        } else if metric.unit == FigureUnit::Milliseconds {
            quantity = figures::wait(value, ios);
        }
        let phrase = figures::phrase(metric, quantity);
        if place == 0 { named(group.title(), phrase) } else { phrase }
    };
    let all = Text::join(main_figures(disk, group).enumerate().map(figure), ", ");
    if ios > 0.0 { all } else { Text::default() }
}

fn threads(page: &mut Document, seen: &Observed) {
    let groups = seen.threads.shown();
    if groups.is_empty() {
        return;
    }
    let names = seen.threads.columns().iter().map(|column| DataColumn::text(column.name()));
    let mut columns = figure_columns(|metric| metric.is_main());
    let figures = columns.len();
    columns.extend(names);
    let large = groups.iter().take_while(|group| group.share >= SMALL).count();
    let (first, rest) = groups.split_at(large.min(GROUPS_MAX));
    let row = |group: &ThreadGroup| -> Vec<Text> {
        let values = group.values.iter().map(|value| Text::from(value.as_str()));
        figure_cells(group, |metric| metric.is_main()).into_iter().chain(values).collect()
    };
    let mut rows: Vec<Vec<Text>> = first.iter().map(row).collect();
    rows.extend(other_groups(rest, figures));
    let mut body = Document::default();
    body.table(columns, rows);
    thread_states(&mut body, &seen.threads);
    let title = named("mean active threads", number(seen.threads.active()));
    page.section("threads", title, body);
}

/// CPU time by kernel layer; of an I/O where its CPU time in nanoseconds is given, with the IOPS where those are known.
fn layer_table(page: &mut Document, seen: &Observed, io: Option<(f64, Option<f64>)>, about: &str) {
    let Some(samples) = seen.stacks() else { return };
    let times = LayerTimes::of([&samples], &seen.known_stacks, |_| true);
    let elapsed_ns = seen.elapsed_ns;
    let per_io = io.map(|(cpu_ns, iops)| {
        let sampled_ns = iops.and_then(|iops| times.per_io_ns(elapsed_ns, iops));
        IoCost { cpu_ns, sampled_ns }
    });
    let mut body = layers(&times, per_io);
    if body.blocks.is_empty() {
        return;
    }
    if samples.lost > 0 {
        body.paragraph(text!(of(events(samples.lost), "samples lost"), ": a buffer was full."));
    }
    page.section("CPU time by layer", about, body);
}

fn block_layer(page: &mut Document, blocks: &BlocksSample, rates: &MachineRates) {
    let unplugs: u64 = blocks.unplugs.iter().map(|(_, unplugs)| unplugs).sum();
    if unplugs > 0 {
        let sizes = sizes(&blocks.unplugs);
        let counted_ns = blocks.unplugs_seen_ns.unwrap_or(rates.elapsed_ns);
        let flushes = count(per_second(unplugs, counted_ns));
        page.entry("plug flushes", text!(flushes, "/s; requests per plug flush: ", sizes));
    }
    for device in &blocks.devices {
        let counts = [
            ("queued", device.queued),
            ("merged", device.merged),
            ("split", device.split),
            ("issued", device.issued),
            ("requeued", device.requeued),
            ("completed", device.completed),
            ("errors", device.errors),
        ];
        let counts = counts.iter().filter(|(_, count)| *count > 0);
        let counts = Text::join(counts.map(|(name, n)| named(name, events(*n))), ", ");
        if !counts.is_empty() || !device.queue.is_empty() || !device.driver.is_empty() {
            let gaps = gaps(device, &rates.disks, rates.elapsed_ns);
            let times = latencies(device, &gaps);
            page.entry("blocks", text!(device.name.as_str(), ": ", parts([counts, times])));
            gaps.iter().for_each(|gap| page.entry("", sentence(gap)));
        }
    }
}

/// Latencies of sampled requests, without those of operations whose samples are known not to represent all.
fn latencies(device: &DeviceBlocks, gaps: &[AwaitGap]) -> Text {
    let times = |name: &str, times: &fathom_model::Histogram| {
        let p50 = named("p50", time(percentile(times, 50.0)?));
        let p99 = percentile(times, 99.0).map(|ns| named(" p99", time(ns)));
        Some(text!(name, " ", p50, Text::from(p99), " (", plural(times.count(), "sample"), ")"))
    };
    let mut all = vec![times("queue to issue", &device.queue)];
    match (device.ends_unseen(), device.ops.as_slice()) {
        (Some(unseen), _) => all.push(Some(text!(
            "issue-to-completion latency not reported: no completion event for ",
            of(events(unseen), "of "),
            of(events(device.queue.count()), "requests")
        ))),
        (None, []) => all.push(times("issue to completion", &device.driver)),
        (None, ops) => {
            let ops = ops.iter().filter(|of| !is_biased(gaps, of.op));
            let driver = ops.filter_map(|of| times(of.op.name(), &of.driver));
            let driver = Text::join(driver, ", ");
            all.push((!driver.is_empty()).then(|| text!("issue to completion: ", driver)));
        }
    }
    Text::join(all.into_iter().flatten(), " · ")
}

/// Shares by size, as `1 (40.0%), 3–4 (60.0%)`.
fn sizes(counts: &[(u32, u64)]) -> Text {
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let part = |(index, (_, count)): (usize, &(u32, u64))| {
        let is_shown = *count as f64 * 100.0 / all.max(1) as f64 >= 0.5;
        is_shown.then(|| text!(range(counts, index), " (", share(*count, all), ")"))
    };
    Text::join(counts.iter().enumerate().filter_map(part), ", ")
}

fn overhead(page: &mut Document, seen: &Observed, watch: &SamplingRecord) {
    let share = |ns: u64| percent(ns as f64 * 100.0 / seen.elapsed_ns.max(1) as f64);
    let all: u64 = watch.cost.iter().map(|cost| cost.cpu_ns).sum();
    let missed: u64 = watch.cost.iter().map(|cost| cost.missed).sum();
    let mut costs: Vec<&SamplerCost> = watch.cost.iter().collect();
    costs.sort_by_key(|cost| std::cmp::Reverse(cost.cpu_ns));
    if !costs.is_empty() {
        let is_shown = |cost: &&&SamplerCost| cost.cpu_ns * 20_000 > seen.elapsed_ns;
        let each = costs.iter().filter(is_shown);
        let each = each.map(|cost| named(&cost.sampler, share(cost.cpu_ns)));
        let each = text!(share(all), " of one CPU: ", Text::join(each, ", "));
        let late = (missed > 0).then(|| plural(missed, "late sample"));
        page.entry("sampling overhead", parts([each, late.into()]));
    }
    if watch.intervals_merged > 0 {
        page.entry("late", intervals_merged(watch.intervals_merged));
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
