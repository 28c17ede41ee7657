//! The io_uring engine.

mod bsg;
mod mode;
mod modifiers;
mod nvme;
mod ring;
mod setup;

pub(crate) use bsg::Bsg;
pub(crate) use mode::{Mode, Nop, Passthrough, ReadWrite, Vectored};
pub(crate) use modifiers::{AnyReadWrite, ForceAsync, WithRwFlags, without_nowait};
pub(crate) use nvme::{Commands, placements};

use crate::buffers::Slab;
use crate::clock;
use crate::error::{EngineError, Operation, ScsiError};
use crate::files::OpenFile;
use crate::queue::{Push, Queue, Request, Wake};
use crate::token::Token;
use fathom_model::plan;
use fathom_model::record::InEffect;
use linux_raw_sys::io_uring as sys;
use mode::{RingTarget, TargetView};
use ring::{Entries, Ring};
use std::io;
use std::os::fd::AsRawFd;
use sys::io_uring_register_op as Register;

/// At most this many poll requests on [`Wake`]: each takes memory.
const ARMED_MAX: u32 = 64;
/// Timeout of waits for more completions than that.
const NAP_NS: u64 = 50_000_000;
/// A feature introduced together with IORING_OP_READ and IORING_OP_WRITE.
const SINCE_5_6: u32 = sys::IORING_FEAT_RW_CUR_POS;
/// The kernel registers at most 1 GiB as one buffer.
const REGISTRATION_MAX: usize = 1 << 30;

pub(crate) struct UringQueue<M> {
    ring: Ring,
    target: RingTarget,
    mode: M,
    granted: InEffect,
    fallbacks: Vec<EngineError>,
    /// Armed poll requests on [`Wake`]: each adds one completion to a wait.
    armed: u32,
    /// Entries, from the next one on, that may not hold what [`Queue::batch_alike`] pushes.
    mixed_entries: u32,
}

pub(crate) struct RingInputs<'a> {
    pub plan: &'a plan::Uring,
    pub depth: u32,
    pub files: &'a [OpenFile],
    pub slab: &'a Slab,
    pub wake: &'a Wake,
    pub wait_max: u32,
    /// The device whose trims need io-wq, if any.
    pub async_trims: Option<&'a OpenFile>,
}

impl<M: Mode> UringQueue<M> {
    /// Creates the ring and registers what the plan requests.
    pub fn new(parts: &RingInputs<'_>, mode: M) -> Result<Self, EngineError> {
        let wanted = wanted(parts, M::WIDE);
        let mut ring = setup::ring(&wanted).map_err(|e| setup::explain(&e, &wanted))?;
        let mut granted = InEffect {
            setup_flags: setup::flag_names(ring.flags),
            refused_flags: setup::flag_names(wanted.optional & !ring.flags),
            features: setup::named(setup::FEATURES.into_iter(), ring.features),
            polled: ring.flags & sys::IORING_SETUP_IOPOLL != 0,
            huge_pages: parts.slab.is_huge(),
            ..InEffect::default()
        };
        granted.registered_ring = register_ring(&mut ring);
        let mut fallbacks = Vec::new();
        if let Some(device) = parts.async_trims {
            fallbacks.push(EngineError::new(Operation::IssueTrims).on(&device.path));
        }
        let mut target = RingTarget::new(parts.files, parts.slab);
        if parts.plan.registered_files && !parts.files.is_empty() {
            granted.registered_files = register_files(&ring, &mut target, &mut fallbacks);
        }
        if parts.plan.fixed_buffers
            && !parts.plan.vectored
            && parts.slab.slots() > 0
            && !parts.files.is_empty()
        {
            granted.fixed_buffers =
                register_buffers(&ring, &mut target, parts.slab, &mut fallbacks);
        }
        let takes_plain = !M::WIDE && !parts.plan.vectored && !parts.files.is_empty();
        if takes_plain && !granted.fixed_buffers && ring.features & SINCE_5_6 == 0 {
            return Err(EngineError::new(Operation::UseUnregistered));
        }
        target.registered();
        let mixed_entries = ring.size();
        let mut uring = Self { ring, target, mode, granted, fallbacks, armed: 0, mixed_entries };
        if !uring.granted.polled {
            let count = parts.wait_max.clamp(1, parts.depth.clamp(1, ARMED_MAX));
            let armed = uring.arm(parts.wake, count);
            armed.map_err(|error| EngineError::by_kernel(Operation::PollWake, &error))?;
        }
        Ok(uring)
    }

