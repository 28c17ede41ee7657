//! What was counted of the machine or of processes, in words.

use fathom_analysis::derive;
use fathom_analysis::machine::{CounterRates, Work};
use fathom_model::record::Cost;
use fathom_model::units;
use fathom_model::watch::Missing;

/// Lines on all of it together: what was done, how the processor got on, what a disk's I/O took. None
/// where nothing is known that other lines do not tell.
pub(crate) fn lines(rates: &CounterRates) -> Vec<String> {
    let work = &rates.all;
    // Of processes nobody knows which of the disks' I/Os are theirs.
    let whose =
        if rates.of.iter().any(|of| of.pid.is_some()) { ", whoever asks for it" } else { "" };
    [done(work), executed(work), cache(work), per_io(work, whose)].into_iter().flatten().collect()
}

/// What processes did; of the machine, others tell it.
fn done(work: &Work) -> Option<String> {
    let mut parts = vec![format!("{:.2} processors in use", work.processors?)];
    let each_second =
        |name: &str, rate: Option<f64>| Some(format!("{} {name}/s", units::count(rate?)));
    parts.extend(each_second("context switches", work.context_switches));
    parts.extend(each_second("page faults", work.page_faults));
    Some(parts.join(" · "))
}

fn executed(work: &Work) -> Option<String> {
    let mut parts = vec![format!("{} instructions/s", units::count(work.instructions?))];
    parts.extend(ipc(work));
    parts.extend(work.ghz.map(|ghz| format!("{ghz:.2} GHz while busy")));
    let part = work.counted.filter(|part| *part < 99.95);
    parts.extend(part.map(|part| format!("estimates: counted for {part:.1}% of the time")));
    Some(parts.join(" · "))
}

fn ipc(work: &Work) -> Option<String> {
    match (work.ipc.all, work.ipc.user, work.ipc.kernel) {
        (Some(all), Some(user), Some(kernel)) => {
            Some(format!("IPC {all:.2} (user {user:.2}, kernel {kernel:.2})"))
        }
        (_, user, _) => Some(format!("IPC in user mode {:.2}", user?)),
    }
}

fn cache(work: &Work) -> Option<String> {
    let (event, references, misses) =
        (work.cache_event?, work.cache_references?, work.cache_misses?);
    let each =
        work.cache_mpki.map(|n| format!(", {n:.2} per 1000 instructions")).unwrap_or_default();
    let (name, references) = (event.name(), units::count(references));
    Some(format!("{references} {name}/s · {} misses/s{each}", units::count(misses)))
}

/// What an I/O took of the workers that did it.
pub(crate) fn per_io_of_worker(cost: &Cost, lacks: &[Missing]) -> String {
    let instructions = both(cost.user_instructions, cost.kernel_instructions);
    let cycles = both(cost.user_cycles, cost.kernel_cycles);
    let mut parts = vec![format!("{instructions} instructions, {cycles} cycles per I/O")];
    parts.extend(ipc_of_worker(cost));
    parts.extend(cost.cache.map(|cache| {
        let (references, event) = (cache.references, cache.event.name());
        format!("{references:.2} {event}, {:.2} misses per I/O", cache.misses)
    }));
    parts.extend(derive::estimated(cost).map(|part| {
        format!("estimates: the counters were free for {:.0}% of the time", part * 100.0)
    }));
    parts.extend(lacks.iter().map(|missing| format!("no {missing}")));
    let speed = cost.speed_ratio * 100.0;
    let window = units::time(cost.window_ns as f64);
    parts.join("; ") + &format!(" (in {window} of their own, at {speed:.0}% of the speed)")
}

fn both(user: f64, kernel: Option<f64>) -> String {
    match kernel {
        Some(kernel) => format!("{user:.0} user + {kernel:.0} kernel"),
        None => format!("{user:.0} user"),
    }
}

fn ipc_of_worker(cost: &Cost) -> Option<String> {
    let ipc = derive::ipc(cost);
    let user = ipc.user.map(|ipc| format!("{ipc:.2} user"));
    let kernel = ipc.kernel.map(|ipc| format!("{ipc:.2} kernel"));
    let modes: Vec<String> = user.into_iter().chain(kernel).collect();
    match ipc.all {
        Some(all) => Some(format!("IPC {all:.2} ({})", modes.join(", "))),
        None => modes.first().map(|user| format!("IPC {user}")),
    }
}

fn per_io(work: &Work, whose: &str) -> Option<String> {
    let per_io = work.per_io?;
    let count = |name: &str, each: Option<f64>| Some(format!("{} {name}", units::count(each?)));
    let time =
        per_io.task_clock_ns.map(|ns| format!("{} of processor time", units::time(ns.round())));
    let parts = [count("instructions", per_io.instructions), count("cycles", per_io.cycles), time];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("for each I/O of the disks{whose}: {}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_analysis::derive::Ipc;
    use fathom_analysis::machine::PerIo;
    use fathom_model::watch::CacheEvent;

    #[test]
    fn what_is_known_is_told() {
        let per_io =
            PerIo { instructions: Some(12_300.0), cycles: Some(9_000.0), ..PerIo::default() };
        let mut all = Work {
            instructions: Some(2.5e9),
            ipc: Ipc { all: Some(1.25), user: Some(2.0), kernel: Some(0.5) },
            ghz: Some(2.897),
            cache_event: Some(CacheEvent::LlcLoads),
            cache_references: Some(1e6),
            cache_misses: Some(250_000.0),
            cache_mpki: Some(0.1),
            counted: Some(100.0),
            per_io: Some(per_io),
            ..Work::default()
        };
        let told = |all: Work| lines(&CounterRates { all, of: Vec::new() });
        assert_eq!(
            told(all),
            [
                "2.5G instructions/s · IPC 1.25 (user 2.00, kernel 0.50) · 2.90 GHz while busy",
                "1M LLC-loads/s · 250k misses/s, 0.10 per 1000 instructions",
                "for each I/O of the disks: 12.3k instructions, 9k cycles",
            ]
        );
        all.ipc = Ipc { user: Some(2.0), ..Ipc::default() };
        all.counted = Some(5.0);
        let executed =
            "IPC in user mode 2.00 · 2.90 GHz while busy · estimates: counted for 5.0% of the time";
        assert!(told(all)[0].ends_with(executed), "{:?}", told(all));
    }

    #[test]
    fn of_a_machine_without_counters_nothing_is_told_twice() {
        let switches = Some(4000.0);
        let machine =
            Work { context_switches: switches, per_io: Some(PerIo::default()), ..Work::default() };
        assert_eq!(lines(&CounterRates { all: machine, of: Vec::new() }), [""; 0]);
        let clock = PerIo { task_clock_ns: Some(7100.4), ..PerIo::default() };
        let process =
            Work { processors: Some(0.5), page_faults: Some(12.0), per_io: Some(clock), ..machine };
        assert_eq!(
            lines(&CounterRates { all: process, of: Vec::new() }),
            [
                "0.50 processors in use · 4k context switches/s · 12 page faults/s",
                "for each I/O of the disks: 7.1 µs of processor time",
            ]
        );
    }
}
