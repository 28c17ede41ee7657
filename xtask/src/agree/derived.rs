//! Compares derived figures with a second source over the same seconds: thread states with bpftrace, driver times with
//! perf, CPU time per I/O with schedstat.

use super::Row;
use crate::Result;
use crate::bench::{aligned, fathom, filled};
use fathom_analysis::threads::{Column, ThreadGroups};
use fathom_model::record::RunRecord;
use fathom_model::watch::{BlockOp, BlocksSample};
use fathom_watch::blocks::{BlockSampler, BlocksOptions, Devices, ONE_IN};
use fathom_watch::threads::{ThreadOptions, ThreadSampler};
use fathom_watch::{EachIo, Sampler, Scope, TimedSample, Watcher};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Interval of the samplers.
const INTERVAL: Duration = Duration::from_secs(1);
/// Sleeps of the threads whose states are compared; they compute for a quarter of it in between.
const SLEEPS: [(&str, Duration); 5] = [
    ("every-20us", Duration::from_micros(20)),
    ("every-200us", Duration::from_micros(200)),
    ("every-2ms", Duration::from_millis(2)),
    ("every-20ms", Duration::from_millis(20)),
    ("every-100ms", Duration::from_millis(100)),
];
/// Tolerances: five percentage points for shares of a thread's time, a tenth for sampled times and CPU time.
const POINTS: f64 = 0.05;
const TENTH: f64 = 0.1;

/// Sums the time of each thread from being woken to going to sleep, by name: it runs, or waits for a CPU.
const RAN: &str = r#"
tracepoint:sched:sched_wakeup {
    if (strncmp(args->comm, "every-", 6) == 0) { @woken[args->pid] = nsecs; }
}
tracepoint:sched:sched_switch {
    if (strncmp(args->prev_comm, "every-", 6) == 0 && (args->prev_state & 0xff) && @woken[args->prev_pid]) {
        @ran[args->prev_comm] = sum(nsecs - @woken[args->prev_pid]);
        delete(@woken[args->prev_pid]);
    }
}
interval:s:SECONDS { print(@ran); clear(@ran); exit(); }"#;

/// Prints the table.
pub fn run(seconds: u32, dir: &Path, given: Option<&Path>) -> Result<()> {
    let dir = tempfile::tempdir_in(dir)?;
    let data = dir.path().join("filled");
    filled(&data, 256 << 20)?;
    let mut rows = Vec::new();
    let mut add = |tool: &str, found: Result<Vec<Row>>| match found {
        Ok(found) => rows.extend(found.into_iter().map(|row| (tool.to_string(), row))),
        Err(error) => eprintln!("xtask: {tool}: {error}"),
    };
    add("bpftrace sched_switch", states(seconds));
    add("perf block_rq", drivers(seconds, &data));
    let fathom = fathom(given)?;
    for (name, arguments) in LOADS {
        add("schedstat", cpu_per_io(&fathom, seconds, &data, name, arguments));
    }
    let mut lines =
        vec![["tool", "figure", "fathom", "tool", "difference", ""].map(str::to_string)];
    lines.extend(rows.iter().map(|(tool, row)| row.cells(tool)));
    println!("{}", aligned(&lines));
    let apart = rows.iter().filter(|(_, row)| !row.agrees()).count();
    println!("\n{seconds} s each; {} figures; {apart} differ by more than allowed.", rows.len());
    Ok(())
}

/// Shares of time on a CPU, or waiting for one, of threads that sleep for different times.
fn states(seconds: u32) -> Result<Vec<Row>> {
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<JoinHandle<()>> =
        SLEEPS.iter().map(|(name, sleep)| sleeper(name, *sleep, &stop)).collect::<Result<_>>()?;
    let options = ThreadOptions {
        scope: Scope::Only(vec![i32::try_from(std::process::id())?]),
        ..ThreadOptions::default()
    };
    let sampled = sample(Box::new(ThreadSampler::open(options)?), RAN, seconds);
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    let (samples, printed) = sampled?;
    let mut groups = ThreadGroups::new(&[Column::Comm2, Column::State]);
    let found = samples.iter().skip(1).filter_map(|sample| sample.machine.threads.as_ref());
    found.for_each(|threads| groups.add(threads));
    let groups = groups.largest_first();
    let running = |name: &str| {
        let is = |values: &[String]| values == [name, "R"] || values == [name, "Q"];
        groups.iter().filter(|group| is(&group.values)).map(|group| group.average).sum::<f64>()
    };
    let theirs = |name: &str| {
        let ns = map(&printed, "@ran").get(name).and_then(Value::as_f64).unwrap_or(0.0);
        ns / 1e9 / f64::from(seconds)
    };
    let row = |(name, _): &(&str, Duration)| {
        Row::new(format!("{name}: on CPU or runnable"), running(name), theirs(name), POINTS)
    };
    Ok(SLEEPS.iter().map(row).collect())
}

