use super::*;
use crate::render::{assert_fits, unwrapped};
use fathom_analysis::threads::ThreadGroups;
use fathom_model::watch::{SamplerCost, ThreadCount, ThreadsSample, Unavailable};
use serde_json::Value;

fn thread(comm: &str, state: char, syscall: &str, count: u32) -> ThreadCount {
    let (comm, syscall) = (comm.into(), syscall.into());
    ThreadCount { comm, state, syscall, count, ..ThreadCount::default() }
}

fn groups() -> ThreadGroups {
    let mut groups = ThreadGroups::new(&[Column::Comm, Column::State, Column::Syscall]);
    let active = vec![
        thread("fio", 'S', "io_uring_enter", 150),
        thread("cc", 'Q', "", 40),
        thread("cc", 'R', "", 10),
    ];
    groups.add(&ThreadsSample { samples: 100, seen: 10_000, active, ..ThreadsSample::default() });
    groups
}

fn report<'a>(
    groups: &'a ThreadGroups,
    cost: &'a SamplerCost,
    missing: &'a [Unavailable],
) -> Report<'a> {
    let (rows, all_states) = (2, false);
    let (unix_ns, total) = (1, true);
    Report {
        unix_ns,
        total,
        seconds: 5.0,
        hz: 20,
        groups,
        cost,
        missing,
        rows,
        all_states,
        verbose: true,
    }
}

#[test]
fn groups_and_footer() {
    let groups = groups();
    let cost = SamplerCost { cpu_ns: 50_000_000, samples: 100, missed: 0, ..Default::default() };
    let missing = [Unavailable { source: "a".into(), reason: "b".into(), remedy: "c".into() }];
    let report = report(&groups, &cost, &missing);
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
    let interval = Report { total: false, ..report };
    assert!(!unwrapped(&threads(&interval)).contains("overhead"));
}

#[test]
fn late_and_torn_samples_are_reported() {
    let mut groups = ThreadGroups::new(&[Column::Wchan]);
    let torn = ThreadCount { torn: true, ..thread("fio", 'D', "", 1) };
    let active = vec![torn, thread("fio", 'D', "", 99)];
    groups.add(&ThreadsSample { samples: 100, seen: 100, active, ..ThreadsSample::default() });
    let cost = SamplerCost { missed: 3, samples: 97, ..Default::default() };
    let page = unwrapped(&threads(&report(&groups, &cost, &[])));
    assert!(page.contains("3 of 100 samples were late"), "{page}");
    assert!(page.contains("inconsistent samples  1.00% (the thread"), "{page}");
}

#[test]
fn json_holds_all_groups() {
    let groups = groups();
    let cost = SamplerCost { cpu_ns: 50_000_000, samples: 100, ..Default::default() };
    let value: Value = serde_json::from_str(&report(&groups, &cost, &[]).json()).unwrap();
    assert_eq!(value["groups"].as_array().unwrap().len(), 3);
    assert_eq!(value["groups"][0]["syscall"], "io_uring_enter");
    assert_eq!(value["groups"][0]["average"], 1.5);
    assert_eq!((&value["unix_ns"], &value["total"]), (&1.into(), &true.into()));
    assert_eq!(value["cost"]["us_per_thread_sample"], 5.0);
}

#[test]
fn no_samples_make_a_page_without_a_table() {
    let groups = ThreadGroups::new(&[Column::Comm]);
    let cost = SamplerCost::default();
    let page = unwrapped(&threads(&report(&groups, &cost, &[])));
    assert!(page.starts_with("5 s, 0 samples, 0 threads, mean active threads 0.00\n"), "{page}");
    assert!(page.contains("sampling overhead  0 ns") && !page.contains("comm"), "{page}");
}
