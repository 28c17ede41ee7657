//! Ten made-up seconds of `fathom watch -- fio`, and what can be changed about them.
#![allow(clippy::unwrap_used, clippy::panic)]

mod threads;

use super::{INCONCLUSIVE, View, noted, verdict};
use crate::watch::Observed;
use fathom_model::facts::{DeviceFacts, HeldBy, TargetFacts};
use fathom_model::finding::Finding;
use fathom_model::outcome::RecordKind;
use fathom_model::plan::{Engine, JobPlan, Mix, Order, Psync, Rate, Region, SyncIo, Uring};
use fathom_model::progress::{JobSample, Phase, Sample};
use fathom_model::record::JobRecord;
use fathom_model::watch::{
    BlockOp, BlocksSample, CallTimes, CallsSample, CgroupSample, CommandRecord, CpuSample,
    DeviceBlocks, DeviceWiring, DiskCounters, DiskKind, InterruptSample, Level, MachineSample,
    OffCpuSample, OpTimes, Pressure, PressureSample, ProcessFile, ProcessUse, ProcessesSample,
    RemotePeer, RingSample, RingsSample, SamplingRecord, SplitSamples, SqPollThread, Stack,
    StackCount, StacksSample, SwitchedThread, SystemSample, TaskBlocks, ThreadState, ThreadsSample,
};
use fathom_model::{Dir, PerDir, RunRecord};
pub(super) use threads::held;
use threads::waits;

const SECONDS: u64 = 10;
const NS: u64 = SECONDS * 1_000_000_000;
/// The program's process.
const PID: i32 = 101;

/// A record and its last sample; the first one holds zeros.
#[derive(Clone)]
pub(in crate::rules) struct Scene {
    pub record: RunRecord,
    pub last: MachineSample,
    pub stacks: Vec<Stack>,
    /// Samples of each second, where it matters what happened when; the last one is `last`.
    seconds: Vec<Second>,
}

/// The end of a second of a scene.
#[derive(Clone)]
pub(in crate::rules) struct Second {
    pub second: u64,
    pub machine: MachineSample,
    jobs: Vec<JobSample>,
}

impl Scene {
    /// fio does nothing, on a machine with two CPUs.
    pub fn idle() -> Self {
        let device = DeviceFacts {
            name: "vda".into(),
            nr_requests: Some(256),
            hardware_queues: Some(1),
            scheduler: Some("none".into()),
            ..DeviceFacts::default()
        };
        let command =
            CommandRecord { argv: vec!["/usr/bin/fio".into()], ..CommandRecord::default() };
        let watch = SamplingRecord {
            level: Level::Full,
            pids: vec![100],
            command: Some(command),
            devices: vec![device],
            ..SamplingRecord::default()
        };
        let mut record = RunRecord::default();
        record.header.kind = RecordKind::Watch;
        record.header.sampling = Some(watch);
        record.header.facts.host.cpus_online = 2;
        let system = SystemSample { cgroup: Some(cgroup()), ..SystemSample::default() };
        let processes = ProcessesSample {
            elapsed_ns: NS,
            watched: ProcessUse { comm: "fio".into(), pid: PID, ..ProcessUse::default() },
            ..ProcessesSample::default()
        };
        let threads = ThreadsSample { elapsed_ns: NS, samples: 100, ..ThreadsSample::default() };
        let last = MachineSample {
            system: Some(system),
            processes: Some(processes),
            threads: Some(threads),
            ..MachineSample::default()
        };
        Self { record, last, stacks: Vec::new(), seconds: Vec::new() }
    }

    /// Random reads of vda through io_uring, with 16 I/Os in flight on average.
    pub fn reads() -> Self {
        let mut scene = Self::idle();
        scene.disk("vda", 10_000, 16.0, 99.0);
        scene.busy(20);
        scene.threads("fio", ThreadState::IoUring, "io_uring_enter", "io_cqring_wait", 0.9);
        scene.state(ThreadState::OnCpu, 0.1);
        let own = scene.own();
        (own.cpu_ns, own.disk_read) = (NS / 10, 4096 * 10_000 * SECONDS);
        scene
    }

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

