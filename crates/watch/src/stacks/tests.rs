use super::*;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A sampler of the real machine; `None`, with the reason printed, where it allows none.
fn sampler(settings: &StackSettings) -> Option<StackSampler> {
    let opened = StackSampler::open(settings, Path::new("/proc"), Path::new("/sys"));
    opened.inspect_err(|missing| eprintln!("skipped: {missing}")).ok()
}

/// All intervals until `enough` of them is seen.
fn watch(
    sampler: &mut StackSampler,
    enough: impl Fn(&[StackCount], &[fathom_model::watch::Stack]) -> bool,
) -> StacksSample {
    let began = Instant::now();
    let mut all = StacksSample::default();
    while began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
        let mut sample = MachineSample::default();
        sampler.look();
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
    panic!("not seen within a minute: {:?} of {:?}", all.counts, all.new);
}

/// Runs `work` in a thread of this name while `look` looks.
fn beside<T>(name: &str, work: impl Fn() + Send, look: impl FnOnce() -> T) -> T {
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
        look()
    })
}

fn read_zeros() {
    use std::io::Read;
    let mut buffer = vec![0; 1 << 20];
    std::fs::File::open("/dev/zero").unwrap().read_exact(&mut buffer).unwrap();
}

#[test]
fn a_thread_in_a_system_call_shows_it() {
    let Some(mut sampler) = sampler(&StackSettings::default()) else { return };
    if !sampler.lanes.source.kernel {
        eprintln!("skipped: {:?}", sampler.missing());
        return;
    }
    let reads = |count: &StackCount, stacks: &[fathom_model::watch::Stack]| {
        let stack = &stacks[count.stack as usize];
        let at = |name: &str| stack.kernel.iter().position(|function| function == name);
        let ordered = at("ksys_read").zip(at("vfs_read")).is_some_and(|(ksys, vfs)| ksys < vfs);
        ordered && count.comm == "reads-zeros" && stack.user.is_empty()
    };
    let seen = beside("reads-zeros", read_zeros, || {
        watch(&mut sampler, |counts, new| {
            counts.iter().filter(|count| reads(count, new)).count() >= 3
        })
    });
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    for count in seen.counts.iter().filter(|count| count.comm == "reads-zeros") {
        assert!(count.pid == pid && count.tid != pid && count.period > 0, "{count:?}");
    }
    assert_eq!(seen.hz, 99);
    assert_eq!(seen.event == "cycles", sampler.missing().is_empty(), "{:?}", sampler.missing());
    let mut distinct = seen.new.clone();
    distinct.sort_by(|a, b| (&a.kernel, &a.user).cmp(&(&b.kernel, &b.user)));
    distinct.dedup();
    assert_eq!(distinct.len(), seen.new.len());
}

#[inline(never)]
extern "C" fn spin_in_user_mode() -> u64 {
    (0..1_000_000).fold(0, |sum, next| std::hint::black_box(sum ^ next))
}

#[test]
fn user_functions_have_names_on_request() {
    let settings = StackSettings { user: true, clock: Clock::Timer, ..StackSettings::default() };
    let Some(mut sampler) = sampler(&settings) else { return };
    let spin = || {
        std::hint::black_box(spin_in_user_mode());
    };
    let seen = beside("spins", spin, || {
        watch(&mut sampler, |counts, new| {
            counts.iter().any(|count| {
                let leaf = new[count.stack as usize].user.last();
                count.comm == "spins"
                    && leaf.is_some_and(|leaf| leaf.ends_with("spin_in_user_mode"))
            })
        })
    });
    assert_eq!(seen.event, "cpu-clock");
}

#[test]
fn ticks_tell_what_they_came_into() {
    let settings = StackSettings { clock: Clock::Tick, ..StackSettings::default() };
    let Some(mut sampler) = sampler(&settings) else { return };
    let Pulse::Tick(tick) = sampler.lanes.source.pulse else {
        eprintln!("skipped: this kernel does not show its ticks to this user");
        return;
    };
    assert!((500_000..=10_000_000).contains(&tick.ns), "{tick:?}");
    let began = Instant::now();
    let reads = |count: &&StackCount| count.comm == "reads-ticked";
    let seen = beside("reads-ticked", read_zeros, || {
        watch(&mut sampler, |counts, _| {
            counts.iter().filter(reads).map(|c| c.count).sum::<u32>() >= 50
        })
    });
    let elapsed = began.elapsed().as_nanos() as u64;
    assert_eq!((seen.event.as_str(), seen.idle), ("tick", 0));
    let of_reads = || seen.counts.iter().filter(reads);
    let stack = |c: &&StackCount| seen.new[c.stack as usize].kernel.iter();
    let reading = of_reads().filter(|c| stack(c).any(|f| f == "vfs_read"));
    assert!(reading.map(|c| c.count).sum::<u32>() >= 5, "{:?}", seen.new);
    // A tick is part of the interrupt and of none of what it came into.
    let ticks = |s: &&fathom_model::watch::Stack| s.kernel.iter().any(|f| f == "hrtimer_interrupt");
    assert_eq!(seen.new.iter().filter(ticks).collect::<Vec<_>>(), Vec::new() as Vec<&_>);
    // Samples stand for the time between them; no thread runs longer than there is time.
    let period: u64 = of_reads().map(|c| c.period).sum();
    let samples: u64 = of_reads().map(|c| u64::from(c.count)).sum();
    assert!(period >= samples * tick.ns && period <= elapsed + 50 * tick.ns, "{period} {elapsed}");
}

