//! Hints to the kernel about a job's files, given before its first I/O, and priorities of single I/Os (`cmdprio_*`).

use crate::error::{EngineError, Operation};
use crate::files::{FileKind, OpenFile};
use crate::queue::{MappedRange, Op, Request};
use crate::source::below;
use fathom_model::plan::{Advice, CommandPriority, JobPlan, Region, WriteLife};
use fathom_model::{Dir, PerDir};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// F_SET_RW_HINT of linux/fcntl.h.
const F_SET_RW_HINT: libc::c_int = 1024 + 12;
/// BLKFLSBUF of linux/fs.h: `_IO(0x12, 97)`.
const BLKFLSBUF: libc::c_ulong = 0x1261;

/// Applies `fadvise_hint`, `write_hint` and `invalidate` of `job` to its files.
pub(crate) fn apply(job: &JobPlan, files: &[OpenFile]) -> Result<(), EngineError> {
    let cached = |file: &OpenFile| !job.direct && !is_passthrough(file);
    for (file, region) in files.iter().zip(&job.regions).filter(|(file, _)| cached(file)) {
        if job.invalidate {
            invalidate(file, region);
        }
        advise(file, job.advice)?;
    }
    let hinted = files.iter().filter(|file| !is_passthrough(file));
    match job.write_life.filter(|_| job.access.mix.has(Dir::Write)) {
        Some(life) => hinted.into_iter().try_for_each(|file| set_life(file, life)),
        None => Ok(()),
    }
}

const PRE_READ_BYTES: u64 = 1 << 20;

/// Reads the regions of `job` into the page cache (`pre_read`), until `stop` returns true.
pub(crate) fn pre_read(
    job: &JobPlan,
    files: &[OpenFile],
    stop: impl Fn() -> bool,
) -> Result<(), EngineError> {
    if !job.pre_read || !job.access.mix.has(Dir::Read) {
        return Ok(());
    }
    let mut buffer = vec![0_u8; PRE_READ_BYTES as usize];
    for (file, region) in files.iter().zip(&job.regions) {
        let (mut at, end) = (region.start, region.start.saturating_add(region.len));
        while at < end && !stop() {
            let len = (end - at).min(PRE_READ_BYTES) as usize;
            let got = rustix::io::pread(&file.fd, &mut buffer[..len], at);
            let got = got.and_then(|got| if got == 0 { Err(Errno::NODATA) } else { Ok(got) });
            let failed = EngineError::by(Operation::PreRead(at));
            at += got.map_err(|error| failed(error).on(&file.path))? as u64;
        }
    }
    Ok(())
}

pub(crate) fn is_passthrough(file: &OpenFile) -> bool {
    matches!(file.kind, FileKind::NvmeGeneric { .. } | FileKind::Scsi { .. })
}

/// Drops the pages of a job's region from the page cache, and all of a block device; as in fio, dirty pages of regular
/// files stay.
fn invalidate(file: &OpenFile, region: &Region) {
    if matches!(file.kind, FileKind::Block { .. }) {
        // SAFETY: BLKFLSBUF takes no argument. Without privilege it fails, and the advice below remains.
        unsafe { libc::ioctl(file.raw(), BLKFLSBUF, 0) };
    }
    drop_pages(file.raw(), region);
}

/// Drops the clean pages of a region of a file from the page cache.
pub(crate) fn drop_pages(fd: i32, region: &Region) {
    let (start, len) = (region.start.cast_signed(), region.len.cast_signed());
    // SAFETY: takes no pointers. Only an invalid descriptor makes it fail.
    unsafe { libc::posix_fadvise(fd, start, len, libc::POSIX_FADV_DONTNEED) };
}

/// Unmaps the pages of a mapping; the next access maps them again.
pub(crate) fn unmap_pages(mapping: MappedRange) {
    // SAFETY: the queue keeps the mapping, whose pages hold nothing that the file does not.
    unsafe { libc::madvise(mapping.address as *mut _, mapping.bytes, libc::MADV_DONTNEED) };
}

/// Frees the blocks of `regions` in the files that this run created, which keep their size (`unlink_each_loop`).
pub(crate) fn free_blocks(files: &[OpenFile], regions: &[Region]) -> Result<(), EngineError> {
    for (file, region) in files.iter().zip(regions).filter(|(file, _)| file.created) {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let freed = rustix::fs::fallocate(&file.fd, mode, region.start, region.len);
        let failed = EngineError::by(Operation::FreeBlocks);
        freed.map_err(|error| failed(error).on(&file.path))?;
    }
    Ok(())
}

fn advise(file: &OpenFile, advice: Advice) -> Result<(), EngineError> {
    let value = match advice {
        Advice::None => return Ok(()),
        Advice::Sequential => rustix::fs::Advice::Sequential,
        Advice::Random => rustix::fs::Advice::Random,
        Advice::NoReuse => rustix::fs::Advice::NoReuse,
    };
    let advised = rustix::fs::fadvise(&file.fd, 0, None, value);
    advised.map_err(|error| EngineError::by(Operation::Advise)(error).on(&file.path))
}

