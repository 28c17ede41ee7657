use super::*;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A sampler of this machine; `None`, with the reason printed, if not permitted.
fn sampler(settings: &StackSettings) -> Option<StackSampler> {
    let opened = StackSampler::open(settings, Path::new("/proc"), Path::new("/sys"));
    opened.inspect_err(|missing| eprintln!("skipped: {missing}")).ok()
}

/// Merged intervals until `enough` is true.
fn watch(
    sampler: &mut StackSampler,
    enough: impl Fn(&[StackCount], &[fathom_model::watch::Stack]) -> bool,
) -> StacksSample {
    let began = Instant::now();
    let mut all = StacksSample::default();
    while began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
        let mut sample = MachineSample::default();
        sampler.sample();
        sampler.take(&mut sample);
        let StacksSample { counts, new, idle, own, event, hz, .. } = sample.stacks.unwrap();
        all.counts.extend(counts);
        all.new.extend(new);
        all.idle += idle;
        all.own += own;
        (all.event, all.hz) = (event, hz);
        if enough(&all.counts, &all.new) {
            return all;
        }
    }
    panic!("not sampled within a minute: {:?} of {:?}", all.counts, all.new);
}

/// Runs `work` in a thread of this name during `sample`.
fn while_running<T>(name: &str, work: impl Fn() + Send, sample: impl FnOnce() -> T) -> T {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    let stop_of_worker = &stop;
    std::thread::scope(|scope| {
        let body = move || {
            while !stop_of_worker.load(Ordering::Relaxed) {
                work();
            }
        };
        std::thread::Builder::new().name(name.into()).spawn_scoped(scope, body).unwrap();
        let _stop = Stop(&stop);
        sample()
    })
}

fn read_zeros() {
    use std::io::Read;
    let mut buffer = vec![0; 1 << 20];
    std::fs::File::open("/dev/zero").unwrap().read_exact(&mut buffer).unwrap();
}

#[test]
fn system_calls_appear_in_stacks() {
    let Some(mut sampler) = sampler(&StackSettings::default()) else { return };
    if !sampler.per_cpu.source.kernel {
        eprintln!("skipped: {:?}", sampler.missing());
        return;
    }
    let reads = |count: &StackCount, stacks: &[fathom_model::watch::Stack]| {
        let stack = &stacks[count.stack as usize];
        let at = |name: &str| stack.kernel.iter().position(|function| function == name);
        let ordered = at("ksys_read").zip(at("vfs_read")).is_some_and(|(ksys, vfs)| ksys < vfs);
        ordered && count.comm == "reads-zeros" && stack.user.is_empty()
    };
    let sampled = while_running("reads-zeros", read_zeros, || {
        watch(&mut sampler, |counts, new| {
            counts.iter().filter(|count| reads(count, new)).count() >= 3
        })
    });
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    for count in sampled.counts.iter().filter(|count| count.comm == "reads-zeros") {
        assert!(count.pid == pid && count.tid != pid && count.period > 0, "{count:?}");
    }
    assert_eq!(sampled.hz, 99);
    assert_eq!(sampled.event == "cycles", sampler.missing().is_empty(), "{:?}", sampler.missing());
    let mut distinct = sampled.new.clone();
    distinct.sort_by(|a, b| (&a.kernel, &a.user).cmp(&(&b.kernel, &b.user)));
    distinct.dedup();
    assert_eq!(distinct.len(), sampled.new.len());
}

#[inline(never)]
extern "C" fn spin_in_user_mode() -> u64 {
    (0..1_000_000).fold(0, |sum, next| std::hint::black_box(sum ^ next))
}

#[test]
fn user_functions_are_resolved_on_request() {
    let settings = StackSettings { user: true, clock: Clock::Timer, ..StackSettings::default() };
    let Some(mut sampler) = sampler(&settings) else { return };
    let spin = || {
        std::hint::black_box(spin_in_user_mode());
    };
    let sampled = while_running("spins", spin, || {
        watch(&mut sampler, |counts, new| {
            counts.iter().any(|count| {
                let leaf = new[count.stack as usize].user.last();
                count.comm == "spins"
                    && leaf.is_some_and(|leaf| leaf.ends_with("spin_in_user_mode"))
            })
        })
    });
    assert_eq!(sampled.event, "cpu-clock");
}