    /// The same with writes.
    pub fn writes(&mut self, name: &str, iops: u64, queue: f64, util: f64) {
        self.disk(name, iops, queue, util);
        let disk = self.last.disks.last_mut().unwrap();
        disk.write = std::mem::take(&mut disk.read);
    }

    /// A device on vda, with this many I/Os in flight at each.
    pub fn stacked(&mut self, name: &str, above: f64, below: f64) {
        self.disk("vda", 10_000, below, 99.0);
        self.disk(name, 10_000, above, 99.0);
        let disk = self.last.disks.last_mut().unwrap();
        (disk.kind, disk.below) = (DiskKind::Stacked, vec!["vda".into()]);
        disk.alias = "vg-data".into();
    }

    /// loop0 on vda, with writeback throttling of both, writes.
    pub fn throttled_loop(&mut self) {
        self.device().wbt_lat_usec = Some(75_000);
        let name = "loop0".to_string();
        let looped = DeviceFacts { name, wbt_lat_usec: Some(1), ..self.device().clone() };
        self.record.header.sampling.as_mut().unwrap().devices.push(looped);
        self.writes("vda", 1000, 16.0, 99.0);
        self.writes("loop0", 1000, 16.0, 99.0);
        self.last.disks.last_mut().unwrap().below = vec!["vda".into()];
    }

    /// md0 on these devices: name, reads a second, I/Os in flight, busy percent.
    pub fn members(&mut self, all: &[(&str, u64, f64, f64)]) {
        self.last.disks.clear();
        all.iter().for_each(|(name, iops, queue, util)| self.disk(name, *iops, *queue, *util));
        let sum = |of: fn(&(&str, u64, f64, f64)) -> f64| all.iter().map(of).sum::<f64>();
        self.disk("md0", sum(|one| one.1 as f64) as u64, sum(|one| one.2), 99.0);
        let disk = self.last.disks.last_mut().unwrap();
        disk.kind = DiskKind::Stacked;
        disk.below = all.iter().map(|one| one.0.to_string()).collect();
    }

    /// CPUs 0 and 1 are busy, and spend time in interrupts, for so many percent of the time; so many interrupts of vda a
    /// second arrive at each.
    pub fn interrupts(&mut self, busy: [u64; 2], in_interrupts: [u64; 2], of_disk: [u32; 2]) {
        let cpu = |cpu: usize| CpuSample {
            cpu: cpu as u32,
            softirq: in_interrupts[cpu] * SECONDS,
            system: (busy[cpu] - in_interrupts[cpu]) * SECONDS,
            idle: (100 - busy[cpu]) * SECONDS,
            ..CpuSample::default()
        };
        self.system().cpus = vec![cpu(0), cpu(1)];
        let counts = [0, 1].map(|cpu| (cpu as u32, of_disk[cpu] * SECONDS as u32)).to_vec();
        let source = InterruptSample { irq: "41".into(), source: "virtio0-req.0".into(), counts };
        self.system().interrupts_by = vec![source];
        let wiring =
            DeviceWiring { name: "vda".into(), irqs: vec!["41".into()], queues: Vec::new() };
        self.record.header.sampling.as_mut().unwrap().wiring = vec![wiring];
    }

    /// A run of 10,000 polled reads a second of vda, which has polled queues, with so many interrupts a second.
    pub fn polls_with_interrupts(&mut self, interrupts: u32) {
        self.interrupts([20, 20], [2, 2], [interrupts, 0]);
        self.record.header.kind = RecordKind::Run;
        let ring = Uring { iopoll: true, ..Uring::default() };
        let order = Order::Sequential { skip: 0 };
        let mut plan = JobPlan::new("a", Engine::IoUring(ring), Mix::Only(Dir::Read), order);
        plan.regions = vec![Region { target: 0, start: 0, len: 1 << 20 }];
        self.record.plan.jobs = vec![plan];
        self.record.plan.targets = vec![crate::rules::testing::target("")];
        let mut job = JobRecord { runtime_ns: NS, ..JobRecord::default() };
        job.dirs.read.counts.ios = 10_000 * SECONDS;
        job.granted.polled = true;
        self.record.jobs = vec![job];
        let device =
            DeviceFacts { name: "vda".into(), io_poll: Some(true), ..DeviceFacts::default() };
        let target = TargetFacts { device: Some(device), ..TargetFacts::default() };
        self.record.header.facts.targets = vec![target];
    }

