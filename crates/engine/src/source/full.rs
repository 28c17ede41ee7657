//! The source for all jobs: drops the page cache before each further pass over a file, as fio does for buffered I/O; has
//! I/Os wait for those in flight that overlap them (`serialize_overlap`, `trimwrite`); and trims blocks before it writes them.

use super::replay::Replayer;
use super::{AnySource, IoGenerator, Source, Upcoming};
use crate::files::OpenFile;
use crate::hints::{drop_pages, unmap_pages};
use crate::queue::{MappedRange, Op, Request};
use crate::verify::Verifier;
use fathom_model::plan::{Distribution, JobPlan, Mix, Order, Region, Zoning};
use fathom_model::{Dir, PerDir};
use std::collections::VecDeque;
use std::os::fd::RawFd;

pub(crate) struct FullSource {
    blocks: Blocks,
    /// Whether I/Os wait for those in flight that overlap them. The worker does the waiting.
    serializes: bool,
    files: Vec<Pass>,
    apart: bool,
    /// Whether a write comes first, so that there is something to read below a write pointer.
    writes_first: bool,
    again: Option<Again>,
    /// What comes before the job's own I/Os.
    first: VecDeque<Request>,
}

enum Blocks {
    Any(AnySource),
    TrimWrite(TrimWrite),
    Replay(Replayer),
}

/// A job whose random I/Os are to be verified, for a time, begins again with the same ones after each pass, as in fio: of
/// what another job has written for some time, one pass is known to be written.
struct Again {
    job: Box<JobPlan>,
    pass_bytes: u64,
    left: u64,
}

impl Again {
    fn of(job: &JobPlan) -> Option<Self> {
        let may_miss = matches!(
            &job.access.order,
            Order::Random { distribution, .. } if *distribution != Distribution::EachOnce
        );
        let verifies = job.verify.is_some() && job.until.bytes.is_none();
        if !may_miss || !verifies || job.replay.is_some() || job.access.mix == Mix::TrimThenWrite {
            return None;
        }
        let pass_bytes = job.offset_regions().iter().map(|region| region.len).sum::<u64>();
        (pass_bytes > 0).then(|| Self { job: Box::new(job.clone()), pass_bytes, left: pass_bytes })
    }
}

struct Pass {
    fd: RawFd,
    region: Region,
    /// Pages that are mapped cannot be dropped.
    mapping: Option<MappedRange>,
    bytes: u64,
    left: PerDir<u64>,
}

/// Whether `job` reads or writes anything more than once through the page cache.
pub(crate) fn makes_passes(job: &JobPlan) -> bool {
    // As in fio, a job that skips blocks keeps what it cached.
    let passes = matches!(
        job.access.order,
        Order::Sequential { skip: ..=0 }
            | Order::Random { distribution: Distribution::EachOnce, .. }
    );
    let once: u64 = job.regions.iter().map(|region| region.len).sum();
    let again = job.until.bytes.is_none_or(|bytes| bytes > once);
    let generates = job.replay.is_none();
    passes && again && generates && job.invalidate && !job.direct && !job.regions.is_empty()
}

impl FullSource {
    /// The I/Os of `job` on `files`, and where the queue maps these, their mappings; with a journal, writes are in order.
    pub fn new(
        job: &JobPlan,
        files: &[OpenFile],
        mappings: &[MappedRange],
        has_journal: bool,
    ) -> Self {
        let unit = job.block_unit();
        let pass = |(index, file): (usize, &OpenFile)| {
            let region = job.regions[index];
            let bytes = region.len - region.len % unit;
            let mapping = mappings.get(index).copied();
            Pass { fd: file.raw(), region, mapping, bytes, left: PerDir::splat(bytes) }
        };
        let apart = matches!(job.access.order, Order::Sequential { .. });
        let files = if makes_passes(job) { files } else { &[] };
        let files = files.iter().enumerate().map(pass).collect();
        let has_pairs = job.access.mix == Mix::TrimThenWrite;
        let blocks = match &job.replay {
            Some(replay) => Blocks::Replay(Replayer::new(replay)),
            None if has_pairs => Blocks::TrimWrite(TrimWrite::new(AnySource::new(job))),
            None => Blocks::Any(AnySource::new(job)),
        };
        let serializes =
            has_pairs || job.serialize_overlap || Verifier::serializes(job, has_journal);
        let writes_first = matches!(job.access.zoning, Some(Zoning::WritePointers(z)) if !z.reads_beyond)
            && matches!(job.access.mix, Mix::ReadWrite { read_percent: ..100 });
        let again = Again::of(job);
        Self { blocks, serializes, files, apart, writes_first, again, first: VecDeque::new() }
    }
}

impl Source for FullSource {
    const FIXED: bool = false;
    const FULL: bool = true;
    type Batch<'a> = &'a mut Self;

    fn serializes(&self) -> bool {
        self.serializes
    }

    fn len(&self) -> u32 {
        match &self.blocks {
            Blocks::Any(any) => any.len(),
            Blocks::TrimWrite(pairs) => pairs.len(),
            Blocks::Replay(replay) => replay.len(),
        }
    }

    fn batch(&mut self) -> &mut Self {
        self
    }

    fn do_first(&mut self, requests: Vec<Request>) {
        self.first = requests.into();
    }
}

impl IoGenerator for FullSource {
    fn due_ns(&self) -> Option<u64> {
        match &self.blocks {
            Blocks::Replay(replay) => replay.due_ns(),
            _ => None,
        }
    }

    fn upcoming(&mut self, elapsed_ns: u64) -> Upcoming {
        match &mut self.blocks {
            Blocks::Replay(replay) => replay.upcoming(elapsed_ns),
            _ => Upcoming::Io,
        }
    }

