//! Detects files that are truncated during a run. Later writes restore their size, so the final size does not show it.

use fathom_machine::guard::{Extent, OpenTarget};
use fathom_model::plan::{Engine, JobPlan, Plan, Psync};
use std::collections::BTreeSet;

/// Number of targets checked at a time, round-robin, which takes about 10 µs.
const EACH_TIME: usize = 32;
/// File systems that count a file's blocks at allocation and never move them. Others compress rewritten data, or count
/// later.
const EXACT: [&str; 5] = ["ext2", "ext3", "ext4", "xfs", "tmpfs"];
/// Tolerated decrease in bytes, such as of metadata blocks.
const SLACK: u64 = 64 << 10;

pub(crate) struct ShrinkDetector {
    files: Vec<Option<ExtentRange>>,
    next: usize,
}

/// The largest extent of a file, and the smallest one after that.
struct ExtentRange {
    most: Extent,
    least: Extent,
    /// Whether fewer allocated bytes mean that some were freed.
    exact: bool,
}

impl ExtentRange {
    fn new(first: Extent, exact: bool) -> Self {
        let none = Extent { bytes: 0, allocated: 0 };
        let mut seen = Self { most: none, least: none, exact };
        seen.add(first);
        seen
    }

    fn add(&mut self, mut now: Extent) {
        if !self.exact {
            now.allocated = now.bytes;
        }
        let is_more = now.bytes >= self.most.bytes && now.allocated >= self.most.allocated;
        if is_more && self.lost().is_none() {
            (self.most, self.least) = (now, now);
            return;
        }
        self.least.bytes = self.least.bytes.min(now.bytes);
        self.least.allocated = self.least.allocated.min(now.allocated);
    }

    /// What the file lost, as the predicate of a sentence.
    fn lost(&self) -> Option<String> {
        let (most, least) = (self.most, self.least);
        if least.bytes < most.bytes {
            return Some(format!("was truncated from {} to {} bytes", most.bytes, least.bytes));
        }
        let lost = most.allocated.saturating_sub(least.allocated);
        (self.exact && lost > SLACK).then(|| {
            format!(
                "lost {lost} of its {} allocated bytes: it was truncated and has grown again, or holes were \
                 punched into it",
                most.allocated
            )
        })
    }
}

impl ShrinkDetector {
    /// Reads the initial extents of all `targets` of `plan`.
    pub fn new(plan: &Plan, targets: &[OpenTarget]) -> Self {
        // So do files that jobs truncate.
        let truncates = |job: &&JobPlan| job.engine == Engine::Psync(Psync::Truncate);
        let truncated: BTreeSet<usize> = plan
            .jobs
            .iter()
            .filter(truncates)
            .flat_map(|job| job.regions.iter().map(|region| region.target))
            .collect();
        let first = |(index, target): (usize, &OpenTarget)| {
            let file_system = target.facts.file_system.as_deref().unwrap_or_default();
            // Trimmed files lose blocks by design.
            let trimmed = plan.targets.get(index).is_none_or(|planned| planned.trimmed);
            let exact = EXACT.contains(&file_system) && !trimmed;
            (!truncated.contains(&index)).then_some(ExtentRange::new(target.extent()?, exact))
        };
        Self { files: targets.iter().enumerate().map(first).collect(), next: 0 }
    }

    pub fn check(&mut self, targets: &[OpenTarget]) {
        for _ in 0..EACH_TIME.min(targets.len()) {
            self.check_one(self.next, targets);
            self.next = (self.next + 1) % targets.len();
        }
    }

    /// Checks one of them for the last time; what it lost, if anything.
    pub fn finish(&mut self, index: usize, targets: &[OpenTarget]) -> Option<String> {
        self.check_one(index, targets);
        let lost = self.files.get(index)?.as_ref()?.lost()?;
        Some(format!("{} {lost}", targets.get(index)?.facts.path))
    }

    fn check_one(&mut self, index: usize, targets: &[OpenTarget]) {
        let now = targets.get(index).and_then(OpenTarget::extent);
        if let (Some(Some(seen)), Some(now)) = (self.files.get_mut(index), now) {
            seen.add(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn lost(exact: bool, extents: &[(u64, u64)]) -> Option<String> {
        let extent = |at: &(u64, u64)| Extent { bytes: at.0 * MIB, allocated: at.1 * MIB };
        let mut seen = ExtentRange::new(extent(&extents[0]), exact);
        extents[1..].iter().for_each(|at| seen.add(extent(at)));
        seen.lost()
    }

    #[test]
    fn a_file_that_has_grown_again_was_truncated() {
        assert_eq!(lost(true, &[(8, 8), (8, 8), (9, 9)]), None);
        let cut = lost(false, &[(8, 8), (16, 16), (2, 2), (3, 3), (16, 16), (17, 17)]).unwrap();
        assert_eq!(cut, "was truncated from 16777216 to 2097152 bytes");
    }

    #[test]
    fn lost_blocks_are_reported_on_file_systems_with_exact_counts() {
        let holes = [(8, 8), (8, 1), (8, 8)];
        assert!(lost(true, &holes).unwrap().starts_with("lost 7340032 of its 8388608 allocated"));
        assert_eq!(lost(false, &holes), None);
        // Writes to a sparse file.
        assert_eq!(lost(true, &[(8, 0), (8, 4), (8, 8)]), None);
    }
}