#[test]
fn ticks_show_the_interrupted_context() {
    let settings = StackSettings { clock: Clock::Tick, ..StackSettings::default() };
    let Some(mut sampler) = sampler(&settings) else { return };
    let Trigger::Tick(tick) = sampler.per_cpu.source.trigger else {
        eprintln!("skipped: ticks are not available to this user");
        return;
    };
    assert!((500_000..=10_000_000).contains(&tick.ns), "{tick:?}");
    let began = Instant::now();
    let reads = |count: &&StackCount| count.comm == "reads-ticked";
    let sampled = while_running("reads-ticked", read_zeros, || {
        watch(&mut sampler, |counts, _| {
            counts.iter().filter(reads).map(|c| c.count).sum::<u32>() >= 50
        })
    });
    let elapsed = began.elapsed().as_nanos() as u64;
    assert_eq!((sampled.event.as_str(), sampled.idle), ("tick", 0));
    let of_reads = || sampled.counts.iter().filter(reads);
    let stack = |c: &&StackCount| sampled.new[c.stack as usize].kernel.iter();
    let reading = of_reads().filter(|c| stack(c).any(|f| f == "vfs_read"));
    assert!(reading.map(|c| c.count).sum::<u32>() >= 5, "{:?}", sampled.new);
    // The tick belongs to its interrupt and not to the interrupted context.
    let ticks = |s: &&fathom_model::watch::Stack| s.kernel.iter().any(|f| f == "hrtimer_interrupt");
    assert_eq!(sampled.new.iter().filter(ticks).collect::<Vec<_>>(), Vec::new() as Vec<&_>);
    // Samples represent the time between them; no thread runs longer than the elapsed time.
    let period: u64 = of_reads().map(|c| c.period).sum();
    let samples: u64 = of_reads().map(|c| u64::from(c.count)).sum();
    assert!(period >= samples * tick.ns && period <= elapsed + 50 * tick.ns, "{period} {elapsed}");
}

