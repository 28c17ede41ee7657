//! Jobs that read the same blocks in the same order.

use super::jobs::{Job, jobs_where, named, sentence};
#[cfg(test)]
use super::testing::Case;
use super::{Check, Claim, Rule};
use fathom_model::Dir;
use fathom_model::finding::{Evidence, Unit};
use fathom_model::plan::Order;
use fathom_model::record::RunRecord;

pub(super) static SAME_BLOCKS: Rule = Rule {
    id: "same-blocks",
    meaning: "Several sequential jobs read the same blocks, so a cache served most of the reads.",
    threshold: || {
        "At least two jobs that ran at the same time read the same region of the same target from start to end. The \
         first job to read a block brings it into a cache: the page cache or the device's."
            .into()
    },
    remedy: "Give each clone its own part (size=25% and offset_increment=25% with numjobs=4) or its own file \
             (directory instead of filename)",
    checks: &[Check::Run(same_blocks)],
    #[cfg(test)]
    cases: &[Case::Run { holds: |r| twice(r, 0), near_miss: |r| twice(r, 1) }],
    ..Rule::DEFAULT
};

fn same_blocks(record: &RunRecord) -> Option<Claim> {
    let readers = jobs_where(record, |job| {
        job.ran()
            && job.is_real()
            && job.plan.access.mix.has(Dir::Read)
            && matches!(job.plan.access.order, Order::Sequential { .. })
    });
    let shares = |a: &Job, b: &Job| {
        a.plan.wave == b.plan.wave
            && a.plan.regions.iter().any(|region| b.plan.regions.contains(region))
    };
    let (first, same) = readers.iter().find_map(|first| {
        let same: Vec<Job> = readers.iter().copied().filter(|job| shares(first, job)).collect();
        (same.len() > 1).then_some((first, same))
    })?;
    let region = first.plan.regions.first()?;
    let path = record.plan.targets.get(region.target).map_or("the target", |t| t.path.as_str());
    let summary = format!(
        "{} workers ({}) read the same blocks of {path} in sequence: the first to reach a block reads it from the \
         device, and the others find it in a cache.",
        same.len(),
        named(&same)
    );
    let evidence = vec![
        Evidence::number("workers on the same blocks", same.len() as f64, Unit::Count),
        Evidence::number("bytes from", region.start as f64, Unit::Bytes),
        Evidence::number("bytes each", region.len as f64, Unit::Bytes),
    ];
    Some(Claim::new(sentence(&summary), evidence))
}

/// Makes the job sequential, and adds a clone whose region begins `bytes` after its own.
#[cfg(test)]
fn twice(record: &mut RunRecord, apart: u64) {
    record.plan.jobs[0].access.order = Order::Sequential { skip: 0 };
    let mut clone = record.plan.jobs[0].clone();
    clone.regions[0].start += apart;
    record.plan.jobs.push(clone);
    record.jobs.push(record.jobs[0].clone());
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, silent};
    use super::*;

    #[test]
    fn clones_that_read_one_file() {
        let f = fires(&SAME_BLOCKS, |r| twice(r, 0));
        assert!(f.summary.starts_with("2 workers (job a) read the same blocks of /data/file"));
        silent(&SAME_BLOCKS, |r| {
            twice(r, 0);
            r.plan.jobs[1].wave = 1;
        });
        silent(&SAME_BLOCKS, |r| {
            twice(r, 0);
            r.plan.jobs[1].access.mix = fathom_model::plan::Mix::Only(Dir::Write);
        });
    }
}
