//! What rank 0 does with the results of many machines: their records as they arrive, the one of all, and its page.

use crate::Result;
use crate::run::peak_memory;
use fathom_analysis::ranks::{OfRank, merge};
use fathom_model::facts::TargetFacts;
use fathom_model::finding::Finding;
use fathom_model::plan::{Engine, JobPlan, Mix, Order, Region, Uring};
use fathom_model::record::{DiskRecord, JobRecord, RankSpan, RunRecord};
use fathom_model::{Dir, Histogram, split_mix};
use fathom_report::pages;
use fathom_report::render::{self, Style};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The run of each: ten minutes.
const SECONDS: u64 = 600;
const SPANS: u64 = 120;
/// Of the largest fleet.
const RANKS: usize = 10_000;
const TIME_MAX: Duration = Duration::from_secs(10);
const MEMORY_MAX_KIB: u64 = 1 << 20;
/// Lines of its page, at most.
const LINES_MAX: usize = 60;

#[derive(clap::Args)]
pub struct Options {
    /// Numbers of ranks to merge, in ascending order
    #[arg(long, value_delimiter = ',', default_values_t = [1000, RANKS])]
    ranks: Vec<usize>,
    /// Print the page of the largest number
    #[arg(long)]
    page: bool,
}

pub fn run(options: &Options) -> Result<()> {
    println!("| ranks | JSON of a rank | CPU time: read | merged | page | peak memory | lines |");
    println!("|---|---|---|---|---|---|---|");
    for count in &options.ranks {
        let mut read = Duration::ZERO;
        let (mut all, mut bytes) = (Vec::new(), 0);
        for rank in 0..*count {
            let text = serde_json::to_string(&of_rank(rank as u64))?;
            bytes = text.len();
            let began = cpu_time();
            all.push(serde_json::from_str::<OfRank>(&text)?);
            read += cpu_time() - began;
        }
        let began = cpu_time();
        let record = merge(all).ok_or("nothing was merged")?;
        let merged = cpu_time() - began;
        let began = cpu_time();
        let page = render::text(&pages::run(&record, None, false), Style::default());
        let shown = cpu_time() - began;
        let peak = peak_memory(std::process::id()).ok_or("no VmHWM in /proc/self/status")?;
        let (peak_kib, lines) = (peak >> 10, page.lines().count());
        println!(
            "| {count} | {} KiB | {:.2} s | {:.2} s | {:.2} s | {} MiB | {lines} |",
            bytes >> 10,
            read.as_secs_f64(),
            merged.as_secs_f64(),
            shown.as_secs_f64(),
            peak_kib >> 10
        );
        if options.page && Some(count) == options.ranks.last() {
            println!("\n{page}");
        }
        let time = read + merged + shown;
        if *count <= RANKS && (time > TIME_MAX || peak_kib > MEMORY_MAX_KIB || lines > LINES_MAX) {
            return Err(format!(
                "{count} ranks take more than {TIME_MAX:?}, {} MiB or {LINES_MAX} lines",
                MEMORY_MAX_KIB >> 10
            )
            .into());
        }
    }
    Ok(())
}

/// Of this process: other programs may share the machine.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What rank `rank` sends: one job of random reads, with latencies from some 50 µs to 20 ms.
fn of_rank(rank: u64) -> OfRank {
    let hostname = format!("node{rank:05}");
    let iops = 20_000 + split_mix::nth(1, rank) % 2_000 - if rank % 997 == 3 { 12_000 } else { 0 };
    let mut record = RunRecord::default();
    let header = &mut record.header;
    header.facts.host.hostname.clone_from(&hostname);
    header.facts.host.kernel = "6.1.0".into();
    header.run_id = format!("{rank:032x}");
    let path = format!("/mnt/{hostname}/data");
    header.facts.targets = vec![TargetFacts { path, ..TargetFacts::default() }];
    let rule = if rank % 997 == 3 { "busy-cpus" } else { "device" };
    let limiter = Finding {
        rule: rule.into(),
        rank: Some(1),
        summary: format!("{rule} limited it."),
        limited_by: Some(rule.into()),
        ..Finding::default()
    };
    header.findings = vec![limiter];
    let order = Order::Sequential { skip: 0 };
    let engine = Engine::IoUring(Uring::default());
    let mut plan = JobPlan::new("read", engine, Mix::Only(Dir::Read), order);
    plan.regions = vec![Region { target: 0, start: 0, len: 1 << 30 }];
    let runtime_ns = SECONDS * 1_000_000_000;
    let mut job = JobRecord { runtime_ns, ..JobRecord::default() };
    job.started_unix_ns = 1_000_000_000 + split_mix::nth(2, rank) % 200_000;
    let read = &mut job.dirs.read;
    (read.counts.ios, read.counts.bytes) = (iops * SECONDS, iops * SECONDS * 4096);
    (read.clat, read.lat) = (latencies(50_000, iops), latencies(51_000, iops));
    read.slat = latencies(2_000, iops);
    record.plan.jobs = vec![plan];
    record.jobs = vec![job];
    record.disks = vec![DiskRecord { name: "nvme0n1".into(), ..DiskRecord::default() }];
    let each = runtime_ns / SPANS;
    let span = |at: u64| RankSpan {
        from_ns: at * each,
        to_ns: (at + 1) * each,
        iops: (iops + split_mix::nth(3, rank << 8 | at) % 500) as f64,
        bytes_per_second: iops as f64 * 4096.0,
        clat_p99_ns: Some(900_000 + split_mix::nth(4, rank << 8 | at) % 100_000),
    };
    let over_time = (0..SPANS).map(span).collect();
    OfRank { record, over_time, clock_offset_ns: 0, clock_error_ns: 40_000 }
}

/// Every bucket of more than eight powers of two has some values.
fn latencies(from_ns: u64, iops: u64) -> Histogram {
    let mut all = Histogram::default();
    for step in 0..1200_u32 {
        let ns = from_ns as f64 * (f64::from(step) / 140.0).exp2();
        let n = (iops * SECONDS) as f64 / 150.0 * (-f64::from(step) / 150.0).exp();
        all.record_n(ns as u64, n as u64 + 1);
    }
    all
}