    /// A ring of the program with these setup flags, and so many interrupts of vda a second.
    pub fn ring_with_interrupts(&mut self, setup_flags: u32, interrupts: u32) {
        self.interrupts([20, 20], [2, 2], [interrupts, 0]);
        let ring = RingSample { setup_flags: Some(setup_flags), ..RingSample::default() };
        self.last.rings = Some(RingsSample { rings: vec![ring], ..RingsSample::default() });
    }

    /// fio flushes plugs of these sizes, with so many I/Os in flight, and is on a CPU for this part of the time.
    pub fn plugs(&mut self, sizes: &[(u32, u64)], in_flight: f64, running: f64) {
        self.computes(running);
        self.own().comm = "fio".into();
        self.disk("vda", 10_000, in_flight, 99.0);
        self.cpu_samples(&["do_syscall_64", "blk_mq_submit_bio"], 200);
        let task =
            TaskBlocks { comm: "fio".into(), unplugs: sizes.to_vec(), ..TaskBlocks::default() };
        self.last.blocks = Some(BlocksSample { tasks: vec![task], ..BlocksSample::default() });
    }

    /// An SQPOLL thread that uses a CPU for this part of the time, with work for that part of it, beside a thread that needs
    /// the same CPUs.
    pub fn sq_poll(&mut self, used: f64, with_work: f64, runnable: f64) {
        self.no_threads();
        self.state(ThreadState::OnCpu, 1.0 - runnable);
        self.state(ThreadState::Runnable, runnable);
        let total_us = (used * NS as f64 / 1e3) as u64;
        let work_us = Some((total_us as f64 * with_work) as u64);
        let thread = SqPollThread { thread: 9, cpu: None, total_us: Some(total_us), work_us };
        let ring = RingSample { sq_poll: Some(thread), ..RingSample::default() };
        self.last.rings = Some(RingsSample { rings: vec![ring], ..RingsSample::default() });
        self.busy(98);
    }

    /// A run whose job may use these CPUs, and shares CPU 1 with its SQPOLL thread, while CPU 0 is idle.
    pub fn sq_poll_on_a_cpu(&mut self, cpus: &[u32]) {
        self.sq_poll(0.5, 0.1, 0.5);
        self.spends(&[(ThreadState::OnCpu, 0.5), (ThreadState::Runnable, 0.5)]);
        let cpu = |cpu, user: u64| CpuSample {
            cpu,
            user,
            idle: 100 * SECONDS - user,
            ..CpuSample::default()
        };
        self.system().cpus = vec![cpu(0, 0), cpu(1, 100 * SECONDS)];
        self.record.header.kind = RecordKind::Run;
        let order = Order::Sequential { skip: 0 };
        let mut plan =
            JobPlan::new("a", Engine::IoUring(Uring::default()), Mix::Only(Dir::Read), order);
        plan.placement.cpus = cpus.to_vec();
        self.record.plan.jobs = vec![plan];
    }

    /// So many I/Os are merged into each read of the device.
    pub fn merges(&mut self, name: &str, per_request: u64) {
        let disk = self.last.disks.iter_mut().find(|disk| disk.name == name).unwrap();
        disk.read.merges = disk.read.ios * per_request;
    }

    pub fn device(&mut self) -> &mut DeviceFacts {
        &mut self.record.header.sampling.as_mut().unwrap().devices[0]
    }

