use super::*;
use crate::render::{self, Style, assert_fits};
use fathom_analysis::machine::ring_rates;
use fathom_model::progress::Sample;
use fathom_model::record::Header;
use fathom_model::watch::{
    CgroupSample, CommandRecord, CpuSample, DiskCounters, IoCounters, MachineSample, ProcessUse,
    ProcessesSample, RingEvents, RingSample, RingsSample, StackCount, StacksSample, SystemSample,
    ThreadCount, ThreadsSample, Unavailable,
};

fn rendered(seen: &Observed, record: &RunRecord) -> String {
    render::text(&watch(seen, record, true), Style { color: false, width: 120 })
}

fn sampled(sampling: SamplingRecord) -> RunRecord {
    let header = Header { sampling: Some(sampling), ..Header::default() };
    RunRecord { header, ..RunRecord::default() }
}

/// The machine after a second: one CPU 50% busy, a disk with 100 reads of 4 KiB.
fn sample(second: u64) -> Sample {
    let cpu = CpuSample { system: 50 * second, idle: 50 * second, ..CpuSample::default() };
    let read = IoCounters {
        ios: 100 * second,
        sectors: 800 * second,
        ticks_ms: 100 * second as u32,
        ..IoCounters::default()
    };
    let disk = DiskCounters {
        name: "sda".into(),
        read,
        busy_ms: 100 * second as u32,
        weighted_ms: 100 * second as u32,
        ..DiskCounters::default()
    };
    let doing = ThreadCount {
        comm: "db-1".into(),
        state: 'D',
        syscall: "pread64".into(),
        count: 10,
        ..ThreadCount::default()
    };
    let place = StackCount { count: 50, period: 50, ..StackCount::default() };
    let task_work = vec![(1, 0), (2, 0)];
    let events = RingEvents {
        punted: Some(7 * second),
        overflows: Some(0),
        task_work,
        ..RingEvents::default()
    };
    let machine = MachineSample {
        system: Some(SystemSample { cpus: vec![cpu], ..SystemSample::default() }),
        disks: vec![disk],
        threads: Some(ThreadsSample {
            samples: 20,
            seen: 40,
            active: vec![doing],
            ..ThreadsSample::default()
        }),
        stacks: Some(StacksSample { counts: vec![place], ..StacksSample::default() }),
        blocks: Some(BlocksSample { unplugs: vec![(1, 1), (32, 3)], ..BlocksSample::default() }),
        rings: Some(RingsSample { events: Some(events), ..RingsSample::default() }),
        ..MachineSample::default()
    };
    Sample { elapsed_ns: second * 1_000_000_000, machine, ..Sample::default() }
}

