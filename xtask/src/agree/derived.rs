//! Compares derived figures with a second source over the same seconds: thread states and system calls with bpftrace,
//! driver times with perf, CPU time per I/O with schedstat.

mod threads;

use super::Row;
use crate::Result;
use crate::fixtures::filled;
use crate::programs::fathom;
use crate::run::Background;
use fathom_model::Histogram;
use fathom_model::record::RunRecord;
use fathom_model::watch::{BlockOp, BlocksSample};
use fathom_watch::blocks::{BlockSampler, BlocksOptions, Devices, ONE_IN};
use fathom_watch::{TraceCoverage, Watcher};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Interval of the samplers.
const INTERVAL: Duration = Duration::from_secs(1);
/// Tolerance of sampled times and CPU time: a tenth.
const TENTH: f64 = 0.1;

pub fn run(seconds: u32, dir: &Path, given: Option<&Path>) -> Result<()> {
    let dir = tempfile::tempdir_in(dir)?;
    let data = dir.path().join("filled");
    filled(&data, 256 << 20)?;
    let mut rows = Vec::new();
    let mut add = |tool: &'static str, found: Result<Vec<Row>>| match found {
        Ok(found) => rows.extend(found.into_iter().map(|row| (tool, row))),
        Err(error) => eprintln!("xtask: {tool}: {error}"),
    };
    add("bpftrace sched_switch", threads::states(seconds));
    for (name, arguments) in threads::WAITS {
        add("bpftrace", threads::waits(seconds, &data, name, arguments));
    }
    add("perf block_rq", drivers(seconds, &data));
    let fathom = fathom(given)?;
    for (name, arguments) in LOADS {
        add("schedstat", cpu_per_io(&fathom, seconds, &data, name, arguments));
    }
    super::print(&rows);
    let apart = rows.iter().filter(|(_, row)| !row.agrees()).count();
    println!("\n{seconds} s each; {} figures; {apart} differ by more than allowed.", rows.len());
    Ok(())
}

/// Driver times by operation, of direct reads and of writes with fsync.
fn drivers(seconds: u32, data: &Path) -> Result<Vec<Row>> {
    let written = data.with_file_name("written");
    let mut load = Command::new("fio");
    load.args(["--output=/dev/null", "--bs=4k", "--time_based", "--runtime=3600", "--thread"])
        .args(["--name=reads", "--ioengine=psync", "--rw=randread", "--direct=1"])
        .arg(format!("--filename={}", data.display()))
        .args(["--name=syncs", "--ioengine=psync", "--rw=randwrite", "--fsync=4", "--size=64m"])
        .arg(format!("--filename={}", written.display()));
    let load = Background::start(&mut load)?;
    // Some kernels deliver no perf samples on idle CPUs.
    let busy = Background::on_all_cpus(19)?;
    let recorded = data.with_file_name("recorded");
    let ours = drivers_sampled(seconds, &recorded)?;
    drop((load, busy));
    let theirs = issue_to_completion(&recorded)?;
    let rows = |(name, op, letter): (&str, BlockOp, char)| {
        let mut driver = Histogram::default();
        let times = ours.devices.iter().flat_map(|device| &device.ops).filter(|of| of.op == op);
        times.for_each(|of| driver.merge(&of.driver));
        let mut theirs = theirs.get(&letter).cloned().unwrap_or_default();
        theirs.sort_by(f64::total_cmp);
        let count = driver.count();
        let median = theirs.get(theirs.len() / 2).map_or(0.0, |seconds| seconds * 1e6);
        let mean = theirs.iter().sum::<f64>() / theirs.len().max(1) as f64 * 1e6;
        let row = |what, ours: f64, theirs: f64| {
            let figure = format!("{name}, {what} µs of {count} sampled");
            Row::new(figure, ours / 1e3, theirs, TENTH * theirs)
        };
        let p50 = driver.percentile(50.0).unwrap_or(0) as f64;
        [row("p50", p50, median), row("mean", driver.sum_ns() as f64 / count.max(1) as f64, mean)]
    };
    let ops = [
        ("reads", BlockOp::Read, 'R'),
        ("writes", BlockOp::Write, 'W'),
        ("flushes", BlockOp::Flush, 'F'),
    ];
    Ok(ops.into_iter().flat_map(rows).collect())
}

/// Seconds from issue to completion of each request that perf recorded, by operation.
fn issue_to_completion(recorded: &Path) -> Result<BTreeMap<char, Vec<f64>>> {
    let output = Command::new("perf")
        .args(["script", "-F", "time,event,trace", "-i"])
        .arg(recorded)
        .stderr(Stdio::null())
        .output()?;
    let (mut issued, mut all) = (BTreeMap::new(), BTreeMap::<char, Vec<f64>>::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some((is_issue, seconds, letter, place)) = event(line) else { continue };
        if is_issue {
            issued.insert(place, seconds);
        } else if let Some(from) = issued.remove(&place) {
            all.entry(letter).or_default().push(seconds - from);
        }
    }
    Ok(all)
}

