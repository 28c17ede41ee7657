//! The region of each file that a clone uses, and the size that the file must have, as in fio.

use super::{File, checks};
use crate::job::{Job, Size};
use crate::plan::jobs;
use crate::trace::TraceFile;
use fathom_model::facts::{TargetFacts, TargetKind};
use fathom_model::plan::{BlockSizes, Engine, Mix, Order, Region};
use fathom_model::units::bytes as show;
use fathom_model::{Dir, split_mix};

/// What a job uses of a file that it fills the file system with (`fill_device`): more than there is.
pub(super) const FILL_BYTES: u64 = 1 << 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub start: u64,
    pub len: u64,
    pub create_size: Option<u64>,
}

impl Part {
    pub fn at(&self, target: usize) -> Region {
        Region { target, start: self.start, len: self.len }
    }
}

pub(super) fn regions(job: &Job, clone: u32, files: &[File<'_>]) -> Result<Vec<Part>, String> {
    if let Some(trace) = job.trace(clone) {
        let ends = trace.files.iter().map(|file| file.end);
        return files.iter().zip(ends).map(|(file, end)| replayed(file, end)).collect();
    }
    let block = job.block_min();
    let count = files.len() as u64;
    // As in fio, a remainder makes the first files one block longer.
    let (each, mut longer) = match job.size {
        Some(Size::Bytes(size)) if job.filesize.is_none() => {
            (size / count, (size - size / count * count) / block)
        }
        _ => (0, 0),
    };
    let mut parts = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let share = Some(each + if longer > 0 { block } else { 0 }).filter(|share| *share > 0);
        longer = longer.saturating_sub(1);
        parts.push(part(job, clone, index as u64, file, share)?);
    }
    Ok(parts)
}

/// The part of `file` that a trace uses, which ends at `end`; nothing of a file that it only flushes.
fn replayed(file: &File<'_>, end: u64) -> Result<Part, String> {
    let (path, real) = (&file.path, file.facts.size_bytes);
    let is_file = matches!(file.facts.kind, TargetKind::File | TargetKind::Missing);
    if !is_file && end > real {
        return Err(format!(
            "{path} is {}, but the trace goes up to {}; use replay_scale, or another device with replay_redirect",
            show(real),
            show(end)
        ));
    }
    let len = end.max(1);
    let is_missing = file.facts.kind == TargetKind::Missing;
    let create_size = (is_file && end > real || is_missing).then_some(len);
    Ok(Part { start: 0, len, create_size })
}

/// What a job whose files have `parts` uses of the file that it exchanges blocks with: those at the same places.
pub(super) fn donated(donor: &File<'_>, parts: &[Part]) -> Part {
    let start = parts.iter().map(|part| part.start).min().unwrap_or(0);
    let end = parts.iter().map(|part| part.start + part.len).max().unwrap_or(0);
    let create_size = (end > donor.facts.size_bytes).then_some(end);
    Part { start, len: end.saturating_sub(start), create_size }
}

/// What clone `clone` uses of files that do not exist, with an engine that has none: empty if the job gives no size.
pub(super) fn virtual_parts(job: &Job, clone: u32) -> Result<Vec<Part>, String> {
    let sized = matches!(job.size, Some(Size::Bytes(1..))) || job.filesize.is_some();
    if !matches!(job.engine, Engine::Null | Engine::Nop(_)) {
        return Ok(Vec::new());
    }
    if let Some(trace) = job.trace(clone) {
        let part = |file: &TraceFile| Part { start: 0, len: file.end.max(1), create_size: None };
        return Ok(trace.files.iter().map(part).collect());
    }
    if !sized {
        return Ok(Vec::new());
    }
    let facts = TargetFacts { kind: TargetKind::Missing, ..TargetFacts::default() };
    let path = |number| format!("file {number} of '{}'", job.name);
    let file = |number| File { path: path(number), within: None, facts: &facts, end: 0 };
    let count = job.filename.len().max(job.nrfiles as usize);
    let files: Vec<File<'_>> = (0..count).map(file).collect();
    let parts = regions(job, clone, &files)?;
    files
        .iter()
        .zip(&parts)
        .try_for_each(|(file, part)| checks::blocks_fit(job, &file.path, part))?;
    Ok(parts)
}

