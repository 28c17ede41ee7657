use super::*;
use crate::doc::Block;
use crate::render::{self, Style};
use fathom_analysis::derive::sections;
use fathom_model::PerDir;
use fathom_model::limit::{KneePoint, LatencyTarget, RatedPoint};
use fathom_model::plan::{Distribution, Engine, JobPlan, Mix, Order, Plan};
use fathom_model::progress::{Counts, JobSample, Phase, Sample};
use fathom_model::record::JobRecord;
use fathom_model::watch::{
    DiskCounters, DiskKind, IoCounters, MachineSample, Stack, StackCount, StacksSample,
};
use fathom_model::window::{Estimate, Rw};

const SECOND: u64 = 1_000_000_000;

/// All charts of a page that only HTML draws.
fn charts(page: &Document) -> Vec<&Chart> {
    let of = |block: &'_ Block| matches!(block, Block::HtmlOnly(_));
    assert!(page.blocks.iter().all(of), "{page:?}");
    let mut found = Vec::new();
    let mut parts: Vec<&Document> = vec![page];
    while let Some(part) = parts.pop() {
        for block in &part.blocks {
            match block {
                Block::Chart(chart) => found.push(chart),
                Block::HtmlOnly(inner) => parts.push(inner),
                Block::Section(section) => parts.push(&section.body),
                Block::Svg(_) | Block::Multiples(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(render::text(page, Style::default()), "");
    assert_eq!(render::markdown(page), "");
    found
}

fn chart<'a>(page: &'a Document, title: &str) -> &'a Chart {
    let all = charts(page);
    let titles: Vec<&str> = all.iter().map(|chart| chart.title.as_str()).collect();
    let found = all.into_iter().find(|chart| chart.title == title);
    found.unwrap_or_else(|| panic!("no {title:?} in {titles:?}"))
}

fn values(series: &ChartSeries) -> Vec<(f64, f64)> {
    series.points.iter().map(|point| (point.x, point.y)).collect()
}

fn names(chart: &Chart) -> Vec<&str> {
    chart.series.iter().map(|series| series.name.as_str()).collect()
}

fn record(mix: Mix, clat: impl Fn(Dir) -> Histogram) -> RunRecord {
    let order = Order::Random { distribution: Distribution::EachOnce, run: 1 };
    let jobs = vec![JobPlan::new("load", Engine::Null, mix, order)];
    let mut done = JobRecord { runtime_ns: 4 * SECOND, ..JobRecord::default() };
    for dir in Dir::ALL {
        done.dirs[dir].clat = clat(dir);
        done.dirs[dir].counts.ios = done.dirs[dir].clat.count();
    }
    let plan = Plan { jobs, ..Plan::default() };
    RunRecord { plan, jobs: vec![done], ..RunRecord::default() }
}

/// After each second, reads of these numbers with these latencies, and half as many writes.
fn seen(seconds: &[(u64, u64)], bytes: u64) -> Observed {
    let (mut seen, mut ios) = (Observed::default(), 0);
    for (second, (new, latency_ns)) in seconds.iter().enumerate() {
        ios += new;
        let counts = |ios| Counts { ios, bytes: ios * bytes, ..Counts::default() };
        let clat = |n| {
            let mut clat = Histogram::default();
            clat.record_n(*latency_ns, n);
            clat
        };
        let job = JobSample {
            phase: Phase::Running,
            dirs: PerDir { read: counts(ios), write: counts(ios / 2), trim: counts(0) },
            clat: PerDir { read: clat(*new), write: clat(new / 2), trim: clat(0) },
            ..JobSample::default()
        };
        seen.jobs_over_time.add((second as u64 + 1) * SECOND, &[job]);
    }
    seen
}

#[test]
fn a_run_has_its_rate_and_latencies_over_time() {
    let record = record(Mix::ReadWrite { read_percent: 67 }, |_| Histogram::default());
    let seen = seen(&[(1000, 1 << 20), (3000, 1 << 21), (2000, 1 << 22)], 4096);
    let mut page = Document::default();
    of_run(&mut page, &record, &sections(&record), Some(&seen));
    let rate = chart(&page, "IOPS over time");
    assert_eq!((names(rate), rate.y.log), (vec!["read", "write"], false));
    assert_eq!(values(&rate.series[0]), [(0.5, 1000.0), (1.5, 3000.0), (2.5, 2000.0)]);
    assert_eq!(values(&rate.series[1]), [(0.5, 500.0), (1.5, 1500.0), (2.5, 1000.0)]);
    assert_eq!(rate.x.name, "seconds since the start");
    let latency = chart(&page, "completion latency over time");
    assert_eq!(names(latency), ["read p50", "read p99", "write p50", "write p99"]);
    assert!(latency.y.log && latency.y.name == "completion latency");
    let ns: Vec<f64> = values(&latency.series[1]).into_iter().map(|(_, ns)| ns).collect();
    assert_eq!(ns, [1_048_576.0, 2_097_152.0, 4_194_304.0]);
}

#[test]
fn large_ios_have_bandwidth_and_long_runs_minutes() {
    let record = record(Mix::Only(Dir::Read), |_| Histogram::default());
    let second = [(100, 5000)];
    let seen = seen(&second.repeat(600), 1 << 20);
    let mut page = Document::default();
    of_run(&mut page, &record, &sections(&record), Some(&seen));
    let rate = chart(&page, "bandwidth over time");
    assert_eq!(
        (rate.x.name.as_str(), rate.y.unit),
        ("minutes since the start", QuantityUnit::BytesPerSecond)
    );
    let reads = values(&rate.series[0]);
    assert_eq!(
        (reads.len(), reads[0], reads[299].0),
        (300, (1.0 / 60.0, 104_857_600.0), 599.0 / 60.0)
    );
    // A ten-minute run in one file.
    let html = render::html(&page);
    assert!(html.len() < 200_000, "{}", html.len());
}

#[test]
fn too_few_samples_make_no_course() {
    let record = record(Mix::Only(Dir::Read), |_| Histogram::default());
    let seen = seen(&[(1000, 5000), (1000, 5000)], 4096);
    let mut page = Document::default();
    of_run(&mut page, &record, &sections(&record), Some(&seen));
    assert!(page.blocks.is_empty(), "{page:?}");
}

#[test]
fn each_direction_has_the_distribution_of_its_latencies() {
    let clat = |dir| {
        let mut clat = Histogram::default();
        if dir == Dir::Read {
            clat.record_n(100_000, 970);
            clat.record_n(5_000_000, 30);
        }
        clat
    };
    let record = record(Mix::ReadWrite { read_percent: 50 }, clat);
    let mut page = Document::default();
    of_run(&mut page, &record, &sections(&record), None);
    assert_eq!(charts(&page).len(), 1, "writes that were not measured have none");
    let found = chart(&page, "read latency");
    assert!(found.kind == ChartKind::Histogram && found.x.log);
    let (marks, classes): (Vec<&ChartPoint>, Vec<&ChartPoint>) =
        found.points().partition(|point| point.mark.is_some());
    let sum: f64 = classes.iter().map(|point| point.y).sum();
    assert!((sum - 100.0).abs() < 1e-9, "{sum}");
    let most = classes.iter().max_by(|a, b| a.y.total_cmp(&b.y)).unwrap();
    assert!((most.y - 97.0).abs() < 1e-9 && most.x <= 100_000.0 && most.x > 91_000.0, "{most:?}");
    let ratios = classes.windows(2).map(|pair| pair[1].x / pair[0].x);
    assert!(ratios.into_iter().all(|ratio| (ratio.log2() - 0.125).abs() < 1e-9));
    assert_eq!(classes.last().unwrap().y, 0.0, "the upper end of the last class");
    let marks: Vec<(&str, bool)> =
        marks.iter().map(|p| (p.mark.as_deref().unwrap(), p.x > 4e6)).collect();
    assert_eq!(marks, [("p50", false), ("p99", true), ("p99.9", true)]);
}

#[test]
fn the_disks_of_a_watch_have_rates_and_latencies_over_time() {
    let mut seen = Observed::default();
    for second in 0..4_u64 {
        let disk = |name: &str, kind, ios: u64| DiskCounters {
            name: name.into(),
            kind,
            read: IoCounters {
                ios: ios * second,
                sectors: 8 * ios * second,
                ticks_ms: (2 * ios * second) as u32,
                ..IoCounters::default()
            },
            ..DiskCounters::default()
        };
        let disks = vec![
            disk("sda", DiskKind::Disk, 100),
            disk("sda1", DiskKind::Partition, 100),
            disk("sdb", DiskKind::Disk, 0),
        ];
        let machine = MachineSample { disks, ..MachineSample::default() };
        seen.add(&Sample { elapsed_ns: second * SECOND, machine, ..Sample::default() });
    }
    let mut page = Document::default();
    disks_over_time(&mut page, &[], &seen);
    let rate = chart(&page, "IOPS over time");
    assert_eq!(names(rate), ["sda read"]);
    assert_eq!(values(&rate.series[0]), [(0.5, 100.0), (1.5, 100.0), (2.5, 100.0)]);
    let wait = chart(&page, "mean latency (await) over time");
    assert!(values(&wait.series[0]).iter().all(|(_, ns)| (ns - 2e6).abs() < 1.0), "{wait:?}");
}

#[test]
fn layers_are_bars_with_the_intervals_of_their_shares() {
    let stack = |kernel: &[&str]| Stack {
        kernel: kernel.iter().map(|name| (*name).into()).collect(),
        user: Vec::new(),
    };
    let stacks = [stack(&[]), stack(&["do_syscall_64", "blk_mq_submit_bio"])];
    let counts = [(0, 300), (1, 100)].map(|(stack, count)| StackCount {
        stack,
        count,
        period: u64::from(count),
        ..StackCount::default()
    });
    let sample = StacksSample { counts: counts.into(), ..StacksSample::default() };
    let times = LayerTimes::of([&sample], &stacks, |_| true);
    let mut page = Document::default();
    layers(&mut page, &times, None);
    let found = chart(&page, "CPU time by layer");
    let bars: Vec<(&str, f64)> = found.points().map(|p| (p.label.as_str(), p.y)).collect();
    assert_eq!(bars, [("user space", 75.0), ("block layer", 25.0)]);
    assert!(found.points().all(|p| p.interval.is_some_and(|(low, high)| low < p.y && p.y < high)));
    let mut page = Document::default();
    layers(&mut page, &times, Some(2000.0));
    let found = chart(&page, "CPU time per I/O by layer");
    assert_eq!(found.points().map(|p| p.y).collect::<Vec<_>>(), [1500.0, 500.0]);
}

fn block() -> BlockLimit {
    let point = |workers, depth: u32, iops: f64| Point {
        workers,
        depth,
        iops: Estimate { mean: iops, low: Some(iops * 0.9), high: Some(iops * 1.1), windows: 3 },
        bytes_per_second: iops * 4096.0,
        clat_p50_ns: u64::from(depth) * 10_000,
        clat_p99_ns: u64::from(depth) * 30_000,
        ..Point::default()
    };
    let points = vec![
        point(1, 1, 10e3),
        point(1, 8, 60e3),
        point(1, 64, 90e3),
        point(2, 1, 20e3),
        point(2, 16, 95e3),
    ];
    let knee = KneePoint { point: points[1].clone(), ..KneePoint::default() };
    let rate = |iops, meets| RatedPoint {
        iops,
        completed_iops: iops,
        latency_ns: iops as u64 * 10,
        p50_ns: 1,
        windows: 1,
        meets,
    };
    let tried = vec![rate(50e3, false), rate(30e3, true)];
    let target = LatencyTarget { percentile: 99.9, below_ns: 400_000 };
    BlockLimit {
        block_bytes: 4096,
        rw: Rw::Randread,
        latency: None,
        peak: points.last().cloned(),
        knee: Some(knee),
        points,
        confirmation: None,
        one_worker: None,
        target: Some(TargetResult { target, best: tried.last().cloned(), tried }),
        problems: Vec::new(),
    }
}

#[test]
fn limit_has_latency_against_throughput_with_knee_peak_and_target() {
    let mut page = Document::default();
    latency(&mut page, &block());
    let found = chart(&page, "4 KiB randread: latency vs. throughput (workers × QD)");
    assert_eq!(names(found), ["p50", "p99", "p99.9 at fixed rates"]);
    assert_eq!((found.x.name.as_str(), found.y.log), ("IOPS", true));
    // By I/Os in flight, whatever the number of workers.
    let wanted = [(10e3, 1e4), (20e3, 1e4), (60e3, 8e4), (95e3, 16e4), (90e3, 64e4)];
    assert_eq!(values(&found.series[0]), wanted);
    // What yields less than fewer in flight is beside the line; the interval of both latencies is drawn once.
    for series in &found.series[..2] {
        let aside: Vec<bool> = series.points.iter().map(|point| point.is_aside).collect();
        assert_eq!(aside, [false, false, false, false, true]);
    }
    assert!(found.series[0].points.iter().all(|point| point.x_interval.is_none()));
    let ends: Vec<_> = found.series[1].points.iter().filter_map(|p| p.x_interval).collect();
    assert!(ends.len() == 4 && ends[0].0 == 9e3 && (ends[0].1 - 11e3).abs() < 1e-6, "{ends:?}");
    let marks: Vec<(&str, &str)> =
        found.points().filter_map(|p| Some((p.mark.as_deref()?, p.label.as_str()))).collect();
    assert_eq!(marks, [("knee", "1 × 8"), ("peak", "2 × 16"), ("p99.9 < 400 µs", "")]);
    let rates: Vec<f64> = found.series[2].points.iter().map(|p| p.x).collect();
    assert_eq!(rates, [30e3, 50e3]);
}

#[test]
fn large_blocks_have_bandwidth() {
    let mut block = block();
    block.block_bytes = 1 << 20;
    block.points.iter_mut().for_each(|p| p.bytes_per_second = p.iops.mean * 1_048_576.0);
    let mut page = Document::default();
    latency(&mut page, &block);
    let all = charts(&page);
    assert_eq!(all[0].x.unit, QuantityUnit::BytesPerSecond);
    let ChartPoint { x, x_interval, .. } = &all[0].series[1].points[0];
    let (low, high) = x_interval.unwrap();
    assert!(low < *x && *x < high, "{low} {x} {high}");
    block.points.truncate(1);
    let mut page = Document::default();
    latency(&mut page, &BlockLimit { target: None, ..block });
    assert!(page.blocks.is_empty(), "one point is no curve");
}

#[test]
fn hosts_have_small_charts_on_common_axes() {
    let span = |at: u64, iops: f64| RankSpan {
        from_ns: at * SECOND,
        to_ns: (at + 1) * SECOND,
        iops,
        bytes_per_second: iops * 4096.0,
        clat_p99_ns: Some(100_000 * (at + 1)),
    };
    let rank = |n: usize| RankRecord {
        hostname: format!("node{n}"),
        over_time: (0..5).map(|at| span(at, 1000.0 * (n + 1) as f64)).collect(),
        ..RankRecord::default()
    };
    let mut record = RunRecord {
        ranks: (0..64).map(rank).collect(),
        ranks_over_time: (0..5).map(|at| span(at, 2_080_000.0)).collect(),
        ..RunRecord::default()
    };
    let mut page = Document::default();
    of_run(&mut page, &record, &[], None);
    let html = render::html(&page);
    assert_eq!(html.matches("<div class=\"multiples\">").count(), 2);
    assert!(html.contains("IOPS by host") && html.contains("p99 completion latency by host"));
    assert_eq!(html.matches("<figcaption>node63</figcaption>").count(), 2);
    // All have the ticks of the fastest.
    assert_eq!(html.matches(">50k</text>").count(), 64);
    // Several ranks of a host have numbers.
    record.ranks[1].hostname = "node0".into();
    let mut page = Document::default();
    of_run(&mut page, &record, &[], None);
    assert!(render::html(&page).contains("<figcaption>node0, rank 1</figcaption>"));
}