    /// Lets [`Wake::wake`] end a wait for `count` completions, at no cost per I/O.
    fn arm(&mut self, wake: &Wake, count: u32) -> io::Result<()> {
        let mut entries = self.ring.entries(M::WIDE);
        for _ in 0..count {
            let mut sqe = entries.next();
            let entry = sqe.words();
            *entry = [0; 8];
            entry[0] = sys::io_uring_op::IORING_OP_POLL_ADD as u64 | (wake.raw() as u64) << 32;
            entry[3] = (libc::POLLIN as u64) << 32;
            entry[4] = Token::WAKE.0;
        }
        drop(entries);
        self.ring.submit_and_wait(0, None)?;
        self.armed = count;
        self.ring.enters = 0;
        self.ring.wakeups = 0;
        Ok(())
    }
}

impl<M> UringQueue<M> {
    /// Unregisters buffers and files, unless that would wait for I/O. Closing the ring does so too, but
    /// asynchronously: until then the buffers count towards RLIMIT_MEMLOCK, and a device opened exclusively stays
    /// busy.
    fn release(&self) -> bool {
        // Kernels before 5.13 wait for all requests here, including the armed ones.
        let waits = self.ring.features & sys::IORING_FEAT_RSRC_TAGS == 0;
        let idle = self.ring.outstanding() == self.armed;
        let released = |what: Register| {
            setup::register(&self.ring.fd, what as u32, std::ptr::null(), 0).is_ok()
        };
        let (files, buffers) = (self.granted.registered_files, self.granted.fixed_buffers);
        idle && !waits
            && (!files || released(Register::IORING_UNREGISTER_FILES))
            && (!buffers || released(Register::IORING_UNREGISTER_BUFFERS))
    }
}

impl<M: Mode> UringQueue<M> {
    #[inline]
    fn begin(&mut self, repeats: bool) -> SqeBatch<'_, M> {
        SqeBatch {
            entries: self.ring.entries(M::WIDE),
            target: self.target.view(),
            mode: &mut self.mode,
            repeats,
        }
    }
}

impl<M> Drop for UringQueue<M> {
    fn drop(&mut self) {
        // On failure, the kernel does it when the ring is closed.
        let _ = self.release();
    }
}

pub(crate) struct SqeBatch<'a, M> {
    entries: Entries<'a>,
    target: TargetView<'a>,
    mode: &'a mut M,
    repeats: bool,
}

impl<M: Mode> Push for SqeBatch<'_, M> {
    #[inline]
    fn push(&mut self, token: Token, request: &Request) {
        let mut sqe = self.entries.next();
        if self.repeats {
            self.mode.repeat(&mut sqe, &self.target, token.slot(), request);
        } else {
            self.mode.encode(&mut sqe, &self.target, token.slot(), request);
        }
        sqe.words()[4] = token.0;
    }
}

impl<M: Mode> Push for UringQueue<M> {
    fn push(&mut self, token: Token, request: &Request) {
        self.batch().push(token, request);
    }
}

impl<M: Mode> Queue for UringQueue<M> {
    type Batch<'a>
        = SqeBatch<'a, M>
    where
        M: 'a;

    #[inline]
    fn sq_space_left(&self) -> u32 {
        self.ring.sq_space_left()
    }

    #[inline]
    fn batch(&mut self) -> SqeBatch<'_, M> {
        self.mixed_entries = self.ring.size();
        self.begin(false)
    }

    #[inline]
    fn batch_alike(&mut self, count: u32) -> SqeBatch<'_, M> {
        let repeats = M::REPEATS && self.mixed_entries == 0;
        self.mixed_entries = self.mixed_entries.saturating_sub(count);
        self.begin(repeats)
    }

    #[inline]
    fn submit_and_wait(&mut self, wait_for: u32, deadline_ns: Option<u64>) -> io::Result<()> {
        match deadline_ns {
            None if wait_for <= self.armed.max(1) => self.ring.submit_and_wait(wait_for, None),
            // The armed requests cannot end this wait: it needs a timeout.
            None => self.ring.submit_and_wait(wait_for, Some(&clock::timespec(NAP_NS))),
            Some(deadline) => {
                let timeout = clock::timespec(deadline.saturating_sub(clock::now_ns()));
                self.ring.submit_and_wait(wait_for, Some(&timeout))
            }
        }
    }

    #[inline]
    fn reap(&mut self, max: u32, mut each: impl FnMut(Token, i32)) {
        let mode = &self.mode;
        self.ring.reap(M::WIDE, max, |user_data, result, second| {
            let token = Token(user_data);
            each(token, mode.result_of_two(token.slot(), result, second));
        });
    }

    fn woken(&mut self, count: u32) {
        self.armed -= count;
    }

    fn system_calls(&self) -> u64 {
        self.ring.enters
    }

    fn priority(&self, slot: u32) -> u16 {
        self.mode.priority(slot)
    }

    fn last_failure(&self) -> Option<ScsiError> {
        self.mode.failure()
    }

    fn granted(&self) -> InEffect {
        InEffect { sq_wakeups: self.ring.wakeups, ..self.granted.clone() }
    }

    fn fallbacks(&self) -> &[EngineError] {
        &self.fallbacks
    }
}

