use super::*;
use crate::render::{assert_fits, unwrapped};
use fathom_analysis::machine::RingEventRates;
use fathom_model::watch::{RingQueues, RingSample, SqPollThread};

fn ring() -> RingSample {
    RingSample {
        pid: 4711,
        comm: "fathom".into(),
        fd: 9,
        processes: 1,
        queues: Some(RingQueues {
            sq_entries: 32,
            cq_entries: 64,
            cq_ready: 3,
            overflowed: 2,
            ..RingQueues::default()
        }),
        ..RingSample::default()
    }
}

#[test]
fn a_ring_in_a_line() {
    let busy = RingRates {
        ring: RingSample { setup_flags: Some(0x3000), ..ring() },
        submitted: Some(223_000.0),
        in_kernel: Some(29),
        ..RingRates::default()
    };
    let thread = SqPollThread { thread: 1973, ..SqPollThread::default() };
    let polled = RingRates {
        ring: RingSample { sq_poll: Some(thread), queues: None, processes: 2, ..ring() },
        sq_busy: Some(0.42),
        sq_cpu: Some(1.0),
        ..RingRates::default()
    };
    let events = RingEventRates {
        punted: Some(10.0),
        overflows: None,
        task_work: vec![(1, 2000.0), (32, 1.0)],
    };
    let rates = RingsRates { rings: vec![busy, polled], workers: 4, events: Some(events) };
    let wanted = "\
ring       fathom 4711 fd 9 · SQ/CQ 32/64 entries · 223k submitted/s · 29 in the kernel · 0 in SQ · 3 in CQ · \
2 overflowed · SINGLE_ISSUER DEFER_TASKRUN
ring       fathom 4711 fd 9 · shared by 2 processes · queues not available (locked at every sample) · \
SQPOLL thread 1973 busy 42.0% of 1.00 CPUs
task work  completions per run 1–31: 2k/s · 32+: 1/s
";
    let page = |rates: &RingsRates| {
        let mut page = Document::default();
        rings(&mut page, rates);
        page
    };
    assert_eq!(unwrapped(&page(&rates)), wanted);
    assert_fits(&page(&rates));
    assert_eq!(unwrapped(&page(&RingsRates::default())), "");
}

#[test]
fn a_device_in_a_line() {
    let counts = |of: &[(u32, u64)]| -> Vec<CpuCount> {
        let all: u64 = of.iter().map(|(_, count)| count).sum();
        let share = |count: u64| count as f64 / all as f64;
        of.iter()
            .map(|(cpu, count)| CpuCount { cpu: *cpu, count: *count, share: share(*count) })
            .collect()
    };
    let wide = SubmitPlacement {
        device: "nvme0n1".into(),
        interrupts: counts(&[(0, 50), (1, 20), (2, 10), (3, 10), (4, 5), (5, 5)]),
        submitted: counts(&[(0, 9000)]),
        common: Some(0.5),
    };
    let polled = SubmitPlacement { submitted: counts(&[(7, 12)]), ..SubmitPlacement::default() };
    let interrupts = "nvme0n1  interrupts 100: CPU 0 50.0%, CPU 1 20.0%, CPU 2 10.0%, CPU 3 10.0%, \
                      2 others 10.0%";
    assert_eq!(
        unwrapped(&placement(std::slice::from_ref(&wide))),
        format!("{interrupts} · submitted CPU 0 100% · 50.0% on the same CPU\n")
    );
    let unknown = SubmitPlacement { submitted: Vec::new(), common: None, ..wide };
    let text = unwrapped(&placement(&[polled, unknown]));
    let interrupts = interrupts.replacen("nvme0n1", "nvme0n1    ", 1);
    assert_eq!(
        text,
        format!("all devices  interrupts none · submitted CPU 7 100%\n{interrupts}\n")
    );
}