    pub fn system(&mut self) -> &mut SystemSample {
        self.last.system.as_mut().unwrap()
    }

    pub fn cgroup(&mut self) -> &mut CgroupSample {
        self.system().cgroup.as_mut().unwrap()
    }

    pub fn own(&mut self) -> &mut ProcessUse {
        &mut self.last.processes.as_mut().unwrap().watched
    }

    pub fn others(&mut self) -> &mut Vec<ProcessUse> {
        &mut self.last.processes.as_mut().unwrap().others
    }

    fn threads_sample(&mut self) -> &mut ThreadsSample {
        self.last.threads.as_mut().unwrap()
    }

    /// All CPUs busy for `percent` of the time.
    pub fn busy(&mut self, percent: u64) {
        let user = percent * SECONDS;
        let cpu = CpuSample { user, idle: 100 * SECONDS - user, ..CpuSample::default() };
        self.system().cpus = vec![cpu];
    }

    /// No program is watched.
    pub fn whole_machine(&mut self) {
        let watch = self.record.header.sampling.as_mut().unwrap();
        (watch.command, watch.pids) = (None, Vec::new());
        *self.own() = ProcessUse::default();
    }

    /// It is a run with this process ID, with samples of the whole machine.
    pub fn run_of_its_own(&mut self, pid: i32) {
        self.whole_machine();
        self.record.header.kind = RecordKind::Run;
        self.own().pid = pid;
    }

    /// A run whose job has a rate limit.
    pub fn has_a_rate(&mut self) {
        self.record.header.kind = RecordKind::Run;
        let order = Order::Sequential { skip: 0 };
        let mut plan = JobPlan::new("a", Engine::Psync(Psync::Plain), Mix::Only(Dir::Read), order);
        plan.rate.read = Some(Rate::Iops(200));
        self.record.plan.jobs = vec![plan];
    }

    /// A run whose job had this many I/Os in flight.
    pub fn job_of_its_own(&mut self, dir: Dir, in_flight: f64) {
        self.record.header.kind = RecordKind::Run;
        let mut job = JobRecord { runtime_ns: NS, ..JobRecord::default() };
        job.dirs[dir].counts.ios = 1;
        job.dirs[dir].clat.record((in_flight * NS as f64) as u64);
        self.record.jobs = vec![job];
    }

    /// A run whose job wrote so many MiB in each second, through the page cache if `buffered`; `change` completes the
    /// samples.
    pub fn run_over_time(&mut self, mib: fn(u64) -> u64, buffered: bool, change: fn(&mut Second)) {
        self.record.header.kind = RecordKind::Run;
        let order = Order::Sequential { skip: 0 };
        self.record.plan.jobs =
            vec![JobPlan::new("a", Engine::Psync(Psync::Plain), Mix::Only(Dir::Write), order)];
        let mut job = JobRecord { runtime_ns: NS, ..JobRecord::default() };
        job.granted.direct = !buffered;
        self.seconds.clear();
        for second in 1..=SECONDS {
            let counts = &mut job.dirs.write.counts;
            (counts.ios, counts.bytes) =
                (counts.ios + mib(second), counts.bytes + (mib(second) << 20));
            let dirs = PerDir { write: *counts, ..PerDir::default() };
            let jobs = vec![JobSample { phase: Phase::Running, dirs, ..JobSample::default() }];
            let machine = self.machine_at(second);
            let mut second = Second { second, machine, jobs };
            change(&mut second);
            self.seconds.push(second);
        }
        self.record.jobs = vec![job];
        self.end_with_the_last_second();
    }

    fn machine_at(&self, second: u64) -> MachineSample {
        let system = SystemSample { cgroup: Some(cgroup()), ..SystemSample::default() };
        match second {
            SECONDS => self.last.clone(),
            _ => MachineSample { system: Some(system), ..MachineSample::default() },
        }
    }

    fn end_with_the_last_second(&mut self) {
        self.last = self.seconds.last().unwrap().machine.clone();
    }

