//! Charts that only HTML draws: I/Os over time, how latencies are distributed, latency against throughput, CPU time.

pub(super) mod conditions;

use super::run::figures;
use super::{percentile, range};
use crate::doc::{
    Axis, AxisEvent, Block, Chart, ChartKind, ChartPoint, ChartSeries, Document, Lead, Quantity,
    QuantityUnit, Text, bandwidth, count, text, time,
};
use crate::stacks::{Sampled, flame_part};
use crate::topo_svg::lists;
use fathom_analysis::account::KINDS;
use fathom_analysis::derive::{self, JobGroup};
use fathom_analysis::events::{self, Event};
use fathom_analysis::layers::{LayerTime, LayerTimes};
use fathom_analysis::stats::share_interval;
use fathom_analysis::timeline::{IoSum, TimeSpan};
use fathom_analysis::topology;
use fathom_analysis::watch::Observed;
use fathom_model::limit::{BlockLimit, LARGE_BYTES, TargetLimit, TargetResult, is_large};
use fathom_model::plan::Show;
use fathom_model::record::{RankRecord, RankSpan, RunRecord};
use fathom_model::topology::Topology;
use fathom_model::window::Point;
use fathom_model::{Dir, Finding, Histogram};
use std::collections::{BTreeMap, BTreeSet};

/// Fewer points make no course over time.
const SPANS_MIN: usize = 3;
/// Series of disks, and groups of jobs with a distribution of their own, at most: those with most bytes, the first ones.
const DISK_SERIES_MAX: usize = 6;
const GROUPS_MAX: usize = 12;
/// Of what threads do, what is not idle; and means below which no line is drawn.
const KINDS_SHOWN: usize = 7;
const THREADS_MIN: f64 = 0.02;
/// Smaller shares of batches have no bar, in percent.
const BATCH_MIN: f64 = 0.5;
/// Classes of latencies in each power of two.
const CLASSES: f64 = 8.0;
/// A layer with a smaller share of CPU time has no bar.
const LAYER_MIN: f64 = 0.005;
/// Above these, time is in minutes or hours, in seconds.
const MINUTES_FROM: f64 = 300.0;
const HOURS_FROM: f64 = 3.0 * 3600.0;

/// A run's throughput and latencies over time, and their distribution.
pub(super) fn of_run(
    page: &mut Document,
    record: &RunRecord,
    groups: &[JobGroup],
    seen: Option<&Observed>,
) {
    let mut all = Document::default();
    // Of several ranks, the samples have the jobs of the first alone.
    let of_all = seen.filter(|_| record.ranks.is_empty());
    of_all.iter().for_each(|seen| jobs_over_time(&mut all, record, seen));
    ranks_over_time(&mut all, record);
    let mut body = Document::default();
    for group in groups.iter().take(GROUPS_MAX) {
        let name = if groups.len() > 1 { format!(": {}", group.plan.name) } else { String::new() };
        for dir in derive::shown_dirs(group.plan, &group.record) {
            let done = &group.record.dirs[dir];
            let latency = if done.lat.is_empty() { &done.clat } else { &done.lat };
            body.chart(distribution(format!("{dir} latency{name}"), latency));
        }
    }
    let about = "the share of I/Os in each class; classes are an eighth of a power of two wide";
    all.section_if_any("latency distribution", about, body);
    if let Some((topology, seen)) = record.header.facts.topology.as_ref().zip(seen) {
        traffic(&mut all, topology, seen);
    }
    seen.iter().for_each(|seen| samples(&mut all, seen, is_of_machine(record)));
    page.html_only(all);
}

/// The way to the disks of a run, with what each link carried.
fn traffic(page: &mut Document, topology: &Topology, seen: &Observed) {
    let mut report = topology::analyze(topology.clone());
    let disks = seen.rates().disks.into_iter();
    let moved = disks.map(|disk| (disk.name, disk.read.bytes + disk.write.bytes));
    report.traffic = moved.filter(|(_, rate)| *rate > 0.0).collect();
    if report.topology.roots.iter().any(|root| report.carried(root).is_some()) {
        let body = Document { blocks: vec![Block::Svg(lists(&report))], ..Document::default() };
        page.section(
            "topology",
            "what each link carried for all programs; wider lines carried more",
            body,
        );
    }
}

