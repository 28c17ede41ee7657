//! Ten made-up seconds of `fathom watch -- fio`, and what can be changed about them.

use super::{Limiters, limiters};
use crate::watch::ObservedTotals;
use fathom_model::RunRecord;
use fathom_model::facts::DeviceFacts;
use fathom_model::finding::Finding;
use fathom_model::outcome::RecordKind;
use fathom_model::progress::Sample;
use fathom_model::watch::{
    CgroupSample, CommandRecord, CpuSample, DiskCounters, Level, MachineSample, OpenFile,
    ProcessUse, ProcessesSample, SystemSample, ThreadCount, ThreadState, ThreadTime, ThreadsSample,
    WatchRecord,
};

pub(super) const SECONDS: u64 = 10;
const NS: u64 = SECONDS * 1_000_000_000;

/// A record and its last sample; the first one holds zeros.
#[derive(Clone)]
pub(super) struct Scene {
    pub record: RunRecord,
    pub last: MachineSample,
    pub stacks: Vec<fathom_model::watch::Stack>,
}

/// Random reads of vda through io_uring, with 16 I/Os in flight on average, on a machine with two CPUs.
pub(super) fn reads() -> Scene {
    let device = DeviceFacts {
        name: "vda".into(),
        nr_requests: Some(256),
        hardware_queues: Some(1),
        scheduler: Some("none".into()),
        ..DeviceFacts::default()
    };
    let command = CommandRecord { argv: vec!["/usr/bin/fio".into()], ..CommandRecord::default() };
    let watch = WatchRecord {
        level: Level::Full,
        pids: vec![100],
        command: Some(command),
        devices: vec![device],
        ..WatchRecord::default()
    };
    let mut record =
        RunRecord { kind: RecordKind::Watch, watch: Some(watch), ..RunRecord::default() };
    record.facts.host.cpus_online = 2;
    let system = SystemSample { cgroup: Some(cgroup()), ..SystemSample::default() };
    let processes = ProcessesSample {
        elapsed_ns: NS,
        watched: ProcessUse { comm: "fio".into(), pid: 101, ..ProcessUse::default() },
        ..ProcessesSample::default()
    };
    let last = MachineSample {
        system: Some(system),
        processes: Some(processes),
        threads: Some(ThreadsSample { elapsed_ns: NS, samples: 100, ..ThreadsSample::default() }),
        ..MachineSample::default()
    };
    let mut scene = Scene { record, last, stacks: Vec::new() };
    scene.disk("vda", 10_000, 16.0, 99.0);
    scene.busy(20);
    scene.threads("fio", ThreadState::IoUring, "io_uring_enter", "io_cqring_wait", 0.9);
    scene.state(ThreadState::OnCpu, 0.1);
    let own = scene.own();
    (own.cpu_ns, own.disk_read) = (NS / 10, 4096 * 10_000 * SECONDS);
    scene
}

fn cgroup() -> CgroupSample {
    CgroupSample {
        path: "/db".into(),
        throttled_us: Some(0),
        memory_hits: Some(0),
        ..CgroupSample::default()
    }
}

impl Scene {
    /// `iops` reads a second of a device, `queue` of them in flight on average, busy `util` percent of the time.
    pub fn disk(&mut self, name: &str, iops: u64, queue: f64, util: f64) {
        let mut disk = DiskCounters { name: name.into(), ..DiskCounters::default() };
        disk.read.ios = iops * SECONDS;
        disk.read.sectors = iops * SECONDS * 8;
        let milliseconds = SECONDS as f64 * 1000.0;
        disk.weighted_ms = (queue * milliseconds) as u32;
        disk.read.ticks_ms = disk.weighted_ms;
        disk.busy_ms = (util / 100.0 * milliseconds) as u32;
        self.last.disks.retain(|known| known.name != name);
        self.last.disks.push(disk);
    }

    pub fn device(&mut self) -> &mut DeviceFacts {
        &mut self.record.watch.as_mut().unwrap().devices[0]
    }