    /// Meanwhile, vda writes so many MiB in each second, and dirty pages grow for five seconds.
    pub fn writes_over_time(&mut self, mib: u64) {
        for second in &mut self.seconds {
            let mut disk = DiskCounters { name: "vda".into(), ..DiskCounters::default() };
            disk.write.ios = second.second * mib;
            disk.write.sectors = second.second * mib * 2048;
            second.machine.disks = vec![disk];
            second.machine.system.as_mut().unwrap().memory.dirty =
                second.second.min(5) * (2 << 30) / 5;
        }
        self.end_with_the_last_second();
    }

    /// From this second on, this I/O limit holds, and vda writes 250 MiB/s.
    pub fn io_limit_from(&mut self, from: u64, entry: &str) {
        self.writes_over_time(250);
        for second in self.seconds.iter_mut().filter(|second| second.second >= from) {
            let group = second.machine.system.as_mut().unwrap().cgroup.as_mut().unwrap();
            group.io_limits = vec![entry.to_string()];
        }
        self.end_with_the_last_second();
    }

    /// The program's disk reads so many MiB in each second, with so many I/Os in flight.
    pub fn disk_over_time(&mut self, at: fn(u64) -> (u64, u32)) {
        let mut disk = DiskCounters { name: "vda".into(), ..DiskCounters::default() };
        self.seconds.clear();
        for second in 1..=SECONDS {
            let (mib, in_flight) = at(second);
            disk.read.ios += mib;
            disk.read.sectors += mib * 2048;
            disk.read.ticks_ms += in_flight * 1000;
            (disk.weighted_ms, disk.busy_ms) = (disk.read.ticks_ms, 1000 * second as u32);
            let machine = MachineSample { disks: vec![disk.clone()], ..self.machine_at(second) };
            self.seconds.push(Second { second, machine, jobs: Vec::new() });
        }
        self.end_with_the_last_second();
    }

    /// Other programs do nothing before this second.
    pub fn others_begin_at(&mut self, begin: u64) {
        let all = self.last.processes.clone().unwrap();
        for second in &mut self.seconds {
            let mut now = ProcessesSample { elapsed_ns: NS / SECONDS, ..all.clone() };
            for other in &mut now.others {
                let part = if second.second >= begin { 1 } else { 0 };
                other.disk_read = other.disk_read / SECONDS * part;
                other.cpu_ns = other.cpu_ns / SECONDS * part;
            }
            second.machine.processes = Some(now);
        }
        self.end_with_the_last_second();
    }

    /// A run of such reads, whose file is held by these.
    pub fn job_on(&mut self, held_by: HeldBy) {
        self.job_of_its_own(Dir::Read, 16.0);
        let target = TargetFacts { held_by, ..TargetFacts::default() };
        self.record.header.facts.targets = vec![target];
    }

    /// Another program that used `cpus` CPUs and read `bytes` a second.
    pub fn other(&mut self, comm: &str, cpus: f64, bytes: u64) {
        self.others().push(ProcessUse {
            comm: comm.into(),
            pid: 812,
            processes: 1,
            cpu_ns: (cpus * NS as f64) as u64,
            disk_read: bytes * SECONDS,
            ..ProcessUse::default()
        });
    }

    /// Connections with another machine, with so many segments in all.
    pub fn remote(&mut self, address: &str, segments: u64) -> &mut RemotePeer {
        let remotes = &mut self.last.processes.as_mut().unwrap().remotes;
        remotes.push(RemotePeer {
            address: address.into(),
            connections: 1,
            segments,
            rtt_us: 200,
            pid: 0,
            comm: "server".into(),
        });
        remotes.last_mut().unwrap()
    }

    /// Another program that computes, and the time of the watched program's threads.
    pub fn hog(&mut self, cpus: f64, running: f64, runnable: f64) {
        self.busy(95);
        self.other("stress-ng", cpus, 0);
        self.state(ThreadState::Runnable, runnable);
        self.state(ThreadState::OnCpu, running);
    }

