//! Hardware and software counters of the machine, of processes and of workers.

use super::parts;
use crate::doc::{Text, count, named, number, of, percent, text, time};
use fathom_analysis::derive;
use fathom_analysis::machine::{CounterRates, CpuWork};
use fathom_model::record::Cost;

/// Entries on all of it together: CPU use, execution, cache misses, cost per I/O. None where other entries print
/// all that is known.
pub(super) fn lines(rates: &CounterRates) -> Vec<Text> {
    let work = &rates.all;
    [used(work), executed(work), cache(work), per_io(work)].into_iter().flatten().collect()
}

fn per_second(name: &str, rate: Option<f64>) -> Text {
    rate.map(|rate| of(count(rate), &format!("{name}/s"))).into()
}

fn used(work: &CpuWork) -> Option<Text> {
    let used = of(number(work.cpus?), "CPUs used");
    let switches = per_second("context switches", work.context_switches);
    Some(parts([used, switches, per_second("page faults", work.page_faults)]))
}

fn executed(work: &CpuWork) -> Option<Text> {
    let instructions = per_second("instructions", Some(work.instructions?));
    let clock = work.ghz.map(|ghz| of(number(ghz), "GHz while busy")).into();
    let counted = work.counted.filter(|part| *part < 99.95);
    let counted = counted.map(|part| text!("estimated: counted ", percent(part), " of the time"));
    Some(parts([instructions, ipc(&work.ipc), clock, counted.into()]))
}

fn ipc(ipc: &derive::Ipc) -> Text {
    let modes = [("user", ipc.user), ("kernel", ipc.kernel)];
    let mode = |(name, ipc): (&str, Option<f64>)| Some(named(name, number(ipc?)));
    match (ipc.all, ipc.user) {
        (Some(all), _) => {
            let modes = Text::join(modes.into_iter().filter_map(mode), ", ");
            text!(named("IPC", number(all)), " (", modes, ")")
        }
        (None, Some(user)) => named("IPC", of(number(user), "(user)")),
        (None, None) => Text::default(),
    }
}

fn cache(work: &CpuWork) -> Option<Text> {
    let (event, references) = (work.cache_event?, work.cache_references?);
    let misses = per_second("misses", Some(work.cache_misses?));
    let each = work.cache_mpki.map(|n| text!(" (", number(n), " per 1000 instructions)"));
    Some(parts([per_second(event.name(), Some(references)), text!(misses, each)]))
}

pub(super) fn per_io_of_worker(cost: &Cost) -> Text {
    let all = [
        text!(both(cost.user_instructions, cost.kernel_instructions), " instructions per I/O"),
        text!(both(cost.user_cycles, cost.kernel_cycles), " cycles per I/O"),
        ipc(&derive::ipc(cost)),
        cost.cache
            .map(|cache| {
                let references = of(number(cache.references), cache.event.name());
                text!(references, ", ", of(number(cache.misses), "misses"), " per I/O")
            })
            .into(),
        derive::estimated(cost)
            .map(|part| text!("estimated: counted ", percent(part * 100.0), " of the time"))
            .into(),
        text!(
            "separate window of ",
            time(cost.window_ns as f64),
            " at ",
            percent(cost.speed_ratio * 100.0),
            " of the measured IOPS"
        ),
    ];
    parts(all)
}

fn both(user: f64, kernel: Option<f64>) -> Text {
    let kernel = kernel.map(|kernel| text!(" + ", of(count(kernel.round()), "kernel")));
    text!(of(count(user.round()), "user"), kernel)
}

fn per_io(work: &CpuWork) -> Option<Text> {
    let per_io = work.per_io?;
    let spent = [
        per_io.instructions.map(|n| of(count(n), "instructions")),
        per_io.cycles.map(|n| of(count(n), "cycles")),
    ];
    let spent = Text::join(spent.into_iter().flatten(), ", ");
    (!spent.is_empty()).then(|| text!(spent, " per disk I/O"))
}

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
