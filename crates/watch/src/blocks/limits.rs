//! Queue limits, and which of them explains a split (Documentation/ABI/stable/sysfs-block;
//! block/blk-merge.c, `bio_split_io_at`).

use fathom_model::watch::BlockOp;
use fathom_sys::roots::number;
use std::path::Path;

/// Queue limits of a device; 0 means unlimited or unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct QueueLimits {
    pub max_sectors: u64,
    pub max_segments: u64,
    pub chunk_sectors: u64,
    pub virt_boundary_mask: u64,
    pub logical_block: u64,
    pub physical_block: u64,
    pub discard_max: u64,
    pub discard_granularity: u64,
    pub write_zeroes_max: u64,
    pub page: u64,
}

impl QueueLimits {
    pub fn read(queue: &Path) -> Self {
        let read = |name: &str| number::<u64>(queue.join(name)).unwrap_or(0);
        Self {
            max_sectors: read("max_sectors_kb").saturating_mul(2),
            max_segments: read("max_segments"),
            chunk_sectors: read("chunk_sectors"),
            virt_boundary_mask: read("virt_boundary_mask"),
            logical_block: read("logical_block_size").max(512),
            physical_block: read("physical_block_size").max(512),
            discard_max: read("discard_max_bytes"),
            discard_granularity: read("discard_granularity"),
            write_zeroes_max: read("write_zeroes_max_bytes"),
            page: rustix::param::page_size() as u64,
        }
    }

    /// The sysfs name of the limit due to which a bio at `sector` was split after `sectors`; empty
    /// if none explains it, such as for a driver with rules of its own.
    pub fn explain(&self, op: BlockOp, sector: u64, sectors: u64) -> &'static str {
        let bytes = sectors.saturating_mul(512);
        let just_below = |limit: u64, grain: u64| bytes <= limit && bytes + grain.max(1) > limit;
        if op == BlockOp::Discard {
            let max = just_below(self.discard_max, self.discard_granularity);
            return if max { "discard_max_bytes" } else { "" };
        }
        if just_below(self.max_sectors.saturating_mul(512), self.physical_block) {
            return "max_sectors_kb";
        }
        // Write-zeroes bios are traced as writes.
        if op == BlockOp::Write && bytes > 0 && bytes == self.write_zeroes_max {
            return "write_zeroes_max_bytes";
        }
        let end = sector.saturating_add(sectors);
        if end.checked_rem(self.chunk_sectors) == Some(0) {
            return "chunk_sectors";
        }
        // The first and last segments may be shorter than a page; contiguous pages form one
        // segment.
        let full = self.max_segments.saturating_sub(2).saturating_mul(self.page);
        if self.max_segments > 0 && bytes > full {
            return "max_segments";
        }
        if self.virt_boundary_mask > 0 {
            return "virt_boundary_mask";
        }
        let least = self.max_segments.saturating_mul(self.logical_block);
        if self.max_segments > 0 && bytes >= least { "max_segments" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A virtio disk, which splits after 254 discontiguous pages or 4 MiB.
    fn virtio() -> QueueLimits {
        QueueLimits {
            max_sectors: 8192,
            max_segments: 254,
            logical_block: 512,
            physical_block: 512,
            discard_max: 1 << 30,
            discard_granularity: 4096,
            page: 4096,
            ..QueueLimits::default()
        }
    }

    #[test]
    fn splits_are_explained_by_a_limit() {
        let disk = virtio();
        let read = |sectors: u64| disk.explain(BlockOp::Read, 8, sectors);
        assert_eq!(read(254 * 8), "max_segments");
        assert_eq!(read(254 * 8 - 1), "max_segments");
        assert_eq!(read(3000), "max_segments");
        assert_eq!(read(8192), "max_sectors_kb");
        assert_eq!(read(8), "");
        assert_eq!(disk.explain(BlockOp::Discard, 8, 1 << 21), "discard_max_bytes");
        assert_eq!(disk.explain(BlockOp::Discard, 8, 1000), "");
    }

    #[test]
    fn chunk_and_boundary_limits() {
        let raid = QueueLimits { chunk_sectors: 1024, ..virtio() };
        assert_eq!(raid.explain(BlockOp::Write, 1000, 24), "chunk_sectors");
        let nvme = QueueLimits { virt_boundary_mask: 4095, max_segments: 127, ..virtio() };
        assert_eq!(nvme.explain(BlockOp::Read, 1000, 8), "virt_boundary_mask");
        assert_eq!(nvme.explain(BlockOp::Read, 1000, 127 * 8), "max_segments");
        // Without limits there is no explanation.
        assert_eq!(QueueLimits::default().explain(BlockOp::Read, 0, 8), "");
    }

    #[test]
    fn unreadable_limits_are_unlimited() {
        let none = QueueLimits::read(Path::new("/nonexistent"));
        assert_eq!((none.max_sectors, none.max_segments, none.logical_block), (0, 0, 512));
    }
}