/// A thread that alternately sleeps and computes until stopped.
fn sleeper(name: &str, sleep: Duration, stop: &Arc<AtomicBool>) -> Result<JoinHandle<()>> {
    let stop = Arc::clone(stop);
    let work = move || {
        while !stop.load(Ordering::Relaxed) {
            let until = Instant::now() + sleep / 4;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            thread::sleep(sleep);
        }
    };
    Ok(thread::Builder::new().name(name.into()).spawn(work)?)
}

/// Mean driver times by operation, of direct reads and of writes with fsync.
fn drivers(seconds: u32, data: &Path) -> Result<Vec<Row>> {
    let written = data.with_file_name("written");
    let mut load = Command::new("fio")
        .args(["--output=/dev/null", "--bs=4k", "--time_based", "--runtime=3600", "--thread"])
        .args(["--name=reads", "--ioengine=psync", "--rw=randread", "--direct=1"])
        .arg(format!("--filename={}", data.display()))
        .args(["--name=syncs", "--ioengine=psync", "--rw=randwrite", "--fsync=4", "--size=64m"])
        .arg(format!("--filename={}", written.display()))
        .spawn()?;
    let mut busy = busy_cpus()?;
    let recorded = data.with_file_name("recorded");
    let sampled = drivers_sampled(seconds, &recorded);
    for child in busy.iter_mut().chain([&mut load]) {
        child.kill()?;
        child.wait()?;
    }
    let ours = sampled?;
    let theirs = issue_to_completion(&recorded)?;
    let row = |(name, op, letter): (&str, BlockOp, char)| {
        let (mut ns, mut count) = (0.0, 0_u64);
        let times = ours.devices.iter().flat_map(|device| &device.ops).filter(|of| of.op == op);
        for times in times {
            ns += times.driver.sum_ns() as f64;
            count += times.driver.count();
        }
        let mean = |all: &Vec<f64>| all.iter().sum::<f64>() / all.len() as f64 * 1e6;
        let theirs = theirs.get(&letter).map_or(0.0, mean);
        let ours = ns / count.max(1) as f64 / 1e3;
        Row::new(format!("{name}, mean µs of {count} sampled"), ours, theirs, TENTH * theirs)
    };
    let ops = [
        ("reads", BlockOp::Read, 'R'),
        ("writes", BlockOp::Write, 'W'),
        ("flushes", BlockOp::Flush, 'F'),
    ];
    Ok(ops.into_iter().map(row).collect())
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

/// Programs of lowest priority that keep all CPUs busy, because some kernels deliver no perf samples on idle ones.
fn busy_cpus() -> Result<Vec<Child>> {
    let spin =
        || Command::new("nice").args(["-n", "19", "sh", "-c", "while :; do :; done"]).spawn();
    let cpus = thread::available_parallelism()?.get();
    (0..cpus).map(|_| Ok(spin()?)).collect()
}

/// Runs the block sampler and perf over the same seconds.
fn drivers_sampled(seconds: u32, recorded: &Path) -> Result<BlocksSample> {
    let (proc, sys) = (Path::new("/proc"), Path::new("/sys"));
    let options = BlocksOptions {
        devices: Devices::Named(super::used(proc, sys)?),
        one_in: ONE_IN,
        each_io: EachIo::Always,
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

/// Runs a sampler and a script of bpftrace over the same seconds: the samples, the first of them taken when the script
/// began, and what the script printed.
fn sample(
    sampler: Box<dyn Sampler>,
    script: &str,
    seconds: u32,
) -> Result<(Vec<TimedSample>, Vec<Value>)> {
    let mut bpftrace = bpftrace(&script.replace("SECONDS", &seconds.to_string()))?;
    // It reports when its probes are attached.
    let out = bpftrace.stdout.take().ok_or("bpftrace has no output")?;
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(out));
    let attached = lines.next().transpose()?;
    if attached.is_none() {
        return Err(format!("bpftrace: {}", bpftrace.wait()?).into());
    }
    let watcher = Watcher::start(vec![sampler], INTERVAL)?;
    let mut samples = Vec::new();
    let until = Instant::now() + Duration::from_secs(seconds.into());
    while let Some(rest) = until.checked_duration_since(Instant::now()) {
        samples.extend(watcher.samples.recv_timeout(rest));
    }
    samples.extend(watcher.stop());
    let printed = lines.map_while(std::result::Result::ok);
    let printed = printed.filter_map(|line| serde_json::from_str(&line).ok()).collect();
    bpftrace.wait()?;
    Ok((samples, printed))
}

fn bpftrace(script: &str) -> Result<Child> {
    let child = Command::new("bpftrace")
        .args(["-f", "json", "-e", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    child.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "not here; apt-get install bpftrace".into(),
        _ => error.into(),
    })
}

/// A map as first printed by a script; bpftrace prints all remaining maps again at its end.
fn map(printed: &[Value], name: &str) -> serde_json::Map<String, Value> {
    let mut maps = printed.iter().filter_map(|line| line["data"][name].as_object());
    maps.next().cloned().unwrap_or_default()
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