#[test]
fn everything_observed_is_shown() {
    let mut seen = Observed::default();
    (0..3).for_each(|second| seen.add(&sample(second)));
    let missing = Unavailable { source: "x".into(), reason: "y".into(), remedy: String::new() };
    let cost =
        SamplerCost { sampler: "threads".into(), cpu_ns: 20_000_000, ..SamplerCost::default() };
    let command = CommandRecord {
        argv: vec!["db".into(), "-c x y".into()],
        elapsed_ns: 2_000_000_000,
        status: Some(137),
    };
    let watch = SamplingRecord {
        interval_ns: 1_000_000_000,
        command: Some(command),
        cost: vec![cost],
        missing: vec![missing],
        intervals_merged: 7,
        ..SamplingRecord::default()
    };
    let record = sampled(watch);
    let text = rendered(&seen, &record);
    let wanted = [
        "7 intervals merged with the next",
        "command  db '-c x y' · 2 s · ended by signal 9",
        "1 CPU · 50.0% busy (max 50.0%) · system 50.0%, idle 50.0%",
        "machine\n  sda     read 100 IOPS, 400 KiB/s, await 1 ms · aqu-sz 0.10 (max 0.10) · util 10.0%",
        "threads  mean active threads 0.50",
        "  0.50  db-*  D      pread64",
        "CPU time by layer\n  CPU time by layer needs 200 samples (only 100 taken)",
        "plug flushes       2/s; requests per plug flush: 1–31 (25.0%), 32+ (75.0%)",
        "all rings          7 punted to io-wq/s\n",
        "sampling overhead  1.00% of one CPU: threads 1.00%",
        "not measured       x: y",
    ];
    for part in wanted {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

#[test]
fn without_samples_there_is_one_line() {
    let mut record = RunRecord::default();
    record.header.elapsed_ns = 5_000_000_000;
    let text = rendered(&Observed::default(), &record);
    assert_eq!(text, "watched  whole machine for 5 s · no samples\n");
}

#[test]
fn a_disk_is_not_busier_than_all_the_time_and_no_io_takes_no_time() {
    let mut seen = Observed::default();
    for second in 0..3 {
        let mut sample = sample(second);
        let disk = &mut sample.machine.disks[0];
        disk.busy_ms = 1076 * second as u32;
        disk.read.ticks_ms = 0;
        seen.add(&sample);
    }
    let text = rendered(&seen, &RunRecord::default());
    assert!(text.contains("read 100 IOPS, 400 KiB/s, await <5 µs"), "{text}");
    assert!(text.contains("util 100%"), "{text}");
    assert_fits(&watch(&seen, &RunRecord::default(), true));
}

#[test]
fn a_ring_and_a_layer_keep_their_names_and_numbers_together() {
    let mut page = Document::default();
    let queues =
        fathom_model::watch::RingQueues { sq_entries: 1, cq_entries: 2, ..Default::default() };
    let ring = RingSample {
        pid: 7,
        comm: "db".into(),
        fd: 11,
        queues: Some(queues),
        ..RingSample::default()
    };
    let rings = RingsSample { rings: vec![ring], ..RingsSample::default() };
    super::rings(&mut page, &ring_rates(&RingsSample::default(), &rings, 1));
    let shares = [("system call entry", 2.66), ("faults, pinning", 2.18)];
    let shares = shares.map(|(name, share)| named(name, percent(share)));
    page.entry("CPU by layer", Text::join(shares, ", "));
    let text = render::text(&page, Style { color: false, width: 38 });
    let wanted = "\
ring          db 7 fd 11 · SQ/CQ
              1/2 entries ·
              0 in the kernel ·
              0 in SQ · 0 in CQ
CPU by layer  system call entry 2.66%,
              faults, pinning 2.18%
";
    assert_eq!(text, wanted);
}

#[test]
fn the_watched_program_is_told_from_others_and_shows_its_own_limits() {
    let program = |comm: &str, pid, cpu_ns| ProcessUse {
        comm: comm.into(),
        pid,
        processes: 1,
        cpu_ns,
        ..ProcessUse::default()
    };
    let mut last = sample(1);
    last.machine.disks[0].flush = IoCounters { ios: 50, ticks_ms: 100, ..IoCounters::default() };
    let system = last.machine.system.as_mut().unwrap();
    system.cgroup = Some(CgroupSample {
        cpu_limit: Some(0.5),
        memory_limit: Some(64 << 20),
        memory_used: Some(32 << 20),
        ..CgroupSample::default()
    });
    let watched = ProcessUse {
        requested_read: 100 << 20,
        disk_read: 25 << 20,
        requested_write: 1 << 20,
        disk_write: 4 << 20,
        ..program("db", 7, 350_000_000)
    };
    let hog = ProcessUse { disk_read: 10 << 20, ..program("tar", 9, 1_600_000_000) };
    last.machine.processes = Some(ProcessesSample {
        elapsed_ns: 1_000_000_000,
        watched,
        others: vec![hog, program("idle", 10, 1_000_000)],
        ..ProcessesSample::default()
    });
    let mut seen = Observed::default();
    [sample(0), last].iter().for_each(|sample| seen.add(sample));
    let watch = SamplingRecord { pids: vec![7], ..SamplingRecord::default() };
    let text = rendered(&seen, &sampled(watch));
    let wanted = [
        "program 0.35 CPUs · read 100 MiB/s, 25 MiB/s from disks (75.0% from memory) · wrote 1 MiB/s, \
         dirtied or written 4 MiB/s (write_bytes; all disks wrote 0 B/s)",
        "others tar (pid 9) 1.60 CPUs, 10 MiB/s of I/O ",
        "cgroup 0.50 CPUs · memory 32 MiB of 64 MiB ",
        " · flush 50/s, await 2 ms · aqu-sz",
    ];
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in wanted {
        assert!(joined.contains(part), "{part:?} is not in:\n{text}");
    }
}
