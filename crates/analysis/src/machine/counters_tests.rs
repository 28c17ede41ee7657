use super::*;
use fathom_model::watch::{
    CacheCounts, Counted, CountersSample, CpuSample, DiskCounters, DiskKind, Executed, IoCounters,
    SystemSample,
};

const SECOND: u64 = 1_000_000_000;

fn executed(instructions: u64, cycles: u64, enabled_ns: u64, running_ns: u64) -> Option<Executed> {
    Some(Executed { instructions, cycles, enabled_ns, running_ns })
}

fn sample(of: Vec<Counted>) -> MachineSample {
    MachineSample { counters: Some(CountersSample { of }), ..MachineSample::default() }
}

#[test]
fn cpu_use_and_clock_frequency() {
    let cpu = |cpu, cycles| Counted {
        cpu: Some(cpu),
        context_switches: Some(cycles / 1_000_000),
        user: executed(cycles * 2, cycles, SECOND, SECOND),
        kernel: executed(cycles / 2, cycles, SECOND, SECOND),
        ..Counted::default()
    };
    let system = |busy: u64| {
        let cpus = [0, 1].map(|cpu| CpuSample {
            cpu,
            user: busy * u64::from(cpu + 1),
            idle: 100 - busy * u64::from(cpu + 1),
            ..CpuSample::default()
        });
        Some(SystemSample { cpus: cpus.to_vec(), ..SystemSample::default() })
    };
    let then = MachineSample { system: system(0), ..sample(vec![cpu(0, 0), cpu(1, 0)]) };
    let later = vec![cpu(0, 600_000_000), cpu(1, 900_000_000)];
    let mut now = MachineSample { system: system(30), ..sample(later) };
    // The ticks of the earlier sample were all idle.
    now.system.as_mut().unwrap().cpus.iter_mut().for_each(|cpu| cpu.idle += 100);
    let counters = rates(&then, &now, SECOND).counters.unwrap();
    let [first, second] = [&counters.of[0], &counters.of[1]];
    assert_eq!((first.cpu, second.cpu, first.pid), (Some(0), Some(1), None));
    // 1.2 G cycles in 0.3 s, 1.8 G in 0.6 s.
    let clock = |work: &CpuWork| (work.ghz.unwrap() * 1000.0).round();
    assert_eq!((clock(&first.work), clock(&second.work)), (4000.0, 3000.0));
    assert_eq!(clock(&counters.all), 3333.0);
    assert_eq!((counters.all.ipc.user, counters.all.ipc.kernel), (Some(2.0), Some(0.5)));
    assert_eq!((counters.all.ipc.all, counters.all.cycles), (Some(1.25), Some(3e9)));
    assert_eq!((counters.all.context_switches, counters.all.cpus), (Some(1500.0), None));
    assert_eq!((counters.all.counted, counters.all.cache_mpki), (None, None));
    assert_eq!(counters.all.per_io, None);
}

#[test]
fn what_is_counted_in_windows_stands_for_all_the_time() {
    let process = |task_clock_ns, user, kernel, cache| Counted {
        pid: Some(7),
        task_clock_ns: Some(task_clock_ns),
        page_faults: Some(task_clock_ns / 1000),
        user,
        kernel,
        cache,
        ..Counted::default()
    };
    let cache = |misses, running_ns| {
        let references = 10 * misses;
        let event = Default::default();
        Some(CacheCounts { event, references, misses, enabled_ns: 10 * running_ns, running_ns })
    };
    let disk = |ios, kind| DiskCounters {
        name: "sda".into(),
        kind,
        read: IoCounters { ios, ..IoCounters::default() },
        ..DiskCounters::default()
    };
    let at = |counted: Counted, ios| MachineSample {
        disks: vec![disk(ios, DiskKind::Disk), disk(ios, DiskKind::Partition)],
        ..sample(vec![counted])
    };
    let then = process(0, executed(5, 5, 100, 100), executed(0, 0, 0, 0), cache(0, 0));
    let user = executed(5 + 4000, 5 + 1000, 100 + SECOND, 100 + SECOND / 20);
    let now = process(SECOND, user, executed(1000, 3000, SECOND, SECOND / 20), cache(10, 1000));
    let counters = rates(&at(then, 0), &at(now, 50), 2 * SECOND).counters.unwrap();
    let work = counters.all;
    assert_eq!((work.counted, work.cpus), (Some(5.0), Some(0.5)));
    assert_eq!((work.instructions, work.cycles), (Some(50_000.0), Some(40_000.0)));
    assert_eq!(work.ipc.all, Some(1.25));
    assert_eq!((work.cache_misses, work.cache_references), (Some(50.0), Some(500.0)));
    assert_eq!(work.cache_mpki, Some(1.0));
    assert_eq!(work.ghz, Some(80_000.0 / SECOND as f64));
    // Others' I/Os are not those of the process.
    assert_eq!(work.per_io, None);
    let of_cpu = |counted: Counted| Counted { pid: None, cpu: Some(0), ..counted };
    let counters = rates(&at(of_cpu(then), 0), &at(of_cpu(now), 50), 2 * SECOND).counters.unwrap();
    let per_io = counters.all.per_io.unwrap();
    assert_eq!((per_io.instructions, per_io.cycles), (Some(2000.0), Some(1600.0)));
    assert_eq!(counters.of[0].work.per_io, None);
}

#[test]
fn what_was_not_counted_has_no_figures() {
    let none = Counted { cpu: Some(0), ..Counted::default() };
    let never = Counted { user: executed(0, 0, 0, 0), ..none };
    let wanted = Counted { user: executed(0, 0, SECOND, 0), ..none };
    for (then, now) in [(none, none), (never, wanted), (none, wanted), (wanted, none)] {
        let work = rates(&sample(vec![then]), &sample(vec![now]), SECOND).counters.unwrap().all;
        assert_eq!((work.ipc, work.cycles, work.ghz), Default::default(), "{now:?}");
    }
    // A CPU that came online in between.
    let counters = rates(&sample(vec![]), &sample(vec![never]), SECOND).counters.unwrap();
    assert_eq!(counters, CounterRates::default());
    assert_eq!(rates(&MachineSample::default(), &sample(vec![]), SECOND).counters, None);
}
