use super::*;
use crate::doc::Document;
use crate::render::unwrapped;
use fathom_analysis::derive::Ipc;
use fathom_analysis::machine::PerIo;
use fathom_model::watch::CacheEvent;

fn shown(all: CpuWork) -> Vec<String> {
    let mut page = Document::default();
    lines(&CounterRates { all, of: Vec::new() }).into_iter().for_each(|line| page.paragraph(line));
    unwrapped(&page).lines().filter(|line| !line.is_empty()).map(String::from).collect()
}

#[test]
fn what_is_known_is_shown() {
    let per_io = PerIo { instructions: Some(12_300.0), cycles: Some(9_000.0) };
    let mut all = CpuWork {
        instructions: Some(2.5e9),
        ipc: Ipc { all: Some(1.25), user: Some(2.0), kernel: Some(0.5) },
        ghz: Some(2.897),
        cache_event: Some(CacheEvent::LlcLoads),
        cache_references: Some(1e6),
        cache_misses: Some(250_000.0),
        cache_mpki: Some(0.1),
        counted: Some(100.0),
        per_io: Some(per_io),
        ..CpuWork::default()
    };
    assert_eq!(
        shown(all),
        [
            "2.5G instructions/s · IPC 1.25 (user 2.00, kernel 0.50) · 2.90 GHz while busy",
            "1M LLC-loads/s · 250k misses/s (0.10 per 1000 instructions)",
            "12.3k instructions, 9k cycles per disk I/O",
        ]
    );
    all.ipc = Ipc { user: Some(2.0), ..Ipc::default() };
    all.counted = Some(5.0);
    let executed = "IPC 2.00 (user) · 2.90 GHz while busy · estimated: counted 5.00% of the time";
    assert!(shown(all)[0].ends_with(executed), "{:?}", shown(all));
}

#[test]
fn without_counters_nothing_is_repeated() {
    let switches = Some(4000.0);
    let machine = CpuWork {
        context_switches: switches,
        per_io: Some(PerIo::default()),
        ..CpuWork::default()
    };
    assert_eq!(shown(machine), [""; 0]);
    let process = CpuWork { cpus: Some(0.5), page_faults: Some(12.0), ..machine };
    assert_eq!(shown(process), ["0.50 CPUs used · 4k context switches/s · 12 page faults/s"]);
}