    /// The program may only use CPU 1, which is busy for `percent` of the time, as CPU 0 is for the rest.
    pub fn bound_to_a_cpu(&mut self, percent: u64) {
        self.hog(1.0, 0.3, 0.4);
        let cpu = |cpu, percent: u64| {
            let user = percent * SECONDS;
            CpuSample { cpu, user, idle: 100 * SECONDS - user, ..CpuSample::default() }
        };
        self.system().cpus = vec![cpu(0, 100 - percent), cpu(1, percent)];
        self.last.processes.as_mut().unwrap().cpus_allowed = "1".into();
    }

    pub fn io_limit(&mut self, limit: u64) {
        self.cgroup().io_limits = vec![format!("/db vda riops={limit}")];
    }

    pub fn throttled(&mut self, us: u64) {
        (self.cgroup().cpu_limit, self.cgroup().throttled_us) = (Some(0.2), Some(us));
        self.no_threads();
        self.state(ThreadState::OnCpu, 0.2);
        self.state(ThreadState::Runnable, 0.8);
    }

    /// A memory limit that is hit so often a second, and pages reclaimed and read again a second.
    pub fn memory_limit(&mut self, hits: u64, again: u64) {
        let group = self.cgroup();
        (group.memory_limit, group.memory_used) = (Some(64 << 20), Some(64 << 20));
        group.memory_hits = Some(hits * SECONDS);
        let paging = &mut self.system().paging;
        (paging.steal_file, paging.refault_file) = (20_000 * SECONDS, again * SECONDS);
        paging.in_kib = 40_000 * SECONDS;
    }

    pub fn stalled_for_memory(&mut self, share: f64) {
        let memory = Pressure { some_us: (share * NS as f64 / 1e3) as u64, full_us: 0 };
        self.system().pressure = Some(PressureSample { memory, ..PressureSample::default() });
    }

    pub fn swaps(&mut self, pages: u64) {
        self.system().paging.swap_in = pages * SECONDS;
        self.own().major_faults = pages * SECONDS;
        self.disk("zram0", pages, 0.1, 10.0);
    }

    /// Others swap, and the program's page faults wait in this function.
    pub fn faults(&mut self, function: &str) {
        self.swaps(5000);
        self.spends(&[(ThreadState::PageFault, 0.8), (ThreadState::OnCpu, 0.2)]);
        let wait = waits(ThreadState::PageFault, function, NS / 10 * 8);
        let thread =
            SwitchedThread { pid: PID, tid: PID, waits: vec![wait], ..SwitchedThread::default() };
        self.last.off_cpu =
            Some(OffCpuSample { seen_ns: NS, threads: vec![thread], ..OffCpuSample::default() });
    }

    pub fn syncs(&mut self, syncing: f64) {
        self.no_threads();
        self.state(ThreadState::OnCpu, 1.0 - syncing);
        self.threads("fio", ThreadState::Disk, "fdatasync", "jbd2_log_wait_commit", syncing);
        self.disk("vda", 0, 0.6, 60.0);
        let disk = &mut self.last.disks[0];
        (disk.flush.ios, disk.flush.ticks_ms) = (500 * SECONDS, 2000);
    }

    /// So many calls of 5 ms, recorded for `seen_ns`.
    pub fn calls(&mut self, call: &str, count: u64, seen_ns: u64) {
        let mut of = CallTimes { call: call.into(), ..CallTimes::default() };
        of.latency.record_n(5_000_000, count);
        self.last.calls = Some(CallsSample { seen_ns, calls: vec![of], ..CallsSample::default() });
    }

    /// So many flushes a second of a device, which take `ms` in all.
    pub fn flushes(&mut self, name: &str, per_second: u64, ms: u32) {
        let disk = self.last.disks.iter_mut().find(|disk| disk.name == name).unwrap();
        (disk.flush.ios, disk.flush.ticks_ms) = (per_second * SECONDS, ms);
    }

