//! The end of `fathom watch`: what was seen, in a few lines.

use crate::counters;
use crate::layers;
use crate::summary::Style;
use fathom_analysis::layers::LayerTimes;
use fathom_analysis::machine::{DiskRates, IoRates, MachineRates, SystemRates};
use fathom_analysis::watch::Seen;
use fathom_model::RunRecord;
use fathom_model::watch::{
    BlocksSample, DiskKind, Level, RingSample, RingsSample, SamplerCost, Stack, WatchRecord,
};
use fathom_model::{escape, shell, units};

/// Columns before the first figure.
const NAME: usize = 12;
/// Groups of threads that are shown.
const GROUPS_MAX: usize = 8;
/// A device with fewer I/Os in flight, on average and at its peak, and less of its time in use is left out.
const QUEUE_MIN: f64 = 0.005;

/// The text: a line or a few for each thing that was looked at.
#[must_use]
pub fn render(seen: &Seen, record: &RunRecord, stacks: &[Stack]) -> String {
    let none = WatchRecord::default();
    let watch = record.watch.as_ref().unwrap_or(&none);
    let rates = seen.rates();
    let mut lines = vec![head(seen, record, watch)];
    if let Some(system) = &rates.system {
        lines.extend(processors(system, seen));
        lines.extend(memory(system));
    }
    lines.extend(disks(&rates, seen));
    lines.extend(threads(seen));
    lines.extend(layer_shares(seen, stacks));
    lines.extend(counted(&rates));
    lines.extend(seen.last().blocks.iter().flat_map(blocks));
    lines.extend(seen.last().rings.iter().flat_map(rings));
    lines.extend(cost(seen, watch));
    lines.extend(joined_row(watch));
    lines.extend(watch.missing.iter().map(|missing| row("not seen", &missing.to_string())));
    lines.join("\n") + "\n"
}

/// The same beside a run of fathom's own: what it did to the machine, in front of it a free line.
/// Empty where nothing was seen.
#[must_use]
pub fn beside(seen: &Seen, record: &RunRecord, stacks: &[Stack], style: Style) -> String {
    let Some(watch) = record.watch.as_ref().filter(|_| seen.samples > 1) else {
        return String::new();
    };
    let full = watch.level == Level::Full;
    let rates = seen.rates();
    let mut lines: Vec<String> = rates.system.iter().flat_map(|s| processors(s, seen)).collect();
    if full {
        lines.extend(counted(&rates));
        lines.extend(threads(seen));
        lines.extend(seen.last().blocks.iter().flat_map(blocks));
        lines.extend(seen.last().rings.iter().flat_map(rings));
    }
    if let Some(samples) = seen.stacks() {
        let times = LayerTimes::of([&samples], stacks, |_| true);
        // Samples begin and end with the watching, which is not all of the run.
        let ios = watched_ios(seen, record);
        lines.extend(layers::render(&times, ios, style).lines().map(String::from));
    }
    lines.extend(cost(seen, watch));
    lines.extend(joined_row(watch));
    let names: Vec<&str> = watch.missing.iter().map(|missing| missing.what.as_str()).collect();
    if !names.is_empty() {
        let text = "record.json says why and what would allow it";
        lines.push(row("not seen", &format!("{}; {text}", names.join(", "))));
    }
    format!("\n{}\n", lines.join("\n"))
}

/// I/Os that were done while the machine was watched, by the mean speed of the run.
fn watched_ios(seen: &Seen, record: &RunRecord) -> Option<u64> {
    let ios: u64 = record.jobs.iter().map(fathom_analysis::derive::ios).sum();
    let share = seen.elapsed_ns as f64 / record.elapsed_ns.max(1) as f64;
    Some((ios as f64 * share.min(1.0)) as u64).filter(|ios| *ios > 0)
}

fn joined_row(watch: &WatchRecord) -> Option<String> {
    let number = watch.intervals_joined;
    (number > 0).then(|| row("late", &joined(number)))
}