fn wanted(parts: &RingInputs<'_>, wide: bool) -> setup::RingSetup {
    let plan = parts.plan;
    let mut required = if wide { sys::IORING_SETUP_SQE128 | sys::IORING_SETUP_CQE32 } else { 0 };
    let mut optional = setup::CHEAPER;
    if plan.iopoll {
        required |= sys::IORING_SETUP_IOPOLL;
    }
    if plan.hybrid_iopoll {
        required |= sys::IORING_SETUP_HYBRID_IOPOLL;
    }
    if let Some(sqpoll) = plan.sqpoll {
        required |= sys::IORING_SETUP_SQPOLL;
        // The SQPOLL thread runs completions too, so there is no task work to defer.
        optional &= !(sys::IORING_SETUP_DEFER_TASKRUN | sys::IORING_SETUP_COOP_TASKRUN);
        if sqpoll.cpu.is_some() {
            required |= sys::IORING_SETUP_SQ_AFF;
        }
    }
    let sqpoll = plan.sqpoll;
    setup::RingSetup {
        entries: parts.depth,
        required,
        optional,
        sq_cpu: sqpoll.and_then(|s| s.cpu).unwrap_or(0),
        sq_idle_ms: sqpoll.and_then(|s| s.idle_ms).unwrap_or(0),
    }
}

fn register_ring(ring: &mut Ring) -> bool {
    let mut update =
        sys::io_uring_rsrc_update { offset: u32::MAX, resv: 0, data: ring.fd.as_raw_fd() as u64 };
    let opcode = Register::IORING_REGISTER_RING_FDS as u32;
    match setup::register(&ring.fd, opcode, (&raw mut update).cast(), 1) {
        Ok(1) => {
            ring.use_registered(update.offset as i32);
            true
        }
        // Before 5.18, each call looks up the descriptor.
        _ => false,
    }
}

fn register_files(ring: &Ring, target: &mut RingTarget, fallbacks: &mut Vec<EngineError>) -> bool {
    let numbers: Vec<i32> = target.files.iter().map(|f| f.number).collect();
    let opcode = Register::IORING_REGISTER_FILES as u32;
    match setup::register(&ring.fd, opcode, numbers.as_ptr().cast(), numbers.len() as u32) {
        Ok(_) => {
            for (index, file) in target.files.iter_mut().enumerate() {
                file.number = index as i32;
                file.flags = 1 << sys::io_uring_sqe_flags_bit::IOSQE_FIXED_FILE_BIT as u32;
            }
            true
        }
        Err(error) => {
            let op = Operation::RegisterFiles(numbers.len());
            fallbacks.push(EngineError::by_kernel(op, &error));
            false
        }
    }
}

/// Whether the buffers need more than one registration.
pub(crate) fn needs_many(slab: &Slab) -> bool {
    slab.slots() > 1 << registration_shift(slab)
}

/// Binary logarithm of the slots per registration: the largest power of two that fits.
fn registration_shift(slab: &Slab) -> u32 {
    (REGISTRATION_MAX / slab.slot_bytes()).max(1).ilog2()
}