#[test]
fn exited_processes_are_resolved() {
    let settings =
        StackSettings { user: true, clock: Clock::Timer, hz: 999, ..StackSettings::default() };
    let Some(mut sampler) = sampler(&settings) else { return };
    let loops = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let (began, mut stacks) = (Instant::now(), Vec::new());
    loop {
        let mut child = Command::new("sh").args(["-c", loops]).spawn().unwrap();
        let pid = child.id() as i32;
        child.wait().unwrap();
        let mut sample = MachineSample::default();
        sampler.take(&mut sample);
        let StacksSample { counts, new, .. } = sample.stacks.unwrap();
        stacks.extend(new);
        let of_child = counts.iter().filter(|count| count.pid == pid && count.comm == "sh");
        let mut innermost = of_child.filter_map(|count| stacks[count.stack as usize].user.last());
        if innermost.any(|name| name != "[unknown]") {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no names: {counts:?} of {stacks:?}");
    }
}

#[test]
fn the_sampling_thread_is_counted_separately() {
    let Some(mut sampler) = sampler(&StackSettings { hz: 999, ..StackSettings::default() }) else {
        return;
    };
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let mut all = 0;
    while all < 20 {
        read_zeros();
        let mut sample = MachineSample::default();
        sampler.take(&mut sample);
        let stacks = sample.stacks.unwrap();
        assert!(stacks.counts.iter().all(|count| count.tid != own), "{:?}", stacks.counts);
        all += stacks.own;
    }
}

struct Killed(Child);
impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn only_the_process_and_its_children_are_sampled() {
    let loops = "i=0; while [ $i -lt 100000000 ]; do i=$((i+1)); done";
    let family = Command::new("sh").args(["-c", &format!("sh -c '{loops}'; :")]).spawn().unwrap();
    let pid = family.id() as i32;
    let family = Killed(family);
    let scope = Scope::Trees(vec![pid]);
    let Some(mut sampler) = sampler(&StackSettings { scope, ..StackSettings::default() }) else {
        return;
    };
    let sampled = watch(&mut sampler, |counts, _| counts.iter().any(|count| count.pid != pid));
    let child = sampled.counts.iter().find(|count| count.pid != pid).unwrap();
    assert_eq!(child.comm, "sh");
    assert!(Scope::Trees(vec![pid]).processes(Path::new("/proc")).unwrap().contains(&child.pid));
    drop(family);
    // The orphaned shell would keep running.
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(child.pid).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
}

#[test]
fn threads_can_be_sampled_individually() {
    let own = std::process::id() as i32;
    let source = SampleSource {
        trigger: Trigger::Timer,
        kernel: false,
        hz: 99,
        user: false,
        registers: true,
    };
    let threads = per_cpu::own_threads(Path::new("/proc"), &[own]);
    assert!(threads.contains(&own));
    let mut per_cpu = match PerCpuRings::of_threads(source, Path::new("/sys"), &threads) {
        Ok(per_cpu) => per_cpu,
        Err(error) => return eprintln!("skipped: {}", per_cpu::refused("threads", &error)),
    };
    // The thread that opened the events creates another one, which inherits them.
    let spin = || {
        std::hint::black_box(spin_in_user_mode());
    };
    while_running("inherits", spin, || {
        let began = Instant::now();
        let mut samples = Vec::new();
        while samples.len() < 3 && began.elapsed() < Duration::from_secs(60) {
            let mut found = RecordBatch::default();
            per_cpu.drain(|record| found.add(record));
            samples.extend(found.events.into_iter().filter_map(|(_, what)| match what {
                StackRecord::Sample { pid, tid, .. } => Some((pid, tid)),
                _ => None,
            }));
        }
        assert!(samples.len() >= 3 && samples.iter().all(|(pid, _)| *pid == own), "{samples:?}");
    });
}

fn body(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Two u32s as laid out in a record.
fn pair(first: u32, second: u32) -> u64 {
    let bytes = [first.to_ne_bytes(), second.to_ne_bytes()].concat();
    u64::from_ne_bytes(*bytes.first_chunk().unwrap())
}

#[test]
fn records_are_parsed() {
    let text = u64::from_ne_bytes(*b"fio\0\0\0\0\0");
    let (device, protection) = (pair(8, 1), pair(5, 2));
    let mapped =
        vec![pair(7, 8), 0x1000, 0x2000, 64, device, 5, 0, protection, text, pair(7, 8), 80];
    let sample = vec![pair(7, 8), 50, 10, 2, perf::PERF_CONTEXT_KERNEL, 99];
    // The register ABI, then the registers.
    let registers: Vec<u64> = (200..=200 + retpoline::COUNT as u64).collect();
    let mut longer = sample.clone();
    (longer[3], longer[5]) = (3, 97);
    longer.push(98);
    let records: [(u32, Vec<u64>); 11] = [
        (perf::PERF_RECORD_SAMPLE, sample.clone()),
        (perf::PERF_RECORD_SAMPLE, [&sample[..], &[0]].concat()),
        (perf::PERF_RECORD_SAMPLE, [longer, registers.clone()].concat()),
        (perf::PERF_RECORD_SAMPLE, [sample, registers].concat()),
        (perf::PERF_RECORD_SAMPLE, vec![pair(7, 8), 51, 10, 9, perf::PERF_CONTEXT_KERNEL]),
        (perf::PERF_RECORD_COMM, vec![pair(7, 8), text, pair(7, 8), 40]),
        (perf::PERF_RECORD_FORK, vec![pair(7, 1), pair(8, 2), 30, pair(1, 2), 30]),
        (perf::PERF_RECORD_EXIT, vec![pair(7, 1), pair(8, 2), 60, pair(7, 8), 60]),
        (perf::PERF_RECORD_THROTTLE, vec![70, 1, 1, pair(7, 8), 70]),
        (perf::PERF_RECORD_MMAP2, mapped),
        (perf::PERF_RECORD_MMAP2, vec![1, 2, 3]),
    ];
    let mut found = RecordBatch::default();
    for (kind, words) in &records {
        let bytes = body(words);
        found.add(PerfRecord { kind: *kind, misc: 0, body: &bytes });
        // Nothing is read beyond a record's end.
        for length in 0..bytes.len() {
            RecordBatch::default().add(PerfRecord { kind: *kind, misc: 0, body: &bytes[..length] });
        }
    }
    let shown: Vec<String> = found.events.iter().map(|event| format!("{event:?}")).collect();
    let expected = [
        "(50, Sample { pid: 7, tid: 8, period: 10, chain: 0..2, registers: 2..2 })",
        "(50, Sample { pid: 7, tid: 8, period: 10, chain: 2..4, registers: 4..4 })",
        "(50, Sample { pid: 7, tid: 8, period: 10, chain: 4..7, registers: 7..7 })",
        "(50, Sample { pid: 7, tid: 8, period: 10, chain: 7..9, registers: 9..24 })",
        "(40, Named { pid: 7, tid: 8, comm: \"fio\", exec: false })",
        "(30, Forked { child: (7, 8), parent: (1, 2) })",
        "(60, Ended { pid: 7, tid: 8 })",
        "(70, Throttled)",
        "(80, Mapped { pid: 7, map: Mapping { start: 4096, end: 12288, offset: 64, file: \"08:01 5\", \
         path: \"fio\" } })",
    ];
    assert_eq!(shown, expected);
    assert_eq!(split(&found.chains[7..9]), (&[99][..], &[][..]));
    assert!(found.chains[9..].iter().copied().eq(201..=215));
}

#[test]
fn chains_are_split_at_context_markers() {
    let (kernel, user) = (perf::PERF_CONTEXT_KERNEL, perf::PERF_CONTEXT_USER);
    assert_eq!(split(&[kernel, 1, 2, user, 3]), (&[1, 2][..], &[3][..]));
    assert_eq!(split(&[user, 3, 4]), (&[][..], &[3, 4][..]));
    assert_eq!(split(&[perf::PERF_CONTEXT_GUEST_KERNEL, 9, kernel]), (&[][..], &[][..]));
    assert_eq!(split(&[]), (&[][..], &[][..]));
}

#[test]
fn the_frequency_is_limited_to_the_kernels_maximum() {
    let proc = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(proc.path().join("sys/kernel")).unwrap();
    let path = proc.path().join("sys/kernel/perf_event_max_sample_rate");
    std::fs::write(path, "50\n").unwrap();
    assert_eq!((fastest(proc.path()), fastest(Path::new("/nowhere"))), (50, u32::MAX));
    let opened = StackSampler::open(&StackSettings::default(), proc.path(), Path::new("/sys"));
    let sampler = match opened {
        Ok(sampler) => sampler,
        Err(missing) => return eprintln!("skipped: {missing}"),
    };
    assert_eq!(sampler.per_cpu.source.hz, 50);
    assert!(sampler.missing()[0].to_string().contains("perf_event_max_sample_rate is 50"));
}
