//! Loads from and stores to memory mappings of the targets.

use crate::error::{EngineError, Hint, Operation};
use crate::files::{FileKind, OpenFile};
use crate::queue::{MappedRange, Op, Request};
use crate::sync_queue::{SyncEngine, last_error, outcome, without_data};
use fathom_model::Dir;
use fathom_model::plan::{Advice, JobPlan, Region, SyncIo};
use rustix::fs::OFlags;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize, compiler_fence};

pub(crate) struct Mmap {
    files: Vec<Mapped>,
    /// Write back each write, as O_SYNC and O_DSYNC do (`sync`), or each block (`direct`).
    syncs: bool,
    /// Unmap the pages of each block after its I/O (`direct`).
    drops: bool,
    calls: u64,
}

struct Mapped {
    fd: i32,
    kind: FileKind,
    protection: libc::c_int,
    address: *mut u8,
    bytes: usize,
    /// The byte of the target that is at `address`.
    offset: u64,
    page_bytes: usize,
    /// Whether a page could not be mapped again after an error: stores there would be lost.
    is_broken: bool,
}

impl Mmap {
    /// Maps the regions of `job`, which are in `files`.
    pub fn new(job: &JobPlan, files: &[OpenFile]) -> Result<Self, EngineError> {
        install_handler()
            .map_err(|error| EngineError::by_kernel(Operation::HandleBusErrors, &error))?;
        let map = |(file, region): (&OpenFile, &Region)| Mapped::new(job, file, region);
        let files = files.iter().zip(&job.regions).map(map).collect::<Result<_, _>>()?;
        let syncs = job.direct || job.sync_io != SyncIo::None;
        Ok(Self { files, syncs, drops: job.direct, calls: 0 })
    }

    fn copy(&mut self, dir: Dir, buffer: *mut libc::c_void, request: &Request) -> i32 {
        let file = &mut self.files[request.file as usize];
        if file.is_broken {
            return -libc::EIO;
        }
        let len = request.len as usize;
        let (address, at) = file.place(request);
        // SAFETY: both are `len` bytes long, the slot's memory and a part of the mapping, which do not overlap. The C
        // library copies, since other processes may change the file at the same time.
        let copied = caught(address, len, || unsafe {
            match dir {
                Dir::Read => libc::memcpy(buffer, at, len),
                _ => libc::memcpy(at, buffer, len),
            };
        });
        if !copied {
            self.calls += 1;
            return file.unavailable(dir, request);
        }
        if self.syncs && (self.drops || dir == Dir::Write) {
            self.calls += 1 + u64::from(self.drops);
            return file.write_back(request, self.drops);
        }
        len as i32
    }
}

/// Whether the target is open for writing: a trace may read one file and write another.
fn may_write(file: &OpenFile) -> bool {
    rustix::fs::fcntl_getfl(&file.fd).is_ok_and(|flags| flags & OFlags::RWMODE != OFlags::RDONLY)
}

impl Mapped {
    fn new(job: &JobPlan, file: &OpenFile, region: &Region) -> Result<Self, EngineError> {
        let mix = job.access.mix;
        let reads = mix.has(Dir::Read) || job.verify.is_some();
        let protection = if reads { libc::PROT_READ } else { 0 }
            | if job.modifies(Dir::Write) && may_write(file) { libc::PROT_WRITE } else { 0 };
        let page_bytes = page_bytes();
        let offset = region.start - region.start % page_bytes as u64;
        let bytes = (region.start + region.len - offset) as usize;
        // SAFETY: a new mapping at an address chosen by the kernel.
        let address = unsafe {
            let fd = file.raw();
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, offset as i64)
        };
        if address == libc::MAP_FAILED {
            let error = EngineError::last(Operation::Map(bytes)).on(&file.path);
            let is_limit = error.errno == libc::ENOMEM;
            return Err(error.hint(if is_limit { Hint::AddressSpace } else { Hint::Unsupported }));
        }
        let advice = match job.advice {
            Advice::Sequential => libc::MADV_SEQUENTIAL,
            Advice::Random => libc::MADV_RANDOM,
            Advice::None | Advice::NoReuse => libc::MADV_NORMAL,
        };
        // SAFETY: the mapping just made. Only advice: without it, the kernel reads ahead by its own rules.
        unsafe { libc::madvise(address, bytes, advice) };
        Ok(Self {
            fd: file.raw(),
            kind: file.kind,
            protection,
            address: address.cast(),
            bytes,
            offset,
            page_bytes,
            is_broken: false,
        })
    }

    fn place(&self, request: &Request) -> (usize, *mut libc::c_void) {
        let skip = (request.offset - self.offset) as usize;
        debug_assert!(skip + request.len as usize <= self.bytes);
        // SAFETY: requests are within the job's region, which is mapped.
        let at = unsafe { self.address.add(skip) };
        (at as usize, at.cast())
    }

    /// The pages that hold a request's bytes: their address and length.
    fn pages(&self, request: &Request) -> (*mut libc::c_void, usize) {
        let (address, at) = self.place(request);
        let before = address % self.page_bytes;
        // SAFETY: mappings begin with a page.
        let page = unsafe { at.byte_sub(before) };
        (page, (before + request.len as usize).next_multiple_of(self.page_bytes))
    }

    /// Writes a block back to the target, and with `drop` unmaps its pages.
    fn write_back(&self, request: &Request, drop: bool) -> i32 {
        let (page, bytes) = self.pages(request);
        // SAFETY: whole pages of the mapping.
        unsafe {
            if libc::msync(page, bytes, libc::MS_SYNC) != 0
                || drop && libc::madvise(page, bytes, libc::MADV_DONTNEED) != 0
            {
                return last_error();
            }
        }
        request.len as i32
    }

    /// The result of an I/O that some page was not available for; maps the file in its place again.
    #[cold]
    fn unavailable(&mut self, dir: Dir, request: &Request) -> i32 {
        let (page, bytes) = self.pages(request);
        let offset = self.offset + (page as usize - self.address as usize) as u64;
        // SAFETY: whole pages of the mapping, replaced by the same pages of the file.
        let again = unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            libc::mmap(page, bytes, self.protection, flags, self.fd, offset as i64)
        };
        self.is_broken = again == libc::MAP_FAILED;
        let end = request.offset + u64::from(request.len);
        match (self.end(), dir) {
            // Zero bytes: the target has shrunk since the run began.
            (Some(size), Dir::Read) if size < end => 0,
            (Some(size), _) if size < end => -libc::EFAULT,
            (_, Dir::Write) if self.is_full() => -libc::ENOSPC,
            _ => -libc::EIO,
        }
    }

    fn end(&self) -> Option<u64> {
        // SAFETY: takes no pointers. No other function uses the descriptor's position.
        u64::try_from(unsafe { libc::lseek(self.fd, 0, libc::SEEK_END) }).ok()
    }

    fn is_full(&self) -> bool {
        // SAFETY: all-zero bytes are a valid statvfs, and the call fills it.
        unsafe {
            let mut status: libc::statvfs = std::mem::zeroed();
            libc::fstatvfs(self.fd, &raw mut status) == 0 && status.f_bavail == 0
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: unmaps what `new` mapped, which nothing refers to any more.
        unsafe { libc::munmap(self.address.cast(), self.bytes) };
    }
}

