use super::*;
use fathom_model::prediction::{Cpus, Memory, PcieLink};
use fathom_model::window::Rw;

fn link(text: &str) -> Option<PcieLink> {
    Some(text.parse().unwrap())
}

fn figure(value: f64) -> Option<Range> {
    Some(Range::exactly(value))
}

fn disks(name: &str, count: u32, on: Option<&str>) -> Disks {
    Disks {
        name: name.into(),
        count,
        on: on.map(Into::into),
        read_iops: figure(1e6),
        write_iops: figure(5e5),
        read_bw: figure(7e9),
        write_bw: figure(5e9),
        ..Disks::default()
    }
}

fn part(name: &str, on: Option<&str>, bandwidth: f64) -> Part {
    Part {
        name: name.into(),
        on: on.map(Into::into),
        bandwidth: figure(bandwidth),
        ..Part::default()
    }
}

fn large() -> Workload {
    Workload { bs: 1 << 20, ..Workload::default() }
}

/// Eight disks of 7 GB/s below a root complex of 30 GB/s, and one that is free.
fn crowded() -> Machine {
    Machine {
        parts: vec![
            part("full", None, 30e9),
            part("a", Some("full"), 27e9),
            part("b", Some("full"), 27e9),
            part("free", None, 30e9),
        ],
        disks: vec![disks("disks of a", 4, Some("a")), disks("disks of b", 4, Some("b"))],
        ..Machine::default()
    }
}

fn bytes(prediction: &Prediction) -> f64 {
    prediction.bytes_per_second.high.round()
}

#[test]
fn the_tightest_part_on_the_way_is_the_limit_and_moving_disks_away_helps() {
    let found = predict(&crowded(), &large());
    assert_eq!((bytes(&found), found.limited_by.as_slice()), (30e9, &["full".to_string()][..]));
    // What passes each part adds up.
    let passes = |name: &str| {
        let load = found.parts.iter().find(|load| load.name == name).unwrap();
        (load.iops.unwrap().high * 1048576.0).round()
    };
    assert_eq!(passes("full"), 30e9);
    assert_eq!(passes("a") + passes("b"), 30e9);
    assert_eq!(passes("disks of a"), 15e9);
    let step = &found.next_steps[0];
    assert_eq!(step.change, "move a to free");
    assert_eq!((step.iops.high * 1048576.0).round(), 54e9);
    assert_eq!(step.limited_by, ["b", "a"].map(String::from).to_vec());
}

#[test]
fn cpus_by_workers_and_cores() {
    let cpu = Cpus {
        cores: Some(16),
        clock_ghz: figure(3.9),
        cycles_per_io: figure(8666.0),
        ..Cpus::default()
    };
    let machine = Machine { cpu, disks: vec![disks("d", 10, None)], ..Machine::default() };
    let of = |workers| {
        let workload = Workload { workers: Some(workers), ..Workload::default() };
        let found = predict(&machine, &workload);
        (found.iops.high.round(), found.limited_by.join(", "), found.next_steps[0].change.clone())
    };
    let (one, limit, step) = of(1);
    assert_eq!((one, limit.as_str(), step.as_str()), (450_035.0, "the worker's CPU", "2 workers"));
    assert_eq!(of(16).1, "the CPUs");
    // More workers than cores share them.
    assert_eq!(of(16).0, of(64).0);
}

#[test]
fn cycles_of_small_ios_say_nothing_of_large_ones() {
    let cpu = Cpus {
        cores: Some(16),
        clock_ghz: figure(4.0),
        cycles_per_io: figure(8000.0),
        ..Cpus::default()
    };
    let machine = Machine { cpu, disks: vec![disks("d", 10, None)], ..Machine::default() };
    let of = |bs, cycles_per_io| {
        let workload = Workload { bs, workers: Some(1), cycles_per_io, ..Workload::default() };
        predict(&machine, &workload)
    };
    assert_eq!(of(16 << 10, None).limited_by, ["the worker's CPU"]);
    let large = of(512 << 10, None);
    assert_eq!(large.limited_by, ["d"]);
    assert!(large.parts.iter().all(|part| part.name == "d"), "{:?}", large.parts);
    assert_eq!(large.unknown, ["cycles_per_io of 512 KiB I/Os"]);
    let given = of(512 << 10, figure(80_000.0));
    assert_eq!((given.iops.high, given.limited_by[0].as_str()), (50_000.0, "the worker's CPU"));
    assert!(given.next_steps.iter().any(|step| step.change.starts_with("half the cycles")));
}

#[test]
fn bounds_stay_bounds() {
    let mut machine = crowded();
    machine.parts[0].bandwidth = "30G..60G".parse().ok();
    let found = predict(&machine, &large());
    let both = found.bytes_per_second.map(f64::round);
    assert_eq!(both, Range { low: 30e9, high: 54e9 });
    assert_eq!(found.limited_by, ["full", "a", "b"].map(String::from).to_vec());
}

