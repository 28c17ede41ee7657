//! What is left of acknowledged writes after a crash or a power cut.

use super::run::figures::wrong_block;
use crate::doc::{Document, Text, plural, text};
use fathom_model::escape;
use fathom_model::record::{BlockOutcomes, PromiseRecord, PromiseReport};

/// The answer, then what the blocks of each job hold, then the first lost ones.
pub fn promises(report: &PromiseReport) -> Document {
    let mut page = Document::default();
    page.paragraph(answer(report));
    for job in &report.jobs {
        let files: Vec<_> = job.files.iter().map(|file| escape::text(file)).collect();
        page.section(&escape::text(&job.name), files.join(", "), section(job));
    }
    page
}

fn answer(report: &PromiseReport) -> Text {
    let sum = |of: fn(&BlockOutcomes) -> u64| report.jobs.iter().map(|job| of(&job.blocks)).sum();
    let (judged, lost): (u64, u64) = (sum(BlockOutcomes::judged), sum(BlockOutcomes::lost));
    match (judged, lost) {
        (0, _) => "Nothing to judge: no write was acknowledged as durable. Let the job flush (fsync=32), or write through \
                   (sync=dsync)."
            .into(),
        (_, 0) => text!(
            "Nothing that was acknowledged as durable was lost: ",
            plural(judged, "block"),
            " judged."
        ),
        _ => text!(
            plural(lost, "block"),
            " of ",
            crate::doc::events(judged),
            if lost == 1 { " was" } else { " were" },
            " lost although acknowledged as durable: the disk, or something between it and the job, does not keep what it \
             confirms."
        ),
    }
}

fn section(job: &PromiseRecord) -> Document {
    let mut body = Document::default();
    let events = crate::doc::events;
    let PromiseRecord { submitted, completed, durable, flushes, blocks, .. } = job;
    let by = match flushes {
        0 => Text::default(),
        1 => ", 1 flush".into(),
        _ => text!(", ", events(*flushes), " flushes"),
    };
    body.entry(
        "writes",
        text!(
            events(*submitted),
            " submitted, ",
            events(*completed),
            " completed, ",
            events(*durable),
            " acknowledged as durable",
            by
        ),
    );
    let count = |n: u64| if n > 0 { plural(n, "block") } else { Text::default() };
    let and =
        |n: u64, what: &str| if n > 0 { text!(plural(n, "block"), what) } else { Text::default() };
    body.entry("as acknowledged", count(blocks.as_acknowledged));
    body.entry("newer", and(blocks.newer, ": a later write, not yet acknowledged, as is allowed"));
    body.entry("partly newer", and(blocks.mixed, ": sectors of such a write, as is allowed"));
    body.entry("LOST: zeroes", count(blocks.lost_zero));
    body.entry("LOST: older", and(blocks.lost_stale, ": an earlier write"));
    body.entry(
        "LOST: torn",
        and(blocks.lost_torn, ": some sectors are of no write that is allowed there"),
    );
    body.entry("LOST: other", count(blocks.lost_other));
    body.entry(
        "not judged",
        and(blocks.not_judged, ": no write of them was acknowledged as durable"),
    );
    if job.journal_tail_bytes > 0 {
        let tail = job.journal_tail_bytes;
        body.paragraph(format!(
            "The last {tail} bytes of the journal were not yet on its disk; nothing in them is relied on."
        ));
    }
    for lost in &job.first {
        let write = lost.acknowledged_write;
        wrong_block(&mut body, &lost.block, &format!("; write {write} was acknowledged"));
    }
    let more = blocks.lost().saturating_sub(job.first.len() as u64);
    if more > 0 {
        body.paragraph(format!("and {more} more"));
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{Style, text};
    use fathom_model::record::{Damage, LostBlock, WrongBlock};

    fn page(blocks: BlockOutcomes, first: Vec<LostBlock>) -> String {
        let job = PromiseRecord {
            name: "a".into(),
            files: vec!["/dev/sdb".into()],
            submitted: 100,
            completed: 90,
            durable: 80,
            flushes: 1,
            blocks,
            first,
            journal_tail_bytes: 7,
        };
        let report =
            PromiseReport { journal: "j".into(), kept: blocks.lost() == 0, jobs: vec![job] };
        text(&promises(&report), Style::default()).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_verdict_comes_first() {
        let kept = BlockOutcomes { as_acknowledged: 7, newer: 1, mixed: 1, ..Default::default() };
        let good = page(kept, Vec::new());
        assert!(
            good.starts_with("Nothing that was acknowledged as durable was lost: 9 blocks judged."),
            "{good}"
        );
        assert!(
            good.contains("100 submitted, 90 completed, 80 acknowledged as durable, 1 flush"),
            "{good}"
        );
        assert!(!good.contains("LOST") && good.contains("The last 7 bytes"), "{good}");
        let none = page(BlockOutcomes { not_judged: 3, ..Default::default() }, Vec::new());
        assert!(none.starts_with("Nothing to judge"), "{none}");
        let block = WrongBlock {
            file: "/dev/sdb".into(),
            len: 512,
            damage: Damage::Zero,
            ..Default::default()
        };
        let lost = BlockOutcomes { lost_zero: 1, lost_stale: 1, ..kept };
        let bad = page(lost, vec![LostBlock { acknowledged_write: 5, block }]);
        assert!(bad.starts_with("2 blocks of 11 were lost although acknowledged"), "{bad}");
        assert!(
            bad.contains("/dev/sdb, offset 0, 512 bytes: all zeroes; write 5 was acknowledged"),
            "{bad}"
        );
        assert!(bad.ends_with("and 1 more"), "{bad}");
    }
}