fn set_life(file: &OpenFile, life: WriteLife) -> Result<(), EngineError> {
    // RWH_WRITE_LIFE_* of linux/fcntl.h.
    let value: u64 = match life {
        WriteLife::None => 1,
        WriteLife::Short => 2,
        WriteLife::Medium => 3,
        WriteLife::Long => 4,
        WriteLife::Extreme => 5,
    };
    // SAFETY: F_SET_RW_HINT reads one number.
    if unsafe { libc::fcntl(file.raw(), F_SET_RW_HINT, &raw const value) } == 0 {
        return Ok(());
    }
    Err(EngineError::last(Operation::HintWriteLife).on(&file.path))
}

pub(crate) struct Priorities {
    rules: PerDir<Vec<CommandPriority>>,
    random: Xoshiro256PlusPlus,
}

impl Priorities {
    pub fn new(job: &JobPlan) -> Option<Self> {
        // The seed of the offsets, which must not follow from the same numbers.
        let random = Xoshiro256PlusPlus::seed_from_u64(job.access.seed ^ 0x0070_7269_6f72_6974);
        let rules = job.priorities.clone();
        (!rules.is_empty()).then_some(Self { rules, random })
    }

    /// The value for `request`; 0 is the priority of the thread.
    pub fn next(&mut self, request: &Request) -> u16 {
        let Op::Io(dir) = request.op else { return 0 };
        let mut pick = below(&mut self.random, 100) as u32;
        for rule in &self.rules[dir] {
            if rule.block.is_some_and(|bytes| bytes != u64::from(request.len)) {
                continue;
            }
            if pick < rule.percent {
                return rule.value;
            }
            pick -= rule.percent;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::Dir;
    use fathom_model::plan::{Engine, Mix, Order, Psync};
    use std::io::Write;

    const PAGE: usize = 4096;

    fn cached_pages(fd: i32, pages: usize) -> Vec<bool> {
        let mut flags = vec![0_u8; pages];
        let (none, len) = (std::ptr::null_mut(), pages * PAGE);
        // SAFETY: a new mapping, which is not read, and a byte for each of its pages.
        unsafe {
            let map = libc::mmap(none, len, libc::PROT_READ, libc::MAP_SHARED, fd, 0);
            assert_ne!(map, libc::MAP_FAILED);
            assert_eq!(libc::mincore(map, len, flags.as_mut_ptr()), 0);
            libc::munmap(map, len);
        }
        flags.iter().map(|flag| flag & 1 == 1).collect()
    }

    #[test]
    fn pages_are_dropped_from_the_region_of_a_job_only() {
        // On the disk, not on tmpfs, whose pages stay.
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        // Page by page: the cache has no larger units then, which are dropped as a whole or not at all.
        (0..64).for_each(|_| file.write_all(&[7; PAGE]).unwrap());
        file.sync_all().unwrap();
        let file = OpenFile {
            fd: file.into(),
            kind: FileKind::Regular,
            path: "file".into(),
            created: false,
            trims: None,
        };
        assert!(cached_pages(file.raw(), 64).iter().all(|cached| *cached));
        let order = Order::Sequential { skip: 0 };
        let mut job = JobPlan::new("t", Engine::Psync(Psync::Plain), Mix::Only(Dir::Read), order);
        job.invalidate = true;
        job.regions = vec![Region { target: 0, start: 16 * PAGE as u64, len: 8 * PAGE as u64 }];
        apply(&job, std::slice::from_ref(&file)).unwrap();
        let cached = cached_pages(file.raw(), 64);
        let missing: Vec<usize> = (0..64).filter(|page| !cached[*page]).collect();
        assert_eq!(missing, (16..24).collect::<Vec<_>>());
        (job.invalidate, job.pre_read) = (false, true);
        pre_read(&job, std::slice::from_ref(&file), || true).unwrap();
        assert!(!cached_pages(file.raw(), 64)[16], "stopped");
        pre_read(&job, std::slice::from_ref(&file), || false).unwrap();
        assert!(cached_pages(file.raw(), 64)[16..24].iter().all(|cached| *cached));
    }

    #[test]
    fn each_block_size_has_its_shares() {
        let order = Order::Sequential { skip: 0 };
        let mut job = JobPlan::new("t", Engine::Libaio, Mix::Only(Dir::Read), order);
        assert!(Priorities::new(&job).is_none());
        let rule = |block, percent, value| CommandPriority { block, percent, value };
        job.priorities.read =
            vec![rule(Some(4096), 25, 1), rule(Some(8192), 100, 2), rule(Some(4096), 75, 3)];
        let mut priorities = Priorities::new(&job).unwrap();
        let mut count = |op, len, value| {
            let request = Request { op, file: 0, offset: 0, len, buffer_offset: 0 };
            (0..10_000).filter(|_| priorities.next(&request) == value).count()
        };
        assert!(count(Op::Io(Dir::Read), 4096, 1).abs_diff(2500) < 200);
        assert_eq!(count(Op::Io(Dir::Read), 4096, 0), 0);
        assert_eq!(count(Op::Io(Dir::Read), 8192, 2), 10_000);
        assert_eq!(count(Op::Io(Dir::Read), 512, 0), 10_000);
        assert_eq!(count(Op::Io(Dir::Write), 4096, 0), 10_000);
        assert_eq!(count(Op::Fsync, 4096, 0), 10_000);
    }
}
