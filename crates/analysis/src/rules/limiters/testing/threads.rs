//! What the threads of a scene do.

use super::{NS, PID, SECONDS, Scene};
use fathom_model::watch::{
    LockHolder, OffCpuSample, SwitchedThread, ThreadCount, ThreadState, ThreadTime, TimesOfThread,
    WaitSum,
};

impl Scene {
    /// A mean of `mean` threads in a state.
    pub fn state(&mut self, state: ThreadState, mean: f64) {
        let threads = self.threads_sample();
        threads.times.retain(|time| time.state != state);
        threads.times.push(ThreadTime { state, ns: (mean * NS as f64) as u64 });
    }

    /// The same, all in one system call and kernel function.
    pub fn threads(&mut self, comm: &str, state: ThreadState, call: &str, wchan: &str, mean: f64) {
        self.state(state, mean);
        let threads = self.threads_sample();
        threads.active.retain(|known| known.syscall != call || known.comm != comm);
        threads.active.push(ThreadCount {
            pid: PID,
            comm: comm.into(),
            state: if state == ThreadState::OnCpu { 'R' } else { 'D' },
            syscall: call.into(),
            wchan: wchan.into(),
            count: 10,
            ns: (mean * NS as f64) as u64,
            ..ThreadCount::default()
        });
    }

    /// One thread, whose time is known to have been spent so.
    pub fn spends(&mut self, shares: &[(ThreadState, f64)]) {
        self.no_threads();
        shares.iter().for_each(|(state, share)| self.state(*state, *share));
        let times = self.threads_sample().times.clone();
        let comm = "fio".to_string();
        let thread = TimesOfThread { pid: PID, tid: PID, comm, times, ..TimesOfThread::default() };
        self.threads_sample().by_thread = vec![thread];
    }

    /// The thread is asleep in that state, system call and function.
    pub fn sleeps(&mut self, state: ThreadState, call: &str, wchan: &str, mean: f64) {
        self.spends(&[(state, mean), (ThreadState::OnCpu, 1.0 - mean)]);
        let by_thread = std::mem::take(&mut self.threads_sample().by_thread);
        self.threads("fio", state, call, wchan, mean);
        self.threads_sample().by_thread = by_thread;
    }

    /// Its waits for the disk, all in one kernel function, were recorded.
    pub fn disk_waits(&mut self, function: &str, share: f64) {
        self.spends(&[(ThreadState::Disk, share), (ThreadState::OnCpu, 1.0 - share)]);
        let waits = vec![waits(ThreadState::Disk, function, (share * NS as f64) as u64)];
        let (pid, tid, comm) = (PID, PID, "fio".into());
        let thread = SwitchedThread { pid, tid, comm, waits, ..SwitchedThread::default() };
        let (seen_ns, threads) = (NS, vec![thread]);
        self.last.off_cpu = Some(OffCpuSample { seen_ns, threads, ..OffCpuSample::default() });
    }

    /// Its thread waits for a server, with so many threads, which spend this part of their time in a wait and the rest on a CPU.
    pub fn is_served(&mut self, threads: i32, state: ThreadState, function: &str, share: f64) {
        self.spends(&[(ThreadState::Socket, 1.0)]);
        let ns = (share * NS as f64) as u64;
        let answer =
            WaitSum { within: 1000, ..waits(ThreadState::Socket, "unix_stream_read_generic", NS) };
        let thread = |pid, tid, comm: &str, peer, wait| SwitchedThread {
            pid,
            tid,
            comm: comm.into(),
            peer,
            waits: vec![wait],
            run_ns: if peer { NS - ns } else { 0 },
            ..SwitchedThread::default()
        };
        let served = thread(PID, PID, "fio", false, answer);
        let servers =
            (0..threads).map(|n| thread(900, 900 + n, "server", true, waits(state, function, ns)));
        let threads = [served].into_iter().chain(servers).collect();
        self.last.off_cpu = Some(OffCpuSample { seen_ns: NS, threads, ..OffCpuSample::default() });
        self.own().disk_read = 0;
        self.other("server", 0.5, 40_960_000);
        (self.others()[0].peer, self.others()[0].pid) = (true, 900);
    }

    /// The thread waits in aio for one of 500 writes a second, of 540 µs each at the device, which is flushed so often.
    pub fn writes_asynchronously(&mut self, flushes: u64, sync: bool) {
        self.spends(&[(ThreadState::Aio, 0.9), (ThreadState::OnCpu, 0.1)]);
        self.writes("vda", 500, 0.27, 40.0);
        self.flushes("vda", flushes, 1000);
        (self.own().disk_read, self.own().disk_write) = (0, 4096 * 500 * SECONDS);
        self.file(1 << 30, 1 << 30, false);
        self.last.processes.iter_mut().for_each(|all| all.files[0].sync = sync);
    }