    fn next_direction(&mut self) -> Dir {
        if let Some(Request { op: Op::Io(dir), .. }) = self.first.front() {
            return *dir;
        }
        if let Some(again) = self.again.as_mut().filter(|again| again.left == 0) {
            again.left = again.pass_bytes;
            self.blocks = Blocks::Any(AnySource::new(&again.job));
        }
        if std::mem::take(&mut self.writes_first) {
            return Dir::Write;
        }
        match &mut self.blocks {
            Blocks::Any(any) => any.next_direction(),
            Blocks::TrimWrite(pairs) => pairs.next_direction(),
            Blocks::Replay(replay) => replay.next_direction(),
        }
    }

    fn next_io(&mut self, dir: Dir, max: u64) -> Request {
        if let Some(request) = self.first.pop_front() {
            return request;
        }
        let request = match &mut self.blocks {
            Blocks::Any(any) => any.next_io(dir, max),
            Blocks::TrimWrite(pairs) => pairs.next_io(dir, max),
            Blocks::Replay(replay) => replay.next_io(dir, max),
        };
        if let Some(again) = &mut self.again {
            again.left = again.left.saturating_sub(request.len.into());
        }
        let Some(pass) = self.files.get_mut(request.file as usize) else { return request };
        let left = &mut pass.left[if self.apart { dir } else { Dir::Read }];
        if *left < u64::from(request.len) {
            pass.mapping.into_iter().for_each(unmap_pages);
            drop_pages(pass.fd, &pass.region);
            *left = pass.bytes;
        }
        *left = left.saturating_sub(u64::from(request.len));
        request
    }
}

/// Repeats each trim of another source as a write, which waits until the trim has ended (`trimwrite`).
struct TrimWrite {
    trims: AnySource,
    /// The trim whose write is next.
    trimmed: Option<Request>,
}

impl TrimWrite {
    fn new(trims: AnySource) -> Self {
        Self { trims, trimmed: None }
    }

    pub fn len(&self) -> u32 {
        self.trims.len()
    }
}

impl IoGenerator for TrimWrite {
    fn next_direction(&mut self) -> Dir {
        if self.trimmed.is_some() { Dir::Write } else { Dir::Trim }
    }

    fn next_io(&mut self, _dir: Dir, max: u64) -> Request {
        if let Some(trim) = self.trimmed.take() {
            return Request { op: Op::Io(Dir::Write), ..trim };
        }
        // Its write is to have as many bytes.
        let trim = self.trims.next_io(Dir::Trim, max.div_ceil(2));
        self.trimmed = Some(trim);
        trim
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::PerDir;
    use fathom_model::plan::{
        BlockSizes, Distribution, Engine, JobPlan, Mix, Order, Region, Verify,
    };

    #[test]
    fn the_last_pair_is_of_one_size() {
        let order = Order::Random { distribution: Distribution::Uniform, run: 1 };
        let mut job = JobPlan::new("t", Engine::Null, Mix::TrimThenWrite, order);
        job.access.align = PerDir::splat(512);
        job.access.block_sizes = PerDir::splat(BlockSizes::Range { min: 512, max: 4096 });
        job.virtual_regions = vec![Region { target: 0, start: 0, len: 1 << 20 }];
        let mut source = TrimWrite::new(AnySource::new(&job));
        let (mut left, mut bytes) = (2 << 20, [0; 2]);
        while left > 0 {
            let dir = source.next_direction();
            let len = u64::from(source.next_io(dir, left).len);
            bytes[usize::from(dir == Dir::Write)] += len;
            left -= len;
        }
        assert_eq!(bytes, [1 << 20; 2]);
    }

    #[test]
    fn what_is_verified_for_a_time_is_the_same_in_each_pass() {
        let order = Order::Random { distribution: Distribution::Uniform, run: 1 };
        let mut job = JobPlan::new("t", Engine::Null, Mix::Only(Dir::Read), order);
        job.regions = vec![Region { target: 0, start: 0, len: 64 * 4096 }];
        job.access.block_sizes = PerDir::splat(BlockSizes::Fixed(4096));
        job.invalidate = false;
        job.verify = Some(Verify::default());
        let passes = |job: &JobPlan| {
            let mut source = FullSource::new(job, &[], &[], false);
            let mut draw = || {
                let dir = source.next_direction();
                source.next_io(dir, u64::MAX).offset
            };
            [(); 2].map(|()| (0..64).map(|_| draw()).collect::<Vec<_>>())
        };
        let [first, second] = passes(&job);
        assert_eq!(first, second);
        job.until.bytes = Some(128 * 4096);
        let [first, second] = passes(&job);
        assert_ne!(first, second);
    }

    #[test]
    fn each_trim_is_followed_by_its_write() {
        let order = Order::Random { distribution: Distribution::EachOnce, run: 1 };
        let mut job = JobPlan::new("t", Engine::Null, Mix::TrimThenWrite, order);
        job.access.align = PerDir::splat(4096);
        let sizes = BlockSizes::Split(vec![(4096, 50), (16384, 50)]);
        job.access.block_sizes = PerDir::splat(sizes);
        job.regions = vec![Region { target: 0, start: 0, len: 1 << 20 }];
        let mut source = TrimWrite::new(AnySource::new(&job));
        let mut written = 0;
        while written < 1 << 20 {
            let mut draw = || {
                let dir = source.next_direction();
                source.next_io(dir, u64::MAX)
            };
            let (trim, write) = (draw(), draw());
            assert_eq!((trim.op, write.op), (Op::Io(Dir::Trim), Op::Io(Dir::Write)));
            assert_eq!((trim.offset, trim.len), (write.offset, write.len));
            written += u64::from(write.len);
        }
        assert_eq!(written, 1 << 20, "each block once");
    }
}
