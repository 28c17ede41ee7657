//! A source that trims each block, then writes it (`trimwrite`). The write waits until the trim has ended.

use super::{AnySource, IoGenerator, Source};
use crate::queue::{Op, Request};
use fathom_model::Dir;

/// Repeats each trim of another source as a write.
pub(crate) struct TrimWrite {
    trims: AnySource,
    /// The trim that is to be followed by its write.
    trimmed: Option<Request>,
}

impl TrimWrite {
    pub fn new(trims: AnySource) -> Self {
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
    use fathom_model::plan::{BlockSizes, Distribution, Engine, JobPlan, Mix, Order, Region};

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
