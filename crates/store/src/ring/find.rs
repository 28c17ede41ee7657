//! Finds the run directories of a ring, or the single one that a path names.

use crate::dir::{HeldDir, with_path};
use crate::time::instant;
use std::io;

/// Maximum number of segments, more than a ring has in practice.
const SEGMENTS_MAX: usize = 100_000;

/// One run directory of a ring, or a single run directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its name in the ring, which sorts by time; `None` for a single run directory.
    pub name: Option<String>,
    /// When it started, to the second, in nanoseconds since 1970 (UTC).
    pub started_unix_ns: u64,
}

impl Segment {
    /// Opens it in the directory of the ring, or of the record.
    pub fn open(&self, root: &HeldDir) -> io::Result<HeldDir> {
        match &self.name {
            Some(name) => root.dir(name),
            None => HeldDir::open(root.path()),
        }
    }
}

/// The run directories in `root`, oldest first: `root` itself, or its immediate subdirectories with a record. `known` ones
/// are not read again.
pub fn segments(root: &HeldDir, known: &[Segment]) -> io::Result<Vec<Segment>> {
    if known.first().is_some_and(|only| only.name.is_none()) || has_record(root) {
        return Ok(vec![Segment { name: None, started_unix_ns: 0 }]);
    }
    let mut found = Vec::new();
    for name in root.names()? {
        let name = name?.into_string().ok().and_then(|name| Some((started(&name)?, name)));
        let Some((started_unix_ns, name)) = name else { continue };
        let segment = Segment { name: Some(name), started_unix_ns };
        let is_known = known.binary_search_by(|known| known.name.cmp(&segment.name)).is_ok();
        // A directory without a record is being created or removed.
        if is_known || segment.open(root).is_ok_and(|dir| has_record(&dir)) {
            found.push(segment);
        }
        if found.len() > SEGMENTS_MAX {
            let why = format!("it contains more than {SEGMENTS_MAX} records");
            return Err(with_path(root.path(), io::Error::other(why)));
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Whether there is a record, which must be a regular file.
pub fn has_record(dir: &HeldDir) -> bool {
    dir.regular("record.json").is_ok_and(|found| found.is_some())
}

/// The number in the name of a segment, such as 2 in `00000002-20261122-034500`.
pub fn number(name: &str) -> Option<u64> {
    started(name)?;
    name.get(..8)?.parse().ok()
}

/// The time in the name of a segment, in nanoseconds since 1970; `None` for any other name.
fn started(name: &str) -> Option<u64> {
    let (number, stamp) = name.split_at_checked(8)?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    instant(stamp.strip_prefix('-')?).filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_segments_are_taken_for_segments() {
        assert_eq!(number("00000042-20261121-193600"), Some(42));
        assert_eq!(started("00000042-20261121-193600"), Some(1_795_289_760_000_000_000));
        for name in [
            "20261122-holiday",
            "20261122-034203-4711",
            "00000042-20261321-193600",
            "00000042-20261121-1936000",
            "00000042-20261121-19360",
            "0000004a-20261121-193600",
            "00000042_20261121-193600",
            "+0000042-20261121-193600",
            "00000042-2026\u{661}\u{662}21-193600",
            "",
        ] {
            assert_eq!(number(name), None, "{name}");
        }
    }
}
