//! Drops the page cache of a file before each further pass over it, as fio does for buffered I/O.

use super::serialized::Blocks;
use super::{IoGenerator, Serialized, Source};
use crate::files::OpenFile;
use crate::hints::{drop_pages, unmap_pages};
use crate::queue::{Mapping, Request};
use fathom_model::plan::{Distribution, JobPlan, Order, Region};
use fathom_model::{Dir, PerDir};
use std::os::fd::RawFd;

/// A source for any job that counts the bytes of each pass.
pub(crate) struct FullSource {
    inner: Serialized,
    files: Vec<Pass>,
    /// Whether each direction makes passes of its own.
    apart: bool,
}

/// The current pass over one file.
struct Pass {
    fd: RawFd,
    region: Region,
    /// Pages that are mapped cannot be dropped.
    mapping: Option<Mapping>,
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
    passes && again && job.invalidate && !job.direct && !job.regions.is_empty()
}

impl FullSource {
    /// The I/Os of `job` on `files`, and where the queue maps these, their mappings.
    pub fn new(job: &JobPlan, files: &[OpenFile], mappings: &[Mapping]) -> Self {
        let unit = job.block_unit();
        let pass = |(index, file): (usize, &OpenFile)| {
            let region = job.regions[index];
            let bytes = region.len - region.len % unit;
            let mapping = mappings.get(index).copied();
            Pass { fd: file.raw(), region, mapping, bytes, left: PerDir::splat(bytes) }
        };
        let apart = matches!(job.access.order, Order::Sequential { .. });
        let files = if makes_passes(job) { files } else { &[] };
        let inner = Serialized::new(job);
        Self { inner, files: files.iter().enumerate().map(pass).collect(), apart }
    }
}

impl Source for FullSource {
    const FIXED: bool = Serialized::FIXED;
    const FULL: bool = Serialized::FULL;
    type Batch<'a> = PassBatch<'a>;

    fn serializes(&self) -> bool {
        self.inner.serializes()
    }

    fn len(&self) -> u32 {
        self.inner.len()
    }

    fn ready(&mut self, want: usize) -> usize {
        self.inner.ready(want)
    }

    fn batch(&mut self) -> PassBatch<'_> {
        PassBatch { inner: self.inner.batch(), files: &mut self.files, apart: self.apart }
    }
}

/// Generates the I/Os of one batch.
pub(crate) struct PassBatch<'a> {
    inner: &'a mut Blocks,
    files: &'a mut [Pass],
    apart: bool,
}

impl IoGenerator for PassBatch<'_> {
    fn next_direction(&mut self) -> Dir {
        self.inner.next_direction()
    }

    fn next_io(&mut self, dir: Dir, max: u64) -> Request {
        let request = self.inner.next_io(dir, max);
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