/// How many requests and completions come together, and the functions that ran.
fn samples(page: &mut Document, seen: &Observed, of_machine: bool) {
    let mut body = Document::default();
    let last = seen.last();
    let sizes = last.blocks.iter().map(|blocks| ("requests per plug flush", &blocks.unplugs));
    let runs = last.rings.iter().flat_map(|rings| &rings.events);
    let runs = runs.map(|events| ("completions per run of task work", &events.task_work));
    for (title, counts) in sizes.chain(runs) {
        let all: u64 = counts.iter().map(|(_, n)| n).sum();
        let bar = |(index, (_, n)): (usize, &(u32, u64))| {
            let y = *n as f64 * 100.0 / all.max(1) as f64;
            (y >= BATCH_MIN).then(|| ChartPoint {
                label: range(counts, index),
                y,
                ..ChartPoint::default()
            })
        };
        let points = counts.iter().enumerate().filter_map(bar).collect();
        body.chart(Chart::bars(title, Axis::linear("share", QuantityUnit::Percent), points));
    }
    page.section_if_any("batches", "how many of them come at once", body);
    let intervals = seen.stacks().map(|stacks| (seen.elapsed_ns, stacks));
    let intervals = intervals.into_iter().collect();
    let sampled = Sampled { intervals, stacks: seen.known_stacks.clone() };
    flame(page, &sampled, if of_machine { "whole machine: " } else { "" });
}

/// Whether samples are not of the run's threads alone (`--sampling=full`).
pub(super) fn is_of_machine(record: &RunRecord) -> bool {
    record.header.sampling.as_ref().is_some_and(|sampling| sampling.pids.is_empty())
}

/// The flame graph of CPU samples, which are `of` what.
pub(super) fn flame(page: &mut Document, sampled: &Sampled, of: &str) {
    if let Some(svg) = flame_part(sampled) {
        let body = Document { blocks: vec![Block::Svg(svg)], ..Document::default() };
        let about =
            "CPU samples by call chain, the innermost function on top; kernel functions are blue";
        page.section("flame graph", format!("{of}{about}"), body);
    }
}

/// The threads that worked, or waited for what is not idle, over time.
fn threads_over_time(
    page: &mut Document,
    seen: &Observed,
    of: &str,
    (events, from_ns): (&[Event], u64),
) {
    let mut spans = seen.threads_over_time.spans();
    for span in &mut spans {
        (span.from_ns, span.to_ns) = (span.from_ns + from_ns, span.to_ns + from_ns);
    }
    let times = TimeAxis::of(&spans, events);
    let series = KINDS[..KINDS_SHOWN].iter().map(|(name, _)| {
        let point = |span: &TimeSpan<BTreeMap<String, f64>>| {
            let y = span.sum.get(*name).copied().unwrap_or(0.0) / span.observed_ns as f64;
            times.point(span.from_ns, span.to_ns, y)
        };
        let points = spans.iter().map(point).collect();
        ChartSeries::new(*name, points)
    });
    let is_shown = |one: &ChartSeries| one.points.iter().any(|point| point.y >= THREADS_MIN);
    let series: Vec<ChartSeries> = series.filter(is_shown).collect();
    if spans.len() >= SPANS_MIN {
        let axes = (times.axis(), Axis::linear("threads", QuantityUnit::Number));
        page.chart(Chart::lines(format!("threads{of} by state over time"), axes, series));
    }
}

/// What moved over time: the I/Os of each span, with its middle and its length in seconds.
struct IoSeries<'a> {
    name: String,
    spans: Vec<(f64, f64, &'a IoSum)>,
}

impl<'a> IoSeries<'a> {
    fn of<T>(
        name: String,
        spans: &'a [TimeSpan<T>],
        sum: impl Fn(&'a T) -> Option<&'a IoSum>,
    ) -> Self {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let one = |span: &'a TimeSpan<T>| {
            let middle = f64::midpoint(seconds(span.from_ns), seconds(span.to_ns));
            Some((middle, seconds(span.observed_ns), sum(&span.sum)?))
        };
        Self { name, spans: spans.iter().filter_map(one).collect() }
    }

    fn bytes(&self) -> f64 {
        self.spans.iter().map(|(_, _, sum)| sum.bytes).sum()
    }

    fn ios(&self) -> f64 {
        self.spans.iter().map(|(_, _, sum)| sum.ios).sum()
    }