#[test]
fn a_process_that_ended_before_it_was_looked_at_has_names() {
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
fn the_watching_thread_is_counted_apart() {
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
fn a_process_is_seen_with_its_children_and_nothing_else() {
    let loops = "i=0; while [ $i -lt 100000000 ]; do i=$((i+1)); done";
    let family = Command::new("sh").args(["-c", &format!("sh -c '{loops}'; :")]).spawn().unwrap();
    let pid = family.id() as i32;
    let family = Killed(family);
    let scope = Scope::Trees(vec![pid]);
    let Some(mut sampler) = sampler(&StackSettings { scope, ..StackSettings::default() }) else {
        return;
    };
    let seen = watch(&mut sampler, |counts, _| counts.iter().any(|count| count.pid != pid));
    let child = seen.counts.iter().find(|count| count.pid != pid).unwrap();
    assert_eq!(child.comm, "sh");
    assert!(Scope::Trees(vec![pid]).processes(Path::new("/proc")).unwrap().contains(&child.pid));
    drop(family);
    // The shell that loops has lost its parent and would go on.
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(child.pid).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
}

#[test]
fn threads_can_be_sampled_one_by_one() {
    let own = std::process::id() as i32;
    let source =
        Source { pulse: Pulse::Timer, kernel: false, hz: 99, user: false, registers: true };
    let threads = lanes::threads(Path::new("/proc"), &[own]);
    assert!(threads.contains(&own));
    let mut lanes = match Lanes::of_threads(source, Path::new("/sys"), &threads) {
        Ok(lanes) => lanes,
        Err(error) => return eprintln!("skipped: {}", lanes::refused("threads", &error)),
    };
    // The thread that opened them begins another, which inherits them.
    let spin = || {
        std::hint::black_box(spin_in_user_mode());
    };
    beside("inherits", spin, || {
        let began = Instant::now();
        let mut samples = Vec::new();
        while samples.len() < 3 && began.elapsed() < Duration::from_secs(60) {
            let mut found = Found::default();
            lanes.drain(|record| found.add(record));
            samples.extend(found.events.into_iter().filter_map(|(_, what)| match what {
                What::Sample { pid, tid, .. } => Some((pid, tid)),
                _ => None,
            }));
        }
        assert!(samples.len() >= 3 && samples.iter().all(|(pid, _)| *pid == own), "{samples:?}");
    });
}

fn body(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Two 32-bit numbers as they lie in a record.
fn pair(first: u32, second: u32) -> u64 {
    let bytes = [first.to_ne_bytes(), second.to_ne_bytes()].concat();
    u64::from_ne_bytes(*bytes.first_chunk().unwrap())
}

#[test]
fn records_are_taken_apart() {
    let text = u64::from_ne_bytes(*b"fio\0\0\0\0\0");
    let (device, protection) = (pair(8, 1), pair(5, 2));
    let mapped =
        vec![pair(7, 8), 0x1000, 0x2000, 64, device, 5, 0, protection, text, pair(7, 8), 80];
    let sample = vec![pair(7, 8), 50, 10, 2, perf::PERF_CONTEXT_KERNEL, 99];
    // What the registers are of, then they.
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
    let mut found = Found::default();
    for (kind, words) in &records {
        let bytes = body(words);
        found.add(Record { kind: *kind, misc: 0, body: &bytes });
        // Nothing is read beyond a record's end.
        for length in 0..bytes.len() {
            Found::default().add(Record { kind: *kind, misc: 0, body: &bytes[..length] });
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
        "(80, Mapped { pid: 7, map: Map { start: 4096, end: 12288, offset: 64, file: \"08:01 5\", \
         path: \"fio\" } })",
    ];
    assert_eq!(shown, expected);
    assert_eq!(split(&found.chains[7..9]), (&[99][..], &[][..]));
    assert!(found.chains[9..].iter().copied().eq(201..=215));
}

#[test]
fn chains_are_split_at_their_marks() {
    let (kernel, user) = (perf::PERF_CONTEXT_KERNEL, perf::PERF_CONTEXT_USER);
    assert_eq!(split(&[kernel, 1, 2, user, 3]), (&[1, 2][..], &[3][..]));
    assert_eq!(split(&[user, 3, 4]), (&[][..], &[3, 4][..]));
    assert_eq!(split(&[perf::PERF_CONTEXT_GUEST_KERNEL, 9, kernel]), (&[][..], &[][..]));
    assert_eq!(split(&[]), (&[][..], &[][..]));
}

#[test]
fn more_samples_than_the_kernel_gives_are_not_asked_for() {
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
    assert_eq!(sampler.lanes.source.hz, 50);
    assert!(sampler.missing()[0].to_string().contains("perf_event_max_sample_rate is 50"));
}
