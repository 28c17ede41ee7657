//! Tests of the sampler on the running kernel. Software events substitute for hardware events,
//! which the machine may lack.

use super::*;
use fathom_model::watch::{CacheEvent, Executed};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Page faults for instructions, CPU time for cycles.
const STAND_IN: EventPairs = EventPairs {
    executed: [FAULTS, CLOCK],
    caches: [
        (CacheEvent::LlcLoads, [FAULTS, CLOCK]),
        (CacheEvent::CacheReferences, [FAULTS, CLOCK]),
    ],
};

fn open(scope: &Scope, kinds: Option<&EventPairs>) -> Option<CounterSampler> {
    match CounterSampler::open_with(
        Path::new("/proc"),
        Path::new("/sys"),
        scope,
        kinds,
        &mut MachineProbes::default(),
    ) {
        Ok(sampler) => Some(sampler),
        Err(missing) => {
            // As in most containers.
            assert!(!missing.remedy.is_empty(), "{missing}");
            eprintln!("not tested: {missing}");
            None
        }
    }
}

/// Skips the overhead measurement, after which CPUs might be counted instead.
fn of_process(pid: i32) -> Option<CounterSampler> {
    open(&Scope::Machine, None)?;
    let scope = Scope::Trees(vec![pid]);
    Some(CounterSampler::of(Path::new("/proc"), Path::new("/sys"), &scope, None).unwrap())
}

fn read_all(sampler: &mut CounterSampler) -> Vec<Counted> {
    let mut sample = MachineSample::default();
    sampler.take(&mut sample);
    sample.counters.unwrap().of
}

/// A process that starts its work when its standard input is closed.
struct Load {
    child: Child,
    go: ChildStdin,
}