/// What is to be said of intervals that have no sample of their own.
#[must_use]
pub fn joined(number: u64) -> String {
    format!(
        "{number} intervals joined with those that follow: samples, or the disk that keeps them, were \
         too slow"
    )
}

/// A line with its name in front.
fn row(name: &str, text: &str) -> String {
    format!("{:<NAME$}{}", escape::text(name), escape::text(text))
}

fn head(seen: &Seen, record: &RunRecord, watch: &WatchRecord) -> String {
    let interval = units::time(watch.interval_ns as f64);
    let samples = format!("{} samples, one every {interval}", seen.samples);
    match &watch.command {
        Some(command) => {
            let time = units::time(command.elapsed_ns as f64);
            let ended = match command.status {
                Some(status @ 129..) => format!("ended by signal {}", status - 128),
                Some(status) => format!("exit status {status}"),
                None => "did not end".to_string(),
            };
            let words: Vec<_> = command.argv.iter().map(|word| shell::quoted(word)).collect();
            row("command", &format!("{} · {time} · {ended} · {samples}", words.join(" ")))
        }
        None => {
            // A record that could not be ended knows less than its samples do.
            let time = units::time(record.elapsed_ns.max(seen.elapsed_ns) as f64);
            let pids: Vec<String> = watch.pids.iter().map(i32::to_string).collect();
            let whom = match pids.len() {
                0 => "the machine".to_string(),
                _ => format!("process {} and what descends from it", pids.join(", ")),
            };
            row("watched", &format!("{whom} for {time} · {samples}"))
        }
    }
}

fn processors(system: &SystemRates, seen: &Seen) -> Vec<String> {
    let cpu = &system.cpu;
    let parts = [
        ("user", cpu.user),
        ("nice", cpu.nice),
        ("system", cpu.system),
        ("irq", cpu.irq),
        ("softirq", cpu.softirq),
        ("iowait", cpu.iowait),
        ("steal", cpu.steal),
        ("idle", cpu.idle),
    ];
    // What rounds to nothing is left out.
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, share)| *share >= 0.05)
        .map(|(name, share)| format!("{name} {share:.1}%"))
        .collect();
    let busy = format!("busy {:.1}% (at most {:.1}% in an interval)", cpu.busy(), seen.busy_max);
    let switches = units::count(system.context_switches);
    let interrupts = units::count(system.interrupts);
    let mut lines =
        vec![row("processors", &format!("{} · {busy}: {}", system.cpus.len(), parts.join(", ")))];
    let busiest = system.cpus.iter().max_by(|a, b| a.shares.busy().total_cmp(&b.shares.busy()));
    if let Some(busiest) = busiest.filter(|_| system.cpus.len() > 1) {
        lines.push(row(
            "",
            &format!(
                "busiest: {} with {:.1}% · {switches} context switches/s · {interrupts} interrupts/s",
                busiest.cpu,
                busiest.shares.busy()
            ),
        ));
    }
    lines
}

fn memory(system: &SystemRates) -> Vec<String> {
    let memory = &system.memory;
    let now = format!(
        "{} of {} available · cache {} · dirty {}",
        units::bytes(memory.available),
        units::bytes(memory.total),
        units::bytes(memory.cache),
        units::bytes(memory.dirty)
    );
    let mut lines = vec![row("memory", &now)];
    if let Some(pressure) = &system.pressure {
        let stalls = [
            ("processor", pressure.cpu.some),
            ("memory", pressure.memory.some),
            ("I/O", pressure.io.some),
        ];
        let stalls: Vec<String> = stalls
            .iter()
            .filter(|(_, share)| *share >= 0.05)
            .map(|(name, share)| format!("{name} {share:.1}%"))
            .collect();
        if !stalls.is_empty() {
            let text = format!("of the time some task waited for: {}", stalls.join(", "));
            lines.push(row("stalls", &text));
        }
    }
    lines
}