fn register_buffers(
    ring: &Ring,
    target: &mut RingTarget,
    slab: &Slab,
    fallbacks: &mut Vec<EngineError>,
) -> bool {
    let total = slab.slot_bytes() * slab.slots() as usize;
    let shift = registration_shift(slab);
    let vectors: Vec<libc::iovec> = (0..slab.slots())
        .step_by(1 << shift)
        .map(|first| {
            let slots = (slab.slots() - first).min(1 << shift);
            libc::iovec {
                iov_base: slab.address(first) as *mut libc::c_void,
                iov_len: slots as usize * slab.slot_bytes(),
            }
        })
        .collect();
    let opcode = Register::IORING_REGISTER_BUFFERS as u32;
    match setup::register(&ring.fd, opcode, vectors.as_ptr().cast(), vectors.len() as u32) {
        Ok(_) => {
            target.buffers.fixed = true;
            target.buffers.registration_shift = shift;
            true
        }
        Err(error) => {
            let op = Operation::RegisterBuffers(total);
            fallbacks.push(EngineError::by_kernel(op, &error));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::FileKind;
    use crate::token::Tag;
    use std::time::{Duration, Instant};

    /// Runs `check` on a ring with a file of 8 KiB and two registered buffers, on which `wait_max`
    /// completions are waited for.
    fn on_ring(wait_max: u32, check: impl FnOnce(&mut UringQueue<ReadWrite<false>>, &Wake)) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8192).unwrap();
        let fd = file.reopen().unwrap();
        fd.try_lock().unwrap();
        let files = [OpenFile {
            fd: fd.into(),
            kind: FileKind::Regular,
            path: "file".to_string(),
            created: false,
            trims: None,
        }];
        let slab = Slab::new(2, 4096, &plan::Buffers::default()).unwrap();
        let wake = Wake::new().unwrap();
        let plan =
            plan::Uring { fixed_buffers: true, registered_files: true, ..Default::default() };
        let parts = RingInputs {
            plan: &plan,
            depth: 2,
            files: &files,
            slab: &slab,
            wake: &wake,
            wait_max,
            async_trims: None,
        };
        let mut ring = UringQueue::new(&parts, ReadWrite::<false>).unwrap();
        assert!(ring.granted.fixed_buffers, "{:?}", ring.fallbacks);
        assert!(ring.granted.registered_files, "{:?}", ring.fallbacks);
        check(&mut ring, &wake);
        drop((ring, files));
        assert!(file.as_file().try_lock().is_ok(), "the ring that is gone holds its file");
    }

    fn reap_one(ring: &mut UringQueue<ReadWrite<false>>) {
        let mut results = Vec::new();
        while results.is_empty() {
            ring.submit_and_wait(1, None).unwrap();
            ring.reap(2, |_, result| results.push(result));
        }
        assert_eq!(results, [4096]);
    }

    const READ: Request = Request {
        op: crate::queue::Op::Io(fathom_model::Dir::Read),
        file: 0,
        offset: 4096,
        len: 4096,
        buffer_offset: 0,
    };

    #[test]
    fn files_and_buffers_are_given_back_when_nothing_is_in_flight() {
        on_ring(1, |ring, _| {
            let began = Instant::now();
            ring.batch().push(Token::new(1, Tag::SLOW_PATH), &READ);
            assert!(!ring.release(), "a request is in flight");
            reap_one(ring);
            assert!(ring.armed == 1 && ring.release());
            assert!(!ring.release(), "there are none any more");
            assert!(began.elapsed() < Duration::from_secs(5));
        });
    }

    #[test]
    fn a_wake_ends_a_wait_for_several() {
        on_ring(2, |ring, wake| {
            let began = Instant::now();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(100));
                    wake.wake();
                });
                while ring.armed > 0 {
                    ring.submit_and_wait(2, None).unwrap();
                    let mut count = 0;
                    ring.reap(4, |token, _| count += u32::from(token == Token::WAKE));
                    ring.woken(count);
                }
                assert!(began.elapsed() >= Duration::from_millis(100));
                assert!(ring.ring.enters < 3, "it slept in one call, without looking up");
            });
        });
    }

    #[test]
    fn files_and_buffers_are_given_back_after_a_wake() {
        on_ring(1, |ring, wake| {
            wake.wake();
            while ring.armed > 0 {
                ring.submit_and_wait(1, None).unwrap();
                let mut tokens = Vec::new();
                ring.reap(2, |token, _| tokens.push(token));
                if tokens == [Token::WAKE] {
                    ring.woken(1);
                }
            }
            ring.batch().push(Token::new(0, Tag::SLOW_PATH), &READ);
            assert!(!ring.release(), "a request is in flight");
            reap_one(ring);
            assert!(ring.release());
        });
    }
}