    /// A run that writes one block at a time, and waits 60% of the time.
    pub fn writes_of_its_own(&mut self, sync_io: SyncIo, direct: bool) {
        self.spends(&[(ThreadState::Disk, 0.6), (ThreadState::OnCpu, 0.4)]);
        self.writes("vda", 5000, 0.2, 60.0);
        self.job_of_its_own(Dir::Write, 1.0);
        let order = Order::Sequential { skip: 0 };
        let mut plan = JobPlan::new("a", Engine::Psync(Psync::Plain), Mix::Only(Dir::Write), order);
        (plan.sync_io, plan.direct) = (sync_io, direct);
        self.record.plan.jobs = vec![plan];
    }

    /// Two of io_uring's worker threads are on a CPU most of the time, in these functions.
    pub fn works_in_io_wq(&mut self, kernel: &[&str]) {
        self.spends(&[(ThreadState::OnCpu, 0.9), (ThreadState::IoUring, 0.1)]);
        self.threads("iou-wrk-101", ThreadState::OnCpu, "", "", 0.9);
        self.cpu_samples(kernel, 200);
    }

    /// The program requests 1 GiB a second, of which this much reaches a disk in all.
    pub fn cached_reads(&mut self, disk_read: u64) {
        let own = self.own();
        (own.requested_read, own.disk_read) = (SECONDS << 30, disk_read);
    }

    /// The same for writes.
    pub fn cached_writes(&mut self, disk_write: u64) {
        let own = self.own();
        (own.requested_write, own.disk_write) = (SECONDS << 30, disk_write);
        self.writes("vdb", disk_write / SECONDS / 4096 + 1, 0.1, 1.0);
    }

    /// The watched program has this file open.
    pub fn file(&mut self, size: u64, allocated: u64, in_memory: bool) {
        let path = "/data/file".into();
        let file = ProcessFile { path, size, allocated, in_memory, ..ProcessFile::default() };
        self.last.processes.as_mut().unwrap().files.push(file);
    }

    /// Four requests, of which `queue` are in use, while this many threads wait for one.
    pub fn tags(&mut self, queue: f64, util: f64, waiting: f64) {
        self.device().nr_requests = Some(4);
        self.disk("vda", 10_000, queue, util);
        self.threads("fio", ThreadState::Disk, "io_submit", "blk_mq_get_tag", waiting);
    }

    fn blocks(&mut self, name: &str) -> &mut DeviceBlocks {
        let blocks = self.last.blocks.get_or_insert_with(BlocksSample::default);
        blocks.devices.push(DeviceBlocks { name: name.into(), ..DeviceBlocks::default() });
        blocks.devices.last_mut().unwrap()
    }

    /// A further device with this scheduler.
    pub fn scheduled(&mut self, name: &str, scheduler: &str) {
        let (name, scheduler) = (name.into(), Some(scheduler.into()));
        let device = DeviceFacts { name, scheduler, ..DeviceFacts::default() };
        self.record.header.sampling.as_mut().unwrap().devices.push(device);
    }

    /// I/Os wait so long before they are issued, of a millisecond in all; a few far longer.
    pub fn held_requests(&mut self, name: &str, held_us: u64) {
        let blocks = self.blocks(name);
        blocks.queue.record_n(held_us * 1000, 1000);
        blocks.queue.record_n(20_000_000, 5);
        blocks.driver.record_n((1000 - held_us) * 1000, 1005);
        blocks.ops = vec![OpTimes { op: BlockOp::Read, driver: blocks.driver.clone() }];
    }

    /// The same, and most completions were not recorded.
    pub fn held_requests_unended(&mut self, name: &str, held_us: u64) {
        self.last.blocks = None;
        self.held_requests(name, held_us);
        let blocks = self.last.blocks.as_mut().unwrap();
        blocks.devices[0].driver = fathom_model::Histogram::default();
        blocks.devices[0].driver.record_n((1000 - held_us) * 1000, 300);
    }