    pub fn system(&mut self) -> &mut SystemSample {
        self.last.system.as_mut().unwrap()
    }

    pub fn cgroup(&mut self) -> &mut CgroupSample {
        self.system().cgroup.as_mut().unwrap()
    }

    /// All CPUs busy for `percent` of the time.
    pub fn busy(&mut self, percent: u64) {
        let user = percent * SECONDS;
        let cpu = CpuSample { user, idle: 100 * SECONDS - user, ..CpuSample::default() };
        self.system().cpus = vec![cpu];
    }

    /// A mean of `mean` threads in a state.
    pub fn state(&mut self, state: ThreadState, mean: f64) {
        let threads = self.last.threads.as_mut().unwrap();
        threads.times.retain(|time| time.state != state);
        threads.times.push(ThreadTime { state, ns: (mean * NS as f64) as u64 });
    }

    /// The same, all in one system call and kernel function.
    pub fn threads(&mut self, comm: &str, state: ThreadState, call: &str, wchan: &str, mean: f64) {
        self.state(state, mean);
        let threads = self.last.threads.as_mut().unwrap();
        threads.active.retain(|known| known.syscall != call || known.comm != comm);
        threads.active.push(ThreadCount {
            comm: comm.into(),
            state: 'D',
            syscall: call.into(),
            wchan: wchan.into(),
            count: 10,
            ns: (mean * NS as f64) as u64,
            ..ThreadCount::default()
        });
    }

    /// No threads.
    pub fn no_threads(&mut self) {
        let threads = self.last.threads.as_mut().unwrap();
        threads.active.clear();
        threads.times.clear();
    }

    pub fn own(&mut self) -> &mut ProcessUse {
        &mut self.last.processes.as_mut().unwrap().watched
    }

    /// Another program that used `cpus` CPUs and read `bytes` a second.
    pub fn other(&mut self, comm: &str, cpus: f64, bytes: u64) {
        self.last.processes.as_mut().unwrap().others.push(ProcessUse {
            comm: comm.into(),
            pid: 812,
            processes: 1,
            cpu_ns: (cpus * NS as f64) as u64,
            disk_read: bytes * SECONDS,
            ..ProcessUse::default()
        });
    }

    /// The watched program has this file open.
    pub fn file(&mut self, size: u64, allocated: u64, in_memory: bool) {
        let path = "/data/file".into();
        let file = OpenFile { path, size, allocated, in_memory, direct: false };
        self.last.processes.as_mut().unwrap().files.push(file);
    }

    pub fn limiters(&self) -> Limiters {
        let mut seen = ObservedTotals::default();
        let mut first = MachineSample {
            system: Some(SystemSample { cgroup: Some(cgroup()), ..SystemSample::default() }),
            ..MachineSample::default()
        };
        let (before, now) = (first.system.as_mut(), self.last.system.as_ref());
        let groups =
            before.and_then(|s| s.cgroup.as_mut()).zip(now.and_then(|s| s.cgroup.as_ref()));
        if let Some((before, now)) = groups {
            (before.cpu_limit, before.memory_limit) = (now.cpu_limit, now.memory_limit);
        }
        let zero = |disk: &DiskCounters| DiskCounters {
            name: disk.name.clone(),
            ..DiskCounters::default()
        };
        first.disks = self.last.disks.iter().map(zero).collect();
        let cpus = &self.last.system.as_ref().unwrap().cpus;
        first.system.as_mut().unwrap().cpus = vec![CpuSample::default(); cpus.len()];
        seen.add(&Sample { machine: first, ..Sample::default() });
        seen.add(&Sample { elapsed_ns: NS, machine: self.last.clone(), ..Sample::default() });
        limiters(&self.record, &seen, &self.stacks)
    }

    pub fn causes(&self) -> Vec<Finding> {
        match self.limiters() {
            Limiters::Found(causes) => causes,
            Limiters::Inconclusive(_) => Vec::new(),
        }
    }
}