#[test]
fn mixes_share_the_time_of_a_disk_and_links_carry_both_directions() {
    let machine = Machine { disks: vec![disks("d", 1, None)], ..Machine::default() };
    let mix = Workload { rw: Rw::Randrw, ..Workload::default() };
    let found = predict(&machine, &mix);
    assert_eq!(found.iops.high.round(), (1.0 / (0.7 / 1e6 + 0.3 / 5e5_f64)).round());
    let narrow = Disks { pcie: link("3.0 x1"), ..disks("d", 1, None) };
    let machine = Machine { disks: vec![narrow], ..Machine::default() };
    let of = |rw| predict(&machine, &Workload { rw, ..large() });
    let (one, both) = (of(Rw::Read), of(Rw::Rw));
    assert_eq!(one.limited_by, ["the PCIe links of d"]);
    assert!((both.iops.high / one.iops.high - 1.0 / 0.7).abs() < 1e-9);
}

#[test]
fn queue_depth_has_a_best_and_a_worst_case() {
    let fast = Disks { latency_us: figure(10.0), ..disks("d", 1, None) };
    let machine = Machine { disks: vec![fast], ..Machine::default() };
    let of = |iodepth| {
        let workload = Workload { iodepth: Some(iodepth), workers: Some(1), ..Workload::default() };
        predict(&machine, &workload)
    };
    assert_eq!(of(1).iops.map(f64::round), Range::exactly(100_000.0));
    assert_eq!(of(1).limited_by, ["the queue depth"]);
    assert_eq!(of(1).next_steps[0].change, "iodepth=2");
    let deep = of(100);
    assert_eq!(deep.limited_by, ["d"]);
    assert_eq!(deep.iops.high, 1e6);
    // Each may wait for all 99 others.
    assert_eq!(deep.iops.low.round(), (100.0 / (10e-6 + 99e-6_f64)).round());
}

#[test]
fn what_is_not_in_the_file_is_named_and_limits_nothing() {
    let empty = Disks { name: "d".into(), count: 1, ..Disks::default() };
    let mut machine = Machine { disks: vec![empty], ..Machine::default() };
    let found = predict(&machine, &Workload::default());
    assert_eq!(found.iops, Range { low: 0.0, high: f64::INFINITY });
    assert!(found.limited_by.is_empty() && found.next_steps.is_empty(), "{found:?}");
    for missing in ["read_iops of d", "cycles_per_io of the CPUs"] {
        assert!(found.unknown.iter().any(|name| name == missing), "{found:?}");
    }
    machine.memory = Some(Memory { bandwidth: Range::exactly(4096e6), ..Memory::default() });
    let found = predict(&machine, &Workload::default());
    assert_eq!((found.iops.high, found.limited_by.as_slice()), (1e6, &["memory".to_string()][..]));
    assert_eq!(found.next_steps[0].change, "twice the memory bandwidth");
    assert!(found.unknown.contains(&"read_iops of d".to_string()));
    // Disks without a known limit beside others: the sum has none either.
    machine.disks.push(disks("e", 1, None));
    let found = predict(&machine, &Workload::default());
    assert_eq!((found.iops.high, found.limited_by.as_slice()), (1e6, &["memory".to_string()][..]));
    let of = |name: &str| found.parts.iter().find(|load| load.name == name).unwrap().iops;
    assert_eq!((of("d"), of("e")), (None, Some(Range::exactly(1e6))));
}

#[test]
fn a_mix_is_limited_by_the_direction_that_is_known() {
    let own = Disks { name: "d".into(), count: 1, read_iops: figure(1e5), ..Disks::default() };
    let machine = Machine { disks: vec![own], ..Machine::default() };
    let mixed = Workload { rw: Rw::Randrw, ..Workload::default() };
    let found = predict(&machine, &mixed);
    // 70% of them are reads.
    assert_eq!(found.iops.high.round(), (1e5_f64 / 0.7).round());
    assert!(found.unknown.contains(&"write_iops of d".to_string()), "{found:?}");
}

#[test]
fn without_workers_the_latency_is_not_what_is_missing() {
    let own = Disks { latency_us: figure(10.0), ..disks("d", 1, None) };
    let machine = Machine { disks: vec![own], ..Machine::default() };
    let workload = Workload { iodepth: Some(4), ..Workload::default() };
    let unknown = predict(&machine, &workload).unknown;
    assert!(!unknown.iter().any(|name| name.starts_with("latency_us")), "{unknown:?}");
    assert!(unknown.contains(&"cores of the CPUs".to_string()), "{unknown:?}");
}