    /// No threads.
    pub fn no_threads(&mut self) {
        self.threads_sample().active.clear();
        self.threads_sample().times.clear();
        self.threads_sample().by_thread.clear();
    }

    pub fn sync_reads(&mut self, threads: f64) {
        self.no_threads();
        self.threads("fio", ThreadState::Disk, "pread64", "folio_wait_bit_common", threads);
        self.state(ThreadState::OnCpu, 0.2);
        self.disk("vda", 10_000, threads, 99.0);
    }

    pub fn lock(&mut self, waiting: f64, running: f64) {
        self.no_threads();
        self.state(ThreadState::FutexBrief, waiting);
        self.state(ThreadState::OnCpu, running);
        self.disk("vda", 0, 0.0, 0.0);
    }

    /// So many threads share a lock, which one of them always holds: in `held`.
    pub fn takes_turns(&mut self, threads: i32, held: ThreadState) {
        self.no_threads();
        let part = NS / threads as u64;
        let waiting = NS - part;
        let holder = |tid| LockHolder { tid, comm: "fio".into(), count: 1000, ns: 0 };
        let thread = |tid: i32| {
            let times = [(ThreadState::FutexBrief, waiting), (held, part)];
            let times = times.map(|(state, ns)| ThreadTime { state, ns }).to_vec();
            TimesOfThread { pid: PID, tid, comm: "fio".into(), times, ..TimesOfThread::default() }
        };
        let lock = |tid: i32| WaitSum {
            count: 1000 * (threads as u64 - 1),
            holders: (PID..PID + threads).filter(|other| *other != tid).map(holder).collect(),
            meanwhile: vec![ThreadTime { state: held, ns: waiting }],
            ..waits(ThreadState::Futex, "futex_wait_queue", waiting)
        };
        let disk = waits(ThreadState::Disk, "folio_wait_bit_common", part);
        let switched = |tid: i32| SwitchedThread {
            pid: PID,
            tid,
            comm: "fio".into(),
            waits: match held {
                ThreadState::Disk => vec![lock(tid), disk.clone()],
                _ => vec![lock(tid)],
            },
            ..SwitchedThread::default()
        };
        let tids = || PID..PID + threads;
        self.threads_sample().by_thread = tids().map(thread).collect();
        self.last.off_cpu = Some(OffCpuSample {
            seen_ns: NS,
            threads: tids().map(switched).collect(),
            ..OffCpuSample::default()
        });
        self.disk("vda", 0, 0.0, 0.0);
    }

    /// This thread does.
    pub fn ends_their_waits(&mut self, tid: i32) {
        let threads = self.last.off_cpu.as_mut().map(|sample| &mut sample.threads);
        for wait in threads.into_iter().flatten().flat_map(|thread| &mut thread.waits) {
            wait.holders = vec![LockHolder { tid, comm: "fio".into(), count: 1000, ns: 0 }];
        }
    }

    /// Three threads wait in `state` for a fourth, which is on a CPU for this share of the time.
    pub fn waits_for(&mut self, comm: &str, state: ThreadState, on_cpu: f64) {
        self.takes_turns(4, ThreadState::OnCpu);
        self.last.off_cpu = None;
        let ns = (on_cpu * NS as f64) as u64;
        let time = |state, ns| ThreadTime { state, ns };
        let threads = &mut self.threads_sample().by_thread;
        threads.iter_mut().for_each(|one| one.times = vec![time(state, NS)]);
        threads[3].times = vec![time(ThreadState::OnCpu, ns), time(ThreadState::Timer, NS - ns)];
        (threads[3].comm, threads[3].process) = (comm.into(), "fio".into());
    }

    pub fn kernel_lock(&mut self, waiting: f64, running: f64) {
        self.no_threads();
        let at = "ext4_buffered_write_iter";
        self.threads("fio", ThreadState::KernelLock, "pwrite64", at, waiting);
        self.state(ThreadState::OnCpu, running);
    }

    pub fn workers(&mut self, mean: f64) {
        self.threads("iou-wrk-101", ThreadState::Disk, "", "folio_wait_bit_common", mean);
    }

    pub fn computes(&mut self, running: f64) {
        self.no_threads();
        self.state(ThreadState::OnCpu, running);
        self.state(ThreadState::IoUring, 1.0 - running);
    }
}

/// Waits in one function, for so long in all.
pub(super) fn waits(cause: ThreadState, function: &str, ns: u64) -> WaitSum {
    WaitSum {
        cause,
        function: function.into(),
        count: 1000,
        ns,
        within: 0,
        holders: Vec::new(),
        meanwhile: Vec::new(),
    }
}

/// The program's only thread waits in the function `wchan` this part of the time.
pub(in crate::rules::limiters) fn held(scene: &mut Scene, wchan: &str, share: f64) {
    scene.no_threads();
    scene.threads("fio", ThreadState::Disk, "io_uring_enter", wchan, share);
    scene.state(ThreadState::OnCpu, 1.0 - share);
}