    fn series(
        &self,
        of: &str,
        unit_seconds: f64,
        value: impl Fn(f64, &IoSum) -> Option<f64>,
    ) -> ChartSeries {
        let point = |(at, seconds, sum): &(f64, f64, &IoSum)| {
            let y = value(*seconds, sum)?;
            Some(ChartPoint { x: at / unit_seconds, y, ..ChartPoint::default() })
        };
        let name = [self.name.as_str(), of].join(" ").trim().to_string();
        let points = self.spans.iter().filter_map(point).collect();
        ChartSeries::new(name, points)
    }
}

fn jobs_over_time(page: &mut Document, record: &RunRecord, seen: &Observed) {
    let spans = seen.jobs_over_time.spans();
    let has_ios = |dir: &Dir| spans.iter().any(|span| span.sum[*dir].ios > 0.0);
    let dirs: Vec<Dir> = Dir::ALL.into_iter().filter(has_ios).collect();
    // The only direction needs no name.
    let name = |dir: Dir| if dirs.len() > 1 { dir.name().to_string() } else { String::new() };
    let all: Vec<IoSeries> =
        dirs.iter().map(|dir| IoSeries::of(name(*dir), &spans, |sum| Some(&sum[*dir]))).collect();
    let none = Show::default();
    let first = record.plan.jobs.first();
    let show = first.map_or(&none, |plan| &plan.show);
    let ios = first.map_or("IOPS", figures::rate_unit);
    let events = events::of_run(record, seen);
    let times = TimeAxis::of(&spans, &events);
    let mut body = Document::default();
    body.chart(throughput(&all, &times, ios, |bytes| figures::bandwidth(bytes, show)));
    let mut latencies = Vec::new();
    for (color, one) in all.iter().enumerate() {
        for (name, percent) in [("p50", 50.0), ("p99", 99.0)] {
            let of = |_, sum: &IoSum| percentile(&sum.clat(), percent);
            let series = one.series(name, times.unit_seconds, of);
            // A direction has the same color as in the chart above.
            latencies.push(ChartSeries { color: Some(color), is_dashed: percent < 99.0, ..series });
        }
    }
    latencies.retain(|series| series.points.len() >= SPANS_MIN);
    let axes = (times.axis(), Axis::log("completion latency", QuantityUnit::Nanoseconds));
    body.chart(Chart::lines("completion latency over time", axes, latencies));
    let of = if is_of_machine(record) { " of the whole machine" } else { "" };
    threads_over_time(&mut body, seen, of, (&events, seen.began_ns()));
    over_time(page, &spans, body);
}