fn disks(rates: &MachineRates, seen: &Seen) -> Vec<String> {
    let peak = |disk: &DiskRates| seen.queue_max.get(&disk.name).copied().unwrap_or_default();
    let mut worked: Vec<&DiskRates> = rates
        .disks
        .iter()
        // A partition's work is its disk's.
        .filter(|disk| disk.kind != DiskKind::Partition)
        .filter(|disk| disk.queue.max(peak(disk)) >= QUEUE_MIN || disk.util >= 0.05)
        .collect();
    worked.sort_by(|a, b| b.queue.total_cmp(&a.queue));
    let line = |disk: &&DiskRates| {
        let parts = [("r", &disk.read), ("w", &disk.write), ("d", &disk.discard)];
        let mut text: Vec<String> =
            parts.iter().filter(|(_, io)| io.ios > 0.0).map(|(name, io)| way(name, io)).collect();
        text.push(format!("in flight {:.2} (at most {:.2})", disk.queue, peak(disk)));
        text.push(format!("util {:.1}%", disk.util));
        row(&disk.name, &text.join(" · "))
    };
    worked.iter().map(line).collect()
}

fn way(name: &str, io: &IoRates) -> String {
    let wait = io.wait_ms.map_or(String::new(), |ms| format!(" {}", units::time(ms * 1e6)));
    format!("{name} {}/s {}{wait}", units::count(io.ios), units::bandwidth(io.bytes))
}

fn threads(seen: &Seen) -> Vec<String> {
    let groups = seen.threads();
    let total: f64 = groups.iter().map(|(_, mean)| mean).sum();
    if groups.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![row("threads", &format!("{total:.2} active on average"))];
    for (doing, mean) in groups.iter().take(GROUPS_MAX) {
        let place = [doing.syscall.as_str(), doing.wchan.as_str()].join("  ");
        let text = format!(
            "{mean:>6.2}  {:<16} {}  {}",
            escape::text(&doing.comm),
            doing.state,
            place.trim()
        );
        lines.push(row("", text.trim_end()));
    }
    if let Some(rest) = groups.get(GROUPS_MAX..).filter(|rest| !rest.is_empty()) {
        let mean: f64 = rest.iter().map(|(_, mean)| mean).sum();
        lines.push(row("", &format!("{mean:>6.2}  in {} other groups", rest.len())));
    }
    lines
}

/// What was counted, a line for each kind of figure.
fn counted(rates: &MachineRates) -> Vec<String> {
    let lines = rates.counters.as_ref().map(counters::lines).unwrap_or_default();
    let name = |place| if place == 0 { "counted" } else { "" };
    lines.iter().enumerate().map(|(place, text)| row(name(place), text)).collect()
}

/// Busy time of processors by layer, the largest first.
fn layer_shares(seen: &Seen, stacks: &[Stack]) -> Option<String> {
    let samples = seen.stacks()?;
    let times = LayerTimes::of([&samples], stacks, |_| true);
    let mut parts: Vec<_> = times.layers.iter().collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.time));
    let parts: Vec<String> = parts
        .iter()
        .map(|part| (part.layer.name(), times.share(part.layer) * 100.0))
        .filter(|(_, share)| *share >= 1.0)
        .map(|(name, share)| format!("{name} {share:.0}%"))
        .collect();
    let lost = if samples.lost > 0 { format!(" · {} lost", samples.lost) } else { String::new() };
    (times.samples > 0).then(|| {
        let text = format!("{} · {} samples{lost}", parts.join(", "), times.samples);
        row("layers", &text)
    })
}