// SAFETY: a mapping belongs to its worker alone.
unsafe impl Send for Mapped {}

impl SyncEngine for Mmap {
    fn execute(&mut self, buffer: *mut libc::c_void, request: &Request) -> i32 {
        match request.op {
            Op::Io(dir @ (Dir::Read | Dir::Write)) => self.copy(dir, buffer, request),
            Op::Io(Dir::Trim) => {
                self.calls += 1;
                let file = &self.files[request.file as usize];
                outcome(without_data(file.fd, file.kind, request))
            }
            // As in fio, for both: msync(2) of all that is mapped.
            Op::Fsync | Op::Fdatasync => {
                self.calls += 1;
                let file = &self.files[request.file as usize];
                // SAFETY: the whole mapping.
                outcome(unsafe {
                    libc::msync(file.address.cast(), file.bytes, libc::MS_SYNC) as isize
                })
            }
        }
    }

    fn system_calls(&self) -> u64 {
        self.calls
    }

    fn mappings(&self) -> Vec<MappedRange> {
        let mapping =
            |file: &Mapped| MappedRange { address: file.address as usize, bytes: file.bytes };
        self.files.iter().map(mapping).collect()
    }
}

// Bus errors: a page that cannot be read from its device, or is beyond the end of a truncated file. The kernel reports these
// with SIGBUS at the access. The handler puts an anonymous page in place of the one that is not available, so that the copy
// ends, and notes that it did; the engine then reports the I/O as failed and maps the file again.

static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// First address of what the thread is copying, and the one after the last.
    static FROM: AtomicUsize = const { AtomicUsize::new(0) };
    static TO: AtomicUsize = const { AtomicUsize::new(0) };
    /// Whether a page of it was replaced.
    static REPLACED: AtomicBool = const { AtomicBool::new(false) };
}

/// The action before ours, for bus errors that are not from mapped files.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

pub(crate) fn page_bytes() -> usize {
    // SAFETY: takes no pointers.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

pub(crate) fn install_handler() -> io::Result<()> {
    let mut result = Ok(());
    PAGE_BYTES.store(page_bytes(), Relaxed);
    BEFORE.get_or_init(|| {
        // SAFETY: all-zero bytes are a valid sigaction with an empty mask.
        let (mut action, mut before): (libc::sigaction, libc::sigaction) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        action.sa_sigaction = on_bus_error
            as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void)
            as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both are valid places for an action, and the handler calls only what signal-safety(7) allows.
        if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) } != 0 {
            result = Err(io::Error::last_os_error());
        }
        before
    });
    result
}

/// Calls `copy`, which accesses `bytes` from `address` on; returns whether all of it was available.
pub(crate) fn caught(address: usize, bytes: usize, copy: impl FnOnce()) -> bool {
    FROM.with(|from| from.store(address, Relaxed));
    TO.with(|to| to.store(address + bytes, Relaxed));
    // The handler must not run between these stores and what they announce.
    compiler_fence(SeqCst);
    copy();
    compiler_fence(SeqCst);
    TO.with(|to| to.store(0, Relaxed));
    REPLACED.with(|replaced| !replaced.swap(false, Relaxed))
}

extern "C" fn on_bus_error(
    _signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes valid information, which for SIGBUS has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let range = FROM.with(|from| from.load(Relaxed))..TO.with(|to| to.load(Relaxed));
    if range.contains(&address) {
        let bytes = PAGE_BYTES.load(Relaxed);
        let page = address & !(bytes - 1);
        // SAFETY: the page is part of a mapping of the engine, whose contents no one refers to.
        let put = unsafe {
            libc::mmap(
                page as *mut libc::c_void,
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if put != libc::MAP_FAILED {
            REPLACED.with(|replaced| replaced.store(true, Relaxed));
            return;
        }
    }
    // The access is repeated, now under the earlier action.
    if let Some(before) = BEFORE.get() {
        // SAFETY: an action that the kernel returned.
        unsafe { libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut()) };
    }
}