/// What several machines did together over time, and each of them on the same axes.
fn ranks_over_time(page: &mut Document, record: &RunRecord) {
    let all = &record.ranks_over_time;
    let Some(last) = all.last().filter(|_| all.len() >= SPANS_MIN) else { return };
    let times = TimeAxis::within(last.to_ns, &[]);
    let is_large = all.iter().any(|s| s.bytes_per_second >= LARGE_BYTES * s.iops.max(1.0));
    let (name, unit) = match is_large {
        true => ("bandwidth", bandwidth(0.0).unit),
        false => ("IOPS", QuantityUnit::Count),
    };
    let rate = |span: &RankSpan| Some(if is_large { span.bytes_per_second } else { span.iops });
    let p99 = |span: &RankSpan| span.clat_p99_ns.map(|ns| ns as f64);
    type Value<'a> = &'a dyn Fn(&RankSpan) -> Option<f64>;
    let chart = |title: String, y: &Axis, spans: &[RankSpan], value: Value<'_>| {
        let point = |span: &RankSpan| Some(times.point(span.from_ns, span.to_ns, value(span)?));
        let points = spans.iter().filter_map(point).collect();
        let series = vec![ChartSeries::new("", points)];
        let x = Axis::linear(times.name, QuantityUnit::Count);
        Chart::lines(title, (x, y.clone()), series)
    };
    let (rates, latencies) =
        (Axis::linear(name, unit), Axis::log("p99 completion latency", QuantityUnit::Nanoseconds));
    let mut body = Document::default();
    body.chart(chart(format!("{name} of all ranks over time"), &rates, all, &rate));
    page.section("over time", "", body);
    let hosts: BTreeSet<&str> = record.ranks.iter().map(|rank| rank.hostname.as_str()).collect();
    let title = |number: usize, rank: &RankRecord| match hosts.len() == record.ranks.len() {
        true => rank.hostname.clone(),
        false => format!("{}, rank {number}", rank.hostname),
    };
    let figures: [(&Axis, Value<'_>); 2] = [(&rates, &rate), (&latencies, &p99)];
    for (y, value) in figures {
        let of_rank = |(number, rank): (usize, &RankRecord)| {
            chart(title(number, rank), y, &rank.over_time, value)
        };
        let mut each: Vec<Chart> = record.ranks.iter().enumerate().map(of_rank).collect();
        each.retain(|chart| chart.points().count() >= SPANS_MIN);
        if each.is_empty() {
            continue;
        }
        let scale = if y.log { ", the vertical one logarithmic" } else { "" };
        let about = format!("all charts have the same axes{scale}; time in {}", times.name);
        let body = Document { blocks: vec![Block::Multiples(each)], ..Document::default() };
        page.section(&format!("{} by host", y.name), about, body);
    }
}

/// Throughput and latency of the disks with most traffic over time.
pub(super) fn disks_over_time(page: &mut Document, findings: &[Finding], seen: &Observed) {
    let spans = seen.disks_over_time.spans();
    let names: BTreeSet<&String> = spans.iter().flat_map(|span| span.sum.keys()).collect();
    let none = IoSum::default();
    let mut all: Vec<IoSeries> = Vec::new();
    for name in names {
        for dir in Dir::ALL {
            // As the kernel calls it.
            let done = if dir == Dir::Trim { "discard" } else { dir.name() };
            all.push(IoSeries::of(format!("{name} {done}"), &spans, |disks| {
                Some(disks.get(name).map_or(&none, |dirs| &dirs[dir]))
            }));
        }
    }
    let most = all.iter().map(IoSeries::bytes).fold(0.0, f64::max);
    all.retain(|one| one.ios() > 0.0 && one.bytes() >= most / 100.0);
    all.sort_by(|a, b| b.bytes().total_cmp(&a.bytes()));
    all.truncate(DISK_SERIES_MAX);
    let events = events::of_watch(findings, seen);
    let times = TimeAxis::of(&spans, &events);
    let mut body = Document::default();
    body.chart(throughput(&all, &times, "IOPS", bandwidth));
    let mean = |_, sum: &IoSum| sum.latency_ns.filter(|_| sum.ios > 0.0).map(|ns| ns / sum.ios);
    let series = all.iter().map(|one| one.series("", times.unit_seconds, mean));
    let mut series: Vec<ChartSeries> = series.collect();
    series.retain(|series| series.points.len() >= SPANS_MIN);
    let axes = (times.axis(), Axis::log("mean latency", QuantityUnit::Nanoseconds));
    body.chart(Chart::lines("mean latency (await) over time", axes, series));
    threads_over_time(&mut body, seen, "", (&events, 0));
    let mut all = Document::default();
    over_time(&mut all, &spans, body);
    samples(&mut all, seen, false);
    page.html_only(all);
}

fn over_time<T>(page: &mut Document, spans: &[TimeSpan<T>], body: Document) {
    if spans.len() < SPANS_MIN || body.blocks.is_empty() {
        return;
    }
    // The first and the last span may be shorter.
    let each = time(spans[spans.len() / 2].observed_ns as f64);
    page.section("over time", text!("each point covers about ", each), body);
}

/// I/Os per second, or bytes where some I/Os are large.
fn throughput(
    all: &[IoSeries],
    times: &TimeAxis<'_>,
    ios: &str,
    bandwidth: impl Fn(f64) -> Quantity,
) -> Chart {
    let is_large = all.iter().any(|one| one.bytes() >= LARGE_BYTES * one.ios().max(1.0));
    let rate = |seconds: f64, sum: &IoSum| match is_large {
        true => bandwidth(sum.bytes / seconds),
        false => count(sum.ios / seconds),
    };
    let name = if is_large { "bandwidth" } else { ios };
    let value = |seconds, sum: &IoSum| Some(rate(seconds, sum).value);
    let series = all.iter().map(|one| one.series("", times.unit_seconds, value)).collect();
    let axes = (times.axis(), Axis::linear(name, rate(1.0, &IoSum::default()).unit));
    Chart::lines(format!("{name} over time"), axes, series)
}

/// The time since the start, in a unit in which ticks are round.
struct TimeAxis<'a> {
    unit_seconds: f64,
    name: &'static str,
    events: &'a [Event],
}