fn blocks(blocks: &BlocksSample) -> Vec<String> {
    let mut lines = Vec::new();
    let unplugs: u64 = blocks.unplugs.iter().map(|(_, unplugs)| unplugs).sum();
    if unplugs > 0 {
        let parts = sizes(&blocks.unplugs);
        lines.push(row("unplugs", &format!("{} by requests let go: {parts}", whole(unplugs))));
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
        let parts = counts.iter().filter(|(_, count)| *count > 0);
        let mut parts: Vec<String> =
            parts.map(|(name, count)| format!("{name} {}", whole(*count))).collect();
        let times = [("in the queue", &device.queue), ("at the driver", &device.driver)];
        let unseen = device.ends_unseen();
        let told = if unseen.is_some() { &times[..1] } else { &times[..] };
        parts.extend(told.iter().filter_map(|(name, times)| {
            let median = units::time(times.percentile(50.0)? as f64);
            Some(format!("{name} p50 {median}"))
        }));
        parts.extend(unseen.map(|unseen| {
            let all = whole(device.queue.count());
            format!("at the driver not told: of {} of {all} the end was not seen", whole(unseen))
        }));
        if !parts.is_empty() {
            lines.push(row("blocks", &format!("{}: {}", device.name, parts.join(", "))));
        }
    }
    lines
}

fn rings(rings: &RingsSample) -> Vec<String> {
    let line = |ring: &RingSample| {
        let mut parts = vec![format!("process {} descriptor {}", ring.pid, ring.fd)];
        parts.extend(ring.queues.map(|queues| {
            let (sq, cq) = (queues.sq_entries, queues.cq_entries);
            format!("{sq} places for submissions, {cq} for completions")
        }));
        let poll = ring.sq_poll.and_then(|poll| poll.work_us.zip(poll.total_us));
        parts.extend(poll.filter(|(_, total)| *total > 0).map(|(work, total)| {
            format!("SQPOLL had work in {:.0}% of its time", work as f64 * 100.0 / total as f64)
        }));
        row("ring", &parts.join(" · "))
    };
    let mut lines: Vec<String> = rings.rings.iter().take(GROUPS_MAX).map(line).collect();
    let Some(events) = &rings.events else { return lines };
    let punted =
        if events.punted_estimated { "punted to io-wq, by estimate" } else { "punted to io-wq" };
    let counts = [(punted, events.punted), ("completions that found no place", events.overflows)];
    let counts = counts.iter().filter_map(|(name, count)| Some((name, (*count)?)));
    let mut parts: Vec<String> = counts
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{} {name}", whole(count)))
        .collect();
    if events.task_work.iter().any(|(_, runs)| *runs > 0) {
        parts.push(format!("task work by requests in a run: {}", sizes(&events.task_work)));
    }
    if !parts.is_empty() {
        lines.push(row("io_uring", &parts.join(" · ")));
    }
    lines
}

/// Counts by size, as `1+ 40%, 32+ 60%`: each size is the least of those that are counted together.
fn sizes(counts: &[(u32, u64)]) -> String {
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let part = |(size, count): &(u32, u64)| {
        let share = *count as f64 * 100.0 / all.max(1) as f64;
        (share >= 0.5).then(|| format!("{size}+ {share:.0}%"))
    };
    counts.iter().filter_map(part).collect::<Vec<_>>().join(", ")
}

fn whole(count: u64) -> String {
    units::count(count as f64)
}