impl Load {
    fn new(work: &str) -> Self {
        let script = format!("read x; {work}");
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let go = child.stdin.take().unwrap();
        Self { child, go }
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn finish(self) {
        let Self { mut child, go } = self;
        drop(go);
        child.wait().unwrap();
    }
}

#[test]
fn a_process_is_counted_with_its_children() {
    let load = Load::new("dd if=/dev/zero of=/dev/null bs=64M count=4 2>&1");
    let pid = load.pid();
    let Some(mut sampler) = of_process(pid) else { return };
    let before = read_all(&mut sampler);
    assert_eq!(before.len(), 1);
    assert_eq!((before[0].pid, before[0].cpu), (Some(pid), None));
    assert_eq!((before[0].user, before[0].kernel, before[0].cache), (None, None, None));
    load.finish();
    let after = read_all(&mut sampler)[0];
    // dd touches its 64 MiB; a 2 MiB huge page counts as one fault instead of 512.
    assert!(after.page_faults.unwrap() >= before[0].page_faults.unwrap() + 32, "{after:?}");
    // Reading and writing 4 times 64 MiB takes more than a millisecond on any machine.
    assert!(after.task_clock_ns.unwrap() > 1_000_000, "{after:?}");
    assert_eq!(after.context_switches.is_none(), !sampler.missing().is_empty(), "{after:?}");
}

#[test]
fn threads_of_a_process_are_combined() {
    let (command, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || wait.recv());
    let me = std::process::id() as i32;
    let sampler = of_process(me);
    if let Some(mut sampler) = sampler {
        assert!(sampler.groups.len() >= 2);
        let own = read_all(&mut sampler).iter().filter(|counted| counted.pid == Some(me)).count();
        assert_eq!(own, 1);
    }
    drop(command);
    let _ = thread.join().unwrap();
}

#[test]
fn each_cpu_is_counted() {
    let Some(mut sampler) = open(&Scope::Machine, None) else { return };
    let before = read_all(&mut sampler);
    let cpus: Vec<u32> = before.iter().filter_map(|counted| counted.cpu).collect();
    assert_eq!(cpus, online_cpus(Path::new("/sys")).unwrap());
    assert!(Command::new("true").status().unwrap().success());
    let sum = |all: &[Counted], of: fn(&Counted) -> Option<u64>| -> u64 {
        all.iter().map(|counted| of(counted).unwrap()).sum()
    };
    let after = read_all(&mut sampler);
    for of in [|c: &Counted| c.context_switches, |c: &Counted| c.page_faults] {
        assert!(sum(&after, of) > sum(&before, of), "{before:?} {after:?}");
    }
    assert!(after.iter().all(|counted| counted.task_clock_ns.is_none() && counted.pid.is_none()));
}

#[test]
fn cheap_events_are_counted_all_the_time() {
    let Some(mut sampler) = open(&Scope::Machine, Some(&STAND_IN)) else { return };
    // If the measurement was disturbed, windows are used, which another test covers.
    if sampler.windows.is_some() {
        assert_eq!(sampler.period(), Some(WINDOW));
        return;
    }
    assert_eq!(sampler.period(), None);
    for counted in read_all(&mut sampler) {
        let user = counted.user.unwrap();
        assert!(user.running_ns > 0 && user.scale() == Some(1.0), "{user:?}");
        assert!(counted.kernel.is_some() && counted.cache.is_some());
    }
}

#[test]
fn windows_are_extrapolated() {
    let Some(mut sampler) = open(&Scope::Machine, Some(&STAND_IN)) else { return };
    sampler.enable_hardware(false);
    sampler.windows = Some(CounterWindows::default());
    let spin = || (0..20).for_each(|_| drop(std::hint::black_box(vec![1_u8; 1 << 20])));
    let running = |sampler: &mut CounterSampler| -> u64 {
        read_all(sampler).iter().map(|counted| counted.user.unwrap().running_ns).sum()
    };
    let closed = running(&mut sampler);
    spin();
    assert_eq!(running(&mut sampler), closed);
    sampler.sample();
    spin();
    let open = running(&mut sampler);
    assert!(open > closed);
    sampler.sample();
    let ended = running(&mut sampler);
    (2..ONE_IN).for_each(|_| {
        spin();
        sampler.sample();
    });
    assert_eq!(running(&mut sampler), ended);
    for counted in read_all(&mut sampler) {
        assert!(counted.user.unwrap().scale().unwrap() > 1.0, "{counted:?}");
        assert_eq!(counted.user.unwrap().enabled_ns, counted.cache.unwrap().enabled_ns);
    }
    sampler.sample();
    assert!(running(&mut sampler) > ended);
}

#[test]
fn the_measured_overhead_decides() {
    if open(&Scope::Machine, None).is_none() {
        return;
    }
    for (by_cpu, kinds) in
        [(true, None), (true, Some(&STAND_IN)), (false, None), (false, Some(&STAND_IN))]
    {
        let overhead = overhead::measure(by_cpu, |of| attach(of, kinds)).unwrap();
        eprintln!("by_cpu {by_cpu}, {}: {overhead}", kinds.is_some());
        assert!(overhead.without_ns > 0.0, "{overhead:?}");
    }
    let overhead = |added_ns| Ok(CountingCost { without_ns: 1800.0, added_ns });
    assert_eq!(too_expensive(&overhead(100.0)), None);
    let text = fallback(&too_expensive(&overhead(5300.0)).unwrap()).to_string();
    let wanted =
        "counting adds 5.3 µs to a context switch of 1.8 µs; counted for 20ms of every 400ms";
    assert!(text.contains(wanted), "{text}");
    assert!(too_expensive(&Err(io::Error::other("x"))).is_some());
}

#[test]
fn processes_that_switch_often_are_counted_for_a_while() {
    for kinds in [None, Some(&STAND_IN)] {
        let load = Load::new("for n in 1 2 3; do true | true; done");
        let scope = Scope::Trees(vec![load.pid()]);
        let opened = CounterSampler::of(Path::new("/proc"), Path::new("/sys"), &scope, kinds);
        let Ok(mut sampler) = opened else { return };
        sampler.enable_hardware(true);
        // As if each context switch had cost an hour.
        sampler.processes = Some(ProcessCost::new(3.6e12));
        assert_eq!(read_all(&mut sampler)[0].pid, Some(load.pid()));
        load.finish();
        let mut sample = MachineSample::default();
        sampler.take(&mut sample);
        assert_eq!(sample.counters.is_some(), kinds.is_some());
        assert!(sampler.processes.as_ref().unwrap().counted.is_some());
        if kinds.is_some() {
            std::thread::sleep(Duration::from_millis(1));
            let [first, later] = [(); 2].map(|()| read_all(&mut sampler)[0].user.unwrap());
            assert_eq!(first.running_ns, later.running_ns);
            assert!(later.enabled_ns > first.enabled_ns && first.scale().unwrap() > 1.0);
        }
    }
}

#[test]
fn what_was_counted_stands_for_the_rest() {
    let executed = Executed { enabled_ns: 100, running_ns: 100, ..Executed::default() };
    let mut counted = Counted { page_faults: Some(8), user: Some(executed), ..Counted::default() };
    extrapolate(&mut counted, 4.0);
    assert_eq!((counted.page_faults, counted.user.unwrap().scale()), (Some(32), Some(4.0)));
}

/// Both count the same process from before it starts its work until its exit.
#[test]
fn perf_stat_agrees() {
    if Command::new("perf").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("not tested: perf is not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (control, ack, out) = (path("control"), path("ack"), path("out"));
    assert!(Command::new("mkfifo").args([&control, &ack]).status().unwrap().success());
    let load =
        Load::new("for n in 1 2 3; do dd if=/dev/zero of=/dev/null bs=16M count=9 2>&1; done");
    let Some(mut sampler) = of_process(load.pid()) else { return };
    let mut perf = Command::new("perf")
        .args(["stat", "-x,", "-e", "task-clock,page-faults,context-switches", "-D", "-1"])
        .args(["--control", &format!("fifo:{control},{ack}"), "-o", &out])
        .args(["-p", &load.pid().to_string()])
        .spawn()
        .unwrap();
    let mut command = std::fs::OpenOptions::new().read(true).write(true).open(&control).unwrap();
    let mut reply = std::fs::OpenOptions::new().read(true).write(true).open(&ack).unwrap();
    command.write_all(b"enable\n").unwrap();
    reply.read_exact(&mut [0; 4]).unwrap();
    let before = read_all(&mut sampler)[0];
    load.finish();
    let after = read_all(&mut sampler)[0];
    assert!(perf.wait().unwrap().success());
    let text = std::fs::read_to_string(&out).unwrap();
    let theirs = |event: &str| -> f64 {
        let line = text.lines().find(|line| line.contains(event));
        line.and_then(|line| line.split(',').next()?.parse().ok())
            .unwrap_or_else(|| panic!("{text}"))
    };
    let ours =
        |of: fn(&Counted) -> Option<u64>| (of(&after).unwrap() - of(&before).unwrap()) as f64;
    eprintln!("{text}ours: {before:?} {after:?}");
    // perf begins and ends a moment before and after.
    let differ = |ours: f64, event: &str| (ours - theirs(event)).abs() > 5.0;
    assert!(!differ(ours(|c| c.page_faults), "page-faults"));
    assert!(!differ(ours(|c| c.context_switches), "context-switches"));
    let clocks = ours(|c| c.task_clock_ns) / 1e6 / theirs("task-clock");
    assert!((0.95..1.05).contains(&clocks), "{clocks} {text}");
}