impl<'a> TimeAxis<'a> {
    fn of<T>(spans: &[TimeSpan<T>], events: &'a [Event]) -> Self {
        Self::within(spans.last().map_or(0, |last| last.to_ns), events)
    }

    fn within(end_ns: u64, events: &'a [Event]) -> Self {
        let (unit_seconds, name) = match end_ns as f64 / 1e9 {
            s if s > HOURS_FROM => (3600.0, "hours since the start"),
            s if s > MINUTES_FROM => (60.0, "minutes since the start"),
            _ => (1.0, "seconds since the start"),
        };
        Self { unit_seconds, name, events }
    }

    /// In the middle of a span.
    fn point(&self, from_ns: u64, to_ns: u64, y: f64) -> ChartPoint {
        let x = f64::midpoint(from_ns as f64, to_ns as f64) / 1e9 / self.unit_seconds;
        ChartPoint { x, y, ..ChartPoint::default() }
    }

    fn axis(&self) -> Axis {
        let event = |event: &Event| AxisEvent {
            at: event.at_ns as f64 / 1e9 / self.unit_seconds,
            name: event.what.clone(),
        };
        let events = Some(self.events.iter().map(event).collect());
        Axis { events, ..Axis::linear(self.name, QuantityUnit::Count) }
    }
}

fn distribution(title: String, all: &Histogram) -> Chart {
    let class = |ns: u64| ((ns.max(1) as f64).log2() * CLASSES).floor() as i32;
    let low = |class: i32| (f64::from(class) / CLASSES).exp2();
    let mut shares = BTreeMap::<i32, u64>::new();
    all.buckets().for_each(|(ns, n)| *shares.entry(class(ns)).or_default() += n);
    let ends = shares.keys().next().copied().zip(shares.keys().next_back().copied());
    // Behind the last class there is nothing.
    let classes = ends.map_or(0..0, |(first, last)| first..last + 2);
    let points = classes.map(|class| {
        let n = shares.get(&class).copied().unwrap_or(0);
        let y = n as f64 * 100.0 / all.count().max(1) as f64;
        ChartPoint { x: low(class), y, ..ChartPoint::default() }
    });
    let marks = [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9)];
    let marks = marks.into_iter().filter_map(|(name, percent)| {
        let x = percentile(all, percent)?;
        Some(ChartPoint { x, mark: Some(name.into()), ..ChartPoint::default() })
    });
    let points = points.chain(marks).collect();
    Chart {
        title,
        kind: ChartKind::Histogram,
        x: Axis::log("latency", QuantityUnit::Nanoseconds),
        y: Axis::linear("share of I/Os", QuantityUnit::Percent),
        series: vec![ChartSeries::new("", points)],
    }
}

/// CPU time by layer, or that of an I/O where it is known.
pub(super) fn layers(page: &mut Document, times: &LayerTimes, per_io_ns: Option<f64>) {
    let all = times.time().max(1) as f64;
    let (title, name, unit, whole) = match per_io_ns {
        Some(ns) => ("CPU time per I/O by layer", "CPU per I/O", QuantityUnit::Nanoseconds, ns),
        None => ("CPU time by layer", "CPU time", QuantityUnit::Percent, 100.0),
    };
    let bar = |row: &LayerTime| {
        let share = row.time as f64 / all;
        let (low, high) = share_interval(share, times.samples);
        let point = ChartPoint {
            label: row.layer.name().into(),
            y: share * whole,
            interval: Some((low * whole, high * whole)),
            ..ChartPoint::default()
        };
        (share >= LAYER_MIN).then_some(point)
    };
    let mut part = Document::default();
    let points = times.layers.iter().filter_map(bar).collect();
    part.chart(Chart::bars(title, Axis::linear(name, unit), points));
    page.html_only(part);
}