/// Whether a line of `perf script` is an issue, its time, the operation, and the device and sector. A flush has no
/// sector: it has 0 when it is issued, and the highest number when it completes.
fn event(line: &str) -> Option<(bool, f64, char, (String, String))> {
    let (time, rest) = line.split_once(':')?;
    let (kind, rest) = rest.trim_start().strip_prefix("block:block_rq_")?.split_once(": ")?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let plus = words.iter().position(|word| *word == "+")?;
    let letter = ['W', 'R', 'F'].into_iter().find(|letter| words[1].contains(*letter))?;
    let sector = if letter == 'F' { "flush" } else { words.get(plus.checked_sub(1)?)? };
    let place = (words[0].to_string(), sector.to_string());
    Some((kind == "issue", time.trim().parse().ok()?, letter, place))
}

/// Runs the block sampler and perf over the same seconds.
fn drivers_sampled(seconds: u32, recorded: &Path) -> Result<BlocksSample> {
    let (proc, sys) = (Path::new("/proc"), Path::new("/sys"));
    let options = BlocksOptions {
        devices: Devices::Named(super::used(proc, sys)?),
        one_in: ONE_IN,
        each_io: TraceCoverage::Full,
    };
    let blocks = BlockSampler::open(proc, sys, &options)?;
    let watcher = Watcher::start(vec![Box::new(blocks)], INTERVAL)?;
    let events = "block:block_rq_issue,block:block_rq_complete";
    let status = Command::new("perf")
        .args(["record", "-q", "-a", "-m", "4M", "-e", events, "-o"])
        .arg(recorded)
        .args(["sleep", &seconds.to_string()])
        .stderr(Stdio::null())
        .status()?;
    let rest = watcher.stop();
    let last = rest.last().and_then(|sample| sample.machine.blocks.clone());
    match status.success() {
        true => Ok(last.ok_or("the sampler found no devices")?),
        false => Err(format!("perf record: {status}").into()),
    }
}

/// Runs of fathom whose CPU time per I/O is compared.
const LOADS: [(&str, &[&str]); 3] = [
    ("psync", &["--ioengine=psync"]),
    ("io_uring, QD32", &["--ioengine=io_uring", "--iodepth=32"]),
    ("io-wq (force_async)", &["--ioengine=io_uring", "--iodepth=8", "--force_async=1"]),
];

/// CPU time per I/O as fathom reports it, and by the scheduler's statistics of its threads.
fn cpu_per_io(
    fathom: &Path,
    seconds: u32,
    data: &Path,
    name: &str,
    arguments: &[&str],
) -> Result<Vec<Row>> {
    let record = data.with_file_name("record");
    let _ = std::fs::remove_dir_all(&record);
    let mut child = Command::new(fathom)
        .args(["run", "--sampling=off", "--name=j", "--rw=randread", "--bs=4k", "--direct=1"])
        .args(["--time_based", &format!("--runtime={seconds}")])
        .args(arguments)
        .arg(format!("--filename={}", data.display()))
        .arg(format!("--record={}", record.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut ran = BTreeMap::new();
    while child.try_wait()?.is_none() {
        ran.extend(schedstat(child.id()));
        thread::sleep(Duration::from_millis(20));
    }
    let text = std::fs::read_to_string(record.join("record.json"))?;
    let run: RunRecord = serde_json::from_str(&text)?;
    let ios: u64 = run.jobs.iter().map(fathom_analysis::derive::ios).sum();
    let ours: u64 =
        run.jobs.iter().map(|j| j.usage.user_ns + j.usage.system_ns + j.usage.helper_ns).sum();
    let per_io = |ns: u64| ns as f64 / ios.max(1) as f64 / 1e3;
    let theirs = per_io(ran.values().sum());
    let figure = format!("{name}: CPU µs per I/O");
    Ok(vec![Row::new(figure, per_io(ours), theirs, TENTH * theirs)])
}

/// Time that each thread of a process ran, in nanoseconds, by its ID.
fn schedstat(pid: u32) -> BTreeMap<String, u64> {
    let ran = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        let ns = text.split(' ').next()?.parse().ok()?;
        Some((task.file_name().to_string_lossy().into_owned(), ns))
    };
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    tasks.flatten().filter_map(ran).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_paired_by_device_and_sector() {
        let place = |sector: &str| ("254,0".to_string(), sector.to_string());
        let issue = " 12.500000: block:block_rq_issue: 254,0 RA 4096 () 79896 + 8 none,0,0 [fio]";
        assert_eq!(event(issue), Some((true, 12.5, 'R', place("79896"))));
        let done =
            "12.6:    block:block_rq_complete: 254,0 FF () 18446744073709551615 + 0 none,0,0 [0]";
        assert_eq!(event(done), Some((false, 12.6, 'F', place("flush"))));
        let write = "1.0: block:block_rq_issue: 254,0 WFS 4096 () 8 + 8 [fio]";
        assert_eq!(event(write).map(|event| event.2), Some('W'));
        assert_eq!(event("garbage"), None);
    }
}