fn cost(seen: &Seen, watch: &WatchRecord) -> Option<String> {
    let share = |ns: u64| ns as f64 * 100.0 / seen.elapsed_ns.max(1) as f64;
    let all: u64 = watch.cost.iter().map(|cost| cost.cpu_ns).sum();
    let missed: u64 = watch.cost.iter().map(|cost| cost.missed).sum();
    let mut parts: Vec<&SamplerCost> = watch.cost.iter().collect();
    parts.sort_by_key(|cost| std::cmp::Reverse(cost.cpu_ns));
    let parts: Vec<String> =
        parts.iter().map(|c| format!("{} {:.2}%", c.sampler, share(c.cpu_ns))).collect();
    let late = if missed > 0 { format!(" · {missed} looks came too late") } else { String::new() };
    (!parts.is_empty()).then(|| {
        let text = format!("{:.2}% of one processor: {}{late}", share(all), parts.join(", "));
        row("watching", &text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::progress::Sample;
    use fathom_model::watch::{
        CommandRecord, CpuSample, DiskCounters, IoCounters, MachineSample, Missing, RingEvents,
        StackCount, StacksSample, SystemSample, ThreadCount, ThreadsSample,
    };

    /// The machine after a second: one processor half busy, a disk with 100 reads of 4 KiB.
    fn sample(second: u64) -> Sample {
        let cpu = CpuSample { system: 50 * second, idle: 50 * second, ..CpuSample::default() };
        let read = IoCounters {
            ios: 100 * second,
            sectors: 800 * second,
            ticks_ms: 100 * second as u32,
            ..IoCounters::default()
        };
        let disk = DiskCounters {
            name: "sda".into(),
            read,
            busy_ms: 100 * second as u32,
            weighted_ms: 100 * second as u32,
            ..DiskCounters::default()
        };
        let doing = ThreadCount {
            comm: "db-1".into(),
            state: 'D',
            syscall: "pread64".into(),
            count: 10,
            ..ThreadCount::default()
        };
        let place = StackCount { count: 50, period: 50, ..StackCount::default() };
        let task_work = vec![(1, 0), (2, 0)];
        let events =
            RingEvents { punted: Some(7), overflows: Some(0), task_work, ..RingEvents::default() };
        let machine = MachineSample {
            system: Some(SystemSample { cpus: vec![cpu], ..SystemSample::default() }),
            disks: vec![disk],
            threads: Some(ThreadsSample {
                looks: 20,
                seen: 40,
                active: vec![doing],
                ..ThreadsSample::default()
            }),
            stacks: Some(StacksSample { counts: vec![place], ..StacksSample::default() }),
            blocks: Some(BlocksSample {
                unplugs: vec![(1, 1), (32, 3)],
                ..BlocksSample::default()
            }),
            rings: Some(RingsSample { events: Some(events), ..RingsSample::default() }),
            ..MachineSample::default()
        };
        Sample { elapsed_ns: second * 1_000_000_000, machine, ..Sample::default() }
    }

    #[test]
    fn all_that_was_seen_is_told() {
        let mut seen = Seen::default();
        (0..3).for_each(|second| seen.add(&sample(second)));
        let missing = Missing { what: "x".into(), why: "y".into(), allow: String::new() };
        let cost =
            SamplerCost { sampler: "threads".into(), cpu_ns: 20_000_000, ..SamplerCost::default() };
        let command = CommandRecord {
            argv: vec!["db".into(), "-c x y".into()],
            elapsed_ns: 2_000_000_000,
            status: Some(137),
        };
        let watch = WatchRecord {
            interval_ns: 1_000_000_000,
            command: Some(command),
            cost: vec![cost],
            missing: vec![missing],
            intervals_joined: 7,
            ..WatchRecord::default()
        };
        let record = RunRecord { watch: Some(watch), ..RunRecord::default() };
        let text = render(&seen, &record, &[]);
        let wanted = [
            "late        7 intervals joined",
            "command     db '-c x y' · 2 s · ended by signal 9 · 3 samples, one every 1 s",
            "busy 50.0%",
            "sda         r 100/s 400 KiB/s 1 ms · in flight 0.10 (at most 0.10) · util 10.0%",
            "threads     0.50 active on average",
            "  0.50  db-*             D  pread64",
            "· 150 samples",
            "unplugs     4 by requests let go: 1+ 25%, 32+ 75%",
            "io_uring    7 punted to io-wq\n",
            "watching    1.00% of one processor: threads 1.00%",
            "not seen    x: y",
        ];
        for part in wanted {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }

    #[test]
    fn nothing_seen_is_told_in_one_line() {
        let record = RunRecord { elapsed_ns: 5_000_000_000, ..RunRecord::default() };
        let text = render(&Seen::default(), &record, &[]);
        assert_eq!(text, "watched     the machine for 5 s · 0 samples, one every 0 ns\n");
    }
}