/// The figures that HTML begins with: of the peak and the knee of each kind of I/O.
pub(super) fn peaks(page: &mut Document, targets: &[TargetLimit]) {
    let mut all = Document::default();
    for block in targets.iter().flat_map(|target| &target.blocks) {
        let mut body = Document::default();
        let peak = block.peak.as_ref();
        // Often the peak itself.
        let knee = block.knee.as_ref().map(|knee| &knee.point);
        let knee = knee.filter(|knee| peak.is_none_or(|peak| peak.setting() != knee.setting()));
        for (name, point) in [("peak", peak), ("knee", knee)] {
            let Some(point) = point else { continue };
            body.entry(&format!("{name} IOPS"), count(point.iops.mean));
            body.entry(&format!("{name} bandwidth"), bandwidth(point.bytes_per_second));
            body.entry(&format!("p99 at {}", point.setting()), time(point.clat_p99_ns as f64));
        }
        all.section_if_any(&block.name(), Text::default(), body);
    }
    let mut part = Document::default();
    part.lead(Lead::Figures, "Figures", Text::default(), all);
    page.html_only(part);
}

/// Latency against throughput, a point for each setting.
pub(super) fn latency(page: &mut Document, block: &BlockLimit) {
    let is_large = is_large(block.block_bytes as f64);
    let per_io = if is_large { block.block_bytes as f64 } else { 1.0 };
    let mut points: Vec<&Point> = block.points.iter().collect();
    points.sort_by_key(|point| (point.setting().in_flight(), point.workers));
    let of = |point: &Point, ns: u64| {
        let iops = &point.iops;
        let ends = iops.low.zip(iops.high);
        ChartPoint {
            label: point.setting().to_string(),
            x: if is_large { point.bytes_per_second } else { iops.mean },
            y: ns as f64,
            x_interval: ends.map(|(low, high)| (low.max(0.0) * per_io, high * per_io)),
            ..ChartPoint::default()
        }
    };
    // The line is what more in flight yields: settings that yield no more than ones before are beside it.
    let mut most = 0.0;
    let aside: Vec<bool> = points
        .iter()
        .map(|point| {
            let yields_more = point.iops.mean > most;
            most = point.iops.mean.max(most);
            !yields_more
        })
        .collect();
    let beside = |all: Vec<ChartPoint>| -> Vec<ChartPoint> {
        let one = |(point, aside): (ChartPoint, &bool)| match aside {
            true => ChartPoint { is_aside: point.mark.is_none(), x_interval: None, ..point },
            false => point,
        };
        all.into_iter().zip(&aside).map(one).collect()
    };
    // Both series have the same throughput; its interval is drawn once.
    let p50 = |point: &&Point| ChartPoint { x_interval: None, ..of(point, point.clat_p50_ns) };
    let p50 = beside(points.iter().map(p50).collect());
    let p99 = points.iter().map(|point| {
        let is = |other: Option<&Point>| other.is_some_and(|o| o.setting() == point.setting());
        let knee = is(block.knee.as_ref().map(|knee| &knee.point)).then_some("knee");
        let peak = is(block.peak.as_ref()).then_some("peak");
        let marks: Vec<&str> = knee.into_iter().chain(peak).collect();
        let mark = (!marks.is_empty()).then(|| marks.join(", "));
        ChartPoint { mark, ..of(point, point.clat_p99_ns) }
    });
    let mut series =
        vec![ChartSeries::new("p50", p50), ChartSeries::new("p99", beside(p99.collect()))];
    series.extend(block.target.as_ref().map(|result| rated(result, per_io)));
    series.retain(|series| series.points.len() > 1);
    let x = match is_large {
        true => Axis::linear("bandwidth", QuantityUnit::BytesPerSecond),
        false => Axis::linear("IOPS", QuantityUnit::Count),
    };
    let mut part = Document::default();
    let title = format!("{}: latency vs. throughput (workers × QD)", block.name());
    let y = Axis::log("completion latency", QuantityUnit::Nanoseconds);
    part.chart(Chart::lines(title, (x, y), series));
    page.html_only(part);
}

/// Latencies at fixed rates, with the highest one that meets the target.
fn rated(result: &TargetResult, per_io: f64) -> ChartSeries {
    let TargetResult { target, best, tried } = result;
    let mut points: Vec<ChartPoint> = tried
        .iter()
        .map(|rate| {
            let is_best = best.as_ref().is_some_and(|best| best == rate);
            ChartPoint {
                x: rate.completed_iops * per_io,
                y: rate.latency_ns as f64,
                mark: is_best.then(|| target.to_string()),
                ..ChartPoint::default()
            }
        })
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    ChartSeries::new(format!("p{} at fixed rates", target.percentile), points)
}

#[cfg(test)]
#[path = "charts_tests.rs"]
mod tests;
