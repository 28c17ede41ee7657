//! Thread states and latencies of system calls, compared with bpftrace.

use super::{INTERVAL, TENTH};
use crate::Result;
use crate::agree::{Row, sampled};
use crate::run::Background;
use fathom_analysis::threads::{Column, ThreadGroups};
use fathom_model::watch::MachineSample;
use fathom_watch::threads::{ThreadOptions, ThreadSampler};
use fathom_watch::{CallSampler, Sampler, Scope, TimedSample};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Sleeps of the threads whose states are compared; they compute for a quarter of it in between.
const SLEEPS: [(&str, Duration); 5] = [
    ("every-20us", Duration::from_micros(20)),
    ("every-200us", Duration::from_micros(200)),
    ("every-2ms", Duration::from_millis(2)),
    ("every-20ms", Duration::from_millis(20)),
    ("every-100ms", Duration::from_millis(100)),
];
/// Tolerance of shares of a thread's time: five percentage points.
const POINTS: f64 = 0.05;

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

/// Programs that wait for a disk, one I/O at a time.
pub const WAITS: [(&str, &[&str]); 2] = [
    ("psync reads", &["--rw=randread", "--direct=1"]),
    ("writes with fsync", &["--rw=randwrite", "--fsync=1", "--overwrite=1"]),
];
/// System calls of these programs.
const CALLS: [&str; 3] = ["pread64", "pwrite64", "fsync"];

/// Sums the time that threads of a process are in uninterruptible sleep.
const DISK: &str = r#"
tracepoint:sched:sched_switch /pid == PID && (args->prev_state & 2)/ { @slept[args->prev_pid] = nsecs; }
tracepoint:sched:sched_wakeup /@slept[args->pid]/ {
    @disk["all"] = sum(nsecs - @slept[args->pid]);
    delete(@slept[args->pid]);
}
interval:s:SECONDS { print(@disk); print(@took); print(@calls); exit(); }"#;
/// Sums the time that they are in a system call.
const CALL: &str = r#"
tracepoint:syscalls:sys_enter_NAME /pid == PID/ { @at[tid] = nsecs; }
tracepoint:syscalls:sys_exit_NAME /@at[tid]/ {
    @took["NAME"] = sum(nsecs - @at[tid]);
    @calls["NAME"] = count();
    delete(@at[tid]);
}"#;

/// Shares of time on a CPU, or waiting for one, of threads that sleep for different times.
pub fn states(seconds: u32) -> Result<Vec<Row>> {
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<JoinHandle<()>> =
        SLEEPS.iter().map(|(name, sleep)| sleeper(name, *sleep, &stop)).collect::<Result<_>>()?;
    let options = ThreadOptions {
        scope: Scope::Only(vec![i32::try_from(std::process::id())?]),
        ..ThreadOptions::default()
    };
    let sampled = sample(vec![Box::new(ThreadSampler::open(options)?)], RAN, seconds);
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

/// Share of its time that fio waits for the disk, and how long its system calls take.
pub fn waits(seconds: u32, data: &Path, name: &str, arguments: &[&str]) -> Result<Vec<Row>> {
    let mut load = Command::new("fio");
    load.args(["--output=/dev/null", "--name=a", "--ioengine=psync", "--bs=4k", "--thread"])
        .args(["--size=64m", "--time_based", "--runtime=3600"])
        .args(arguments)
        .arg(format!("--filename={}", data.display()));
    let load = Background::start(&mut load)?;
    // Past its start.
    thread::sleep(INTERVAL);
    let (samples, printed) = waits_of(load.id(), seconds)?;
    drop(load);
    let machines: Vec<&MachineSample> = samples.iter().map(|sample| &sample.machine).collect();
    let theirs = |map_name: &str, key: &str| {
        map(&printed, map_name).get(key).and_then(Value::as_f64).unwrap_or(0.0)
    };
    let mut groups = ThreadGroups::new(&[Column::State]);
    let threads = machines.iter().skip(1).filter_map(|machine| machine.threads.as_ref());
    threads.for_each(|threads| groups.add(threads));
    let groups = groups.largest_first();
    let ours = groups.iter().find(|group| group.values == ["D"]).map_or(0.0, |of| of.average);
    let share = theirs("@disk", "all") / 1e9 / f64::from(seconds);
    let mut rows = vec![Row::new(format!("{name}: waits for the disk"), ours, share, POINTS)];
    let calls = machines.iter().rev().find_map(|machine| machine.calls.as_ref());
    for of in calls.iter().flat_map(|calls| &calls.calls) {
        let mean = theirs("@took", &of.call) / theirs("@calls", &of.call).max(1.0) / 1e3;
        let count = of.latency.count();
        if mean > 0.0 && count > 0 {
            let ours = of.latency.sum_ns() as f64 / count as f64 / 1e3;
            let figure = format!("{name}: {}, mean µs of {count} sampled", of.call);
            rows.push(Row::new(figure, ours, mean, TENTH * mean));
        }
    }
    Ok(rows)
}

fn waits_of(pid: u32, seconds: u32) -> Result<(Vec<TimedSample>, Vec<Value>)> {
    let pid = i32::try_from(pid)?;
    let scope = Scope::Only(vec![pid]);
    let options = ThreadOptions { scope: scope.clone(), ..ThreadOptions::default() };
    let calls = CallSampler::open(Path::new("/proc"), Path::new("/sys"), &scope);
    let calls = calls.map_err(|missing| missing.to_string())?;
    let script: String = CALLS.map(|name| CALL.replace("NAME", name)).concat();
    let script = (script + DISK).replace("PID", &pid.to_string());
    sample(vec![Box::new(ThreadSampler::open(options)?), Box::new(calls)], &script, seconds)
}

/// Runs samplers and a script of bpftrace over the same seconds: the samples, the first of them taken when the script
/// began, and what the script printed.
fn sample(
    samplers: Vec<Box<dyn Sampler>>,
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
    let samples = sampled(samplers, INTERVAL, seconds)?;
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