/// The bytes that a job transfers until it has skipped through all of its files (`rw=read:SKIP`), if it ends there. As in
/// fio, it begins again where a skip leads exactly to the end of a file, or beyond, from within the file.
pub(super) fn skipping_pass(job: &Job, files: &[File<'_>], parts: &[Part]) -> Option<u64> {
    let Order::Sequential { skip: skip @ 1.. } = job.access.order else { return None };
    let skip = skip.unsigned_abs();
    let dir = match job.access.mix {
        Mix::Only(dir) => dir,
        Mix::TrimThenWrite => Dir::Trim,
        Mix::ReadWrite { .. } | Mix::Traced(_) => return None,
    };
    let BlockSizes::Fixed(block) = job.access.block_sizes[dir] else { return None };
    let pass = |(file, part): (&File<'_>, &Part)| {
        let count = part.len.checked_sub(block)? / (block + skip) + 1;
        let (next, after_last) = (count * (block + skip), count * (block + skip) - skip);
        let real = part.create_size.unwrap_or(file.facts.size_bytes);
        let begins_again = part.start == 0 && after_last < real && next >= real;
        (!begins_again).then_some(count * block)
    };
    files.iter().zip(parts).map(pass).sum()
}

/// `share` is the file's share of `size`, if that is given in bytes.
fn part(
    job: &Job,
    clone: u32,
    index: u64,
    file: &File<'_>,
    share: Option<u64>,
) -> Result<Part, String> {
    let path = &file.path;
    let is_file = matches!(file.facts.kind, TargetKind::File | TargetKind::Missing);
    let append = job.file_append && is_file;
    let real = if append { file.end } else { file.facts.size_bytes };
    let drawn = drawn_size(job, clone, index, real).filter(|_| is_file);
    // The base of percentages.
    let whole = drawn.unwrap_or(if real > 0 { real } else { share.unwrap_or(0) });
    let start = if append { real } else { start(job, clone, whole)? };
    let len = match (drawn, share) {
        (Some(size), _) => size.checked_sub(start).filter(|len| *len > 0).ok_or_else(|| {
            let size = show(size);
            format!("offset {start} is beyond the {size} that filesize gives {path}; lower offset")
        })?,
        (None, Some(share)) => share,
        (None, None) if job.until.full && is_file => FILL_BYTES,
        (None, None) if append && real > 0 => {
            return Err(format!(
                "file_append has nothing to add to {path}; set size, for example size=1g"
            ));
        }
        (None, None) => rest_of(path, start, real, file.facts.kind)
            .map_err(|why| checks::with_colon_hint(job, file, why))?,
    };
    let len = match job.size {
        Some(Size::Percent(percent)) => {
            more_than_all(job, path, percent, is_file)?;
            let part = ((u128::from(whole) * u128::from(percent) / 100) as u64).min(len);
            // Less than a block stays as it is, for the message.
            let blocks = part - part % job.block_min();
            if blocks > 0 { blocks } else { part }
        }
        _ => len,
    };
    let end = start
        .checked_add(len)
        .ok_or_else(|| format!("offset plus size of {path} exceeds 2^64; lower them"))?;
    if !is_file && end > real {
        return Err(format!(
            "{path} is {}, but offset plus size is {}; use a smaller size, or none",
            show(real),
            show(end)
        ));
    }
    let create_size = match (is_file && end > real, len) {
        (true, FILL_BYTES) => (file.facts.kind == TargetKind::Missing).then_some(0),
        (grows, _) => grows.then_some(end),
    };
    Ok(Part { start, len, create_size })
}

/// The size that `filesize` gives a file of `real` bytes, if that is another.
fn drawn_size(job: &Job, clone: u32, index: u64, real: u64) -> Option<u64> {
    let (low, high) = job.filesize.filter(|(low, high)| !(*low..=*high).contains(&real))?;
    let seed = split_mix::nth(jobs::base_seed(job, 0), u64::from(clone) << 32 | index);
    Some(low + seed % (high - low + 1))
}

/// Above 100%, fio reads a size of nearly 2^64 bytes: the end of a device ends a pass, but not where blocks are drawn
/// without a map of them, nor is there a file of that size.
fn more_than_all(job: &Job, path: &str, percent: u32, is_file: bool) -> Result<(), String> {
    let mapped = !job.norandommap && job.random_distribution.is_none() && !job.sprandom;
    let whole = mapped && job.access.random_percent.iter().all(|(_, percent)| *percent == 100);
    let ends = !job.is_random() || whole || job.time_based;
    match percent > 100 && (is_file || !ends) {
        true => Err(format!("size={percent}% is more than {path} has; use size=100%")),
        false => Ok(()),
    }
}

/// Bytes from `start` to the end of the target.
fn rest_of(path: &str, start: u64, real: u64, kind: TargetKind) -> Result<u64, String> {
    match (kind, real) {
        (TargetKind::Missing, _) => {
            Err(format!("{path} does not exist; to create it, set its size, for example size=1g"))
        }
        (TargetKind::File, 0) => {
            Err(format!("{path} is empty; set size=1g, for example, or name another file"))
        }
        (_, 0) => Err(format!("{path} has size 0: no medium, or not attached; use another device")),
        _ if start >= real => Err(format!(
            "offset {start} is beyond the end of {path}, which is {}; lower offset",
            show(real)
        )),
        _ => Ok(real - start),
    }
}

/// Those of `sizes` that fit in `room` bytes, if any. As in fio, the next size in the order of percentages takes the
/// share of one that does not fit, and where there is none, a size is drawn again.
pub(super) fn fitting(sizes: &BlockSizes, room: u64) -> BlockSizes {
    if sizes.min() > room || sizes.max() <= room {
        return sizes.clone();
    }
    match sizes {
        BlockSizes::Fixed(size) => BlockSizes::Fixed(*size),
        BlockSizes::Range { min, .. } => BlockSizes::Range { min: *min, max: room },
        BlockSizes::Any { min, .. } => BlockSizes::Any { min: *min, max: room },
        BlockSizes::Split(parts) => {
            let mut parts = parts.clone();
            parts.sort_by_key(|(_, percent)| *percent);
            let (mut fitting, mut left) = (Vec::new(), 0);
            for (size, percent) in parts {
                left += percent;
                if size <= room {
                    fitting.push((size, std::mem::take(&mut left)));
                }
            }
            let drawn = 100_u32.saturating_sub(left).max(1);
            fitting.iter_mut().for_each(|(_, percent)| *percent += *percent * left / drawn);
            let sum: u32 = fitting.iter().map(|(_, percent)| percent).sum();
            fitting.last_mut().into_iter().for_each(|(_, percent)| *percent += 100 - sum.min(100));
            BlockSizes::Split(fitting)
        }
    }
}

fn start(job: &Job, clone: u32, whole: u64) -> Result<u64, String> {
    let of = |percent: u32| (u128::from(whole) * u128::from(percent) / 100) as u64;
    let mut align = None;
    let mut resolve = |size: Size| match size {
        Size::Bytes(bytes) => bytes,
        // Resolved before.
        Size::Zones(_) => 0,
        Size::Percent(percent) => {
            align = Some(job.offset_align.unwrap_or_else(|| job.block_min()));
            of(percent)
        }
    };
    let (offset, increment) = (resolve(job.offset), resolve(job.offset_increment));
    increment
        .checked_mul(u64::from(clone))
        .and_then(|more| offset.checked_add(more))
        .and_then(|start| start.checked_next_multiple_of(align.unwrap_or(1)))
        .ok_or_else(|| format!("the offset of clone {clone} exceeds 2^64; lower offset_increment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_do_not_fit_leave_their_share_to_others() {
        let split = |parts: &[(u64, u32)]| BlockSizes::Split(parts.to_vec());
        let sizes = split(&[(4, 50), (8, 30), (64, 20)]);
        assert_eq!(fitting(&sizes, 64), sizes);
        assert_eq!(fitting(&sizes, 63), split(&[(8, 50), (4, 50)]));
        assert_eq!(fitting(&sizes, 4), split(&[(4, 100)]));
        assert_eq!(fitting(&sizes, 3), sizes);
        // Nothing takes the share of the last: it is drawn again.
        let last = split(&[(4, 30), (8, 10), (64, 60)]);
        assert_eq!(fitting(&last, 8), split(&[(8, 25), (4, 75)]));
        let range = BlockSizes::Range { min: 4, max: 64 };
        assert_eq!(fitting(&range, 32), BlockSizes::Range { min: 4, max: 32 });
    }
}