    /// The scheduler `name`, in which I/Os spend this part of the millisecond that they take.
    pub fn scheduler(&mut self, name: &str, held_us: u64) {
        self.device().scheduler = Some(name.into());
        self.held_requests("vda", held_us);
        self.disk("vda", 10_000, 10.0, 99.0);
    }

    /// So many splits a second, of 10,000 requests of vda.
    pub fn splits(&mut self, limit: &str, splits: u64) {
        self.splits_on("vda", limit, splits);
    }

    pub fn splits_on(&mut self, device: &str, limit: &str, splits: u64) {
        let blocks = self.blocks(device);
        blocks.split = splits * SECONDS;
        blocks.splits = vec![SplitSamples { limit: limit.into(), bytes: 128 << 10, samples: 100 }];
    }

    /// CPU samples in one kernel stack.
    pub fn cpu_samples(&mut self, kernel: &[&str], count: u32) {
        let kernel = kernel.iter().map(ToString::to_string).collect();
        self.stacks = vec![Stack { kernel, ..Stack::default() }];
        let count = StackCount { stack: 0, count, period: 1000, ..StackCount::default() };
        self.last.stacks = Some(StacksSample { counts: vec![count], ..StacksSample::default() });
    }

    pub fn observed(&self) -> Observed {
        let mut seen = Observed::default();
        seen.known_stacks.clone_from(&self.stacks);
        let mut first = MachineSample {
            system: Some(SystemSample { cgroup: Some(cgroup()), ..SystemSample::default() }),
            ..MachineSample::default()
        };
        let (before, now) = (first.system.as_mut().unwrap(), self.last.system.as_ref().unwrap());
        let groups = before.cgroup.as_mut().zip(now.cgroup.as_ref());
        if let Some((before, now)) = groups {
            (before.cpu_limit, before.memory_limit) = (now.cpu_limit, now.memory_limit);
            before.memory_refaults = now.memory_refaults.map(|_| 0);
        }
        before.pressure = now.pressure.map(|_| PressureSample::default());
        let cpu = |now: &CpuSample| CpuSample { cpu: now.cpu, ..CpuSample::default() };
        before.cpus = now.cpus.iter().map(cpu).collect();
        let zero = |disk: &DiskCounters| DiskCounters {
            name: disk.name.clone(),
            ..DiskCounters::default()
        };
        first.disks = self.last.disks.iter().map(zero).collect();
        seen.add(&Sample { machine: first, ..Sample::default() });
        for Second { second, machine, jobs } in &self.seconds {
            let elapsed_ns = second * NS / SECONDS;
            seen.jobs_over_time.add(elapsed_ns, jobs);
            if elapsed_ns < NS {
                seen.add(&Sample { elapsed_ns, machine: machine.clone(), ..Sample::default() });
            }
        }
        seen.add(&Sample { elapsed_ns: NS, machine: self.last.clone(), ..Sample::default() });
        seen
    }

    pub fn with_view<T>(&self, judge: impl FnOnce(&View) -> T) -> T {
        judge(&View::new(&self.record, &self.record.header.findings, &self.observed()))
    }

    pub fn verdict(&self) -> Vec<Finding> {
        verdict(&self.record, &self.record.header.findings, &self.observed())
    }

    pub fn causes(&self) -> Vec<Finding> {
        let noted = noted(&self.record, &self.record.header.findings, &self.observed());
        let all = self.verdict().into_iter().chain(noted);
        all.filter(|finding| finding.rule != INCONCLUSIVE.id).collect()
    }

    /// Why there is no cause.
    pub fn inconclusive(&self) -> String {
        let found = self.verdict();
        let [Finding { rule, summary, next_step, .. }] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(rule, INCONCLUSIVE.id);
        let step = next_step.as_ref().map_or_else(String::new, |step| format!(" {step}"));
        format!("{}{step}", summary.trim_start_matches("inconclusive: "))
    }
}

fn cgroup() -> CgroupSample {
    CgroupSample {
        path: "/db".into(),
        throttled_us: Some(0),
        memory_hits: Some(0),
        ..CgroupSample::default()
    }
}
