use super::*;
use crate::render::{assert_fits, unwrapped};
use fathom_analysis::watch::Observed;
use fathom_model::progress::Sample;
use fathom_model::record::Header;
use fathom_model::watch::{
    MachineSample, SampledView, SamplerCost, ThreadCount, ThreadsSample, Unavailable,
};
use serde_json::Value;
use std::sync::LazyLock;

fn thread(comm: &str, state: char, syscall: &str, count: u32) -> ThreadCount {
    let (comm, syscall) = (comm.into(), syscall.into());
    ThreadCount { comm, state, syscall, count, ..ThreadCount::default() }
}

/// Five seconds in which `sample` was taken.
fn observed(columns: &str, sample: ThreadsSample, cost: SamplerCost) -> Observed {
    let view = SampledView::Threads {
        group_by: columns.split(',').map(String::from).collect(),
        hz: 20,
        all_states: false,
        rows: 2,
        interval_ns: None,
    };
    let mut observed = Observed::of(Some(&view));
    observed.add(&Sample::default());
    let machine =
        MachineSample { threads: Some(sample), cost: vec![cost], ..MachineSample::default() };
    let (elapsed_ns, unix_ns) = (5_000_000_000, 1);
    observed.add(&Sample { elapsed_ns, unix_ns, machine, ..Sample::default() });
    observed
}

fn three_groups(cost: SamplerCost) -> Observed {
    let active = vec![
        thread("fio", 'S', "io_uring_enter", 150),
        thread("cc", 'Q', "", 40),
        thread("cc", 'R', "", 10),
    ];
    let sample = ThreadsSample { samples: 100, seen: 10_000, active, ..ThreadsSample::default() };
    observed("comm,state,syscall", sample, cost)
}

fn report<'a>(observed: &'a Observed, missing: &'a [Unavailable]) -> Report<'a> {
    static HEADER: LazyLock<Header> = LazyLock::new(Header::default);
    let header = Some(&*HEADER);
    Report { header, observed, hz: 20, rows: 2, all_states: false, missing, verbose: true }
}

#[test]
fn groups_and_footer() {
    let cost = SamplerCost { cpu_ns: 50_000_000, samples: 100, missed: 0, ..Default::default() };
    let missing = [Unavailable { source: "a".into(), reason: "b".into(), remedy: "c".into() }];
    let observed = three_groups(cost);
    let report = report(&observed, &missing);
    let want = "\
5 s, 100 samples, 100 threads, mean active threads 2.00

active  share                   comm           state              syscall
  1.50  75.0%  ███████████████  fio            S waiting for I/O  io_uring_enter
  0.40  20.0%  ████             cc             Q runnable         -
  0.10                          1 other group

sampling overhead  5 µs of CPU time per thread sample, 1.00% of one CPU
not measured       a: b; c
";
    assert_eq!(unwrapped(&threads(&report)), want);
    assert_fits(&threads(&report));
    let interval = Report { header: None, ..report };
    assert!(!unwrapped(&threads(&interval)).contains("overhead"));
}

#[test]
fn late_and_torn_samples_are_reported() {
    let torn = ThreadCount { torn: true, ..thread("fio", 'D', "", 1) };
    let active = vec![torn, thread("fio", 'D', "", 99)];
    let sample = ThreadsSample { samples: 100, seen: 100, active, ..ThreadsSample::default() };
    let cost = SamplerCost { missed: 3, samples: 97, ..Default::default() };
    let page = unwrapped(&threads(&report(&observed("wchan", sample, cost), &[])));
    assert!(page.contains("3 of 100 samples were late"), "{page}");
    assert!(page.contains("inconsistent samples  1.00% (the thread"), "{page}");
}

#[test]
fn json_holds_all_groups() {
    let cost = SamplerCost { cpu_ns: 50_000_000, samples: 100, ..Default::default() };
    let json = report(&three_groups(cost), &[]).json().unwrap();
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["groups"].as_array().unwrap().len(), 3);
    assert_eq!(value["groups"][0]["syscall"], "io_uring_enter");
    assert_eq!(value["groups"][0]["average"], 1.5);
    assert_eq!((&value["unix_ns"], &value["total"]), (&1.into(), &true.into()));
    assert_eq!(value["cost"]["us_per_thread_sample"], 5.0);
}

#[test]
fn no_samples_make_a_page_without_a_table() {
    let observed = observed("comm", ThreadsSample::default(), SamplerCost::default());
    let page = unwrapped(&threads(&report(&observed, &[])));
    assert!(page.starts_with("5 s, 0 samples, 0 threads, mean active threads 0.00\n"), "{page}");
    assert!(page.contains("sampling overhead  0 ns") && !page.contains("comm"), "{page}");
}
