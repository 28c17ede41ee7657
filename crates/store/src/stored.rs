//! A record as stored, of any kind and of any released version.

use crate::dir::HeldDir;
use crate::read::{check_version, read_text, unread};
use fathom_model::Record;
use fathom_model::limit::LimitRecord;
use fathom_model::outcome::RecordKind;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::path::Path;

/// Maximum size of a `record.json` in bytes. Those of the largest machines have some MiB, that of 10,000 of them 600 MiB.
pub(crate) const RECORD_MAX: u64 = 1 << 30;

/// A record of version 3 has its kind within so many bytes.
const KIND_WITHIN: usize = 256;

/// Fields that determine the kind. Version 1 does not store it: a search has a `config`, and only a watch has no
/// jobs.
#[derive(Deserialize)]
struct KindFields {
    kind: Option<RecordKind>,
    config: Option<IgnoredAny>,
    #[serde(default)]
    jobs: Vec<IgnoredAny>,
    watch: Option<IgnoredAny>,
}

/// Whether `dir` is a directory of anything but a run.
pub fn is_other_dir(dir: &Path) -> bool {
    let has = |name: &str| dir.join(name).symlink_metadata().is_ok();
    dir.is_dir() && !has("record.json") && !has("samples.ndjson")
}

pub fn read_record(dir: &Path) -> Result<Record, String> {
    let dir = HeldDir::open(dir).map_err(unread)?;
    let text = read_text(&dir)?;
    let path = dir.path().join("record.json");
    check_version(&path, &text)?;
    let not_a_record =
        |error: serde_json::Error| format!("{} is not a record of fathom: {error}", path.display());
    let header: KindFields = serde_json::from_slice(&text).map_err(not_a_record)?;
    let kind = header.kind.unwrap_or(match &header {
        KindFields { config: Some(_), .. } => RecordKind::Limit,
        KindFields { watch: Some(_), jobs, .. } if jobs.is_empty() => RecordKind::Watch,
        _ => RecordKind::Run,
    });
    let text = if header.kind.is_some() { text } else { with_kind(&text, kind) };
    let record = match kind {
        RecordKind::Limit => serde_json::from_slice(&text).map(Record::Limit),
        RecordKind::Experiment => serde_json::from_slice(&text).map(Record::Experiment),
        RecordKind::Run | RecordKind::Watch => serde_json::from_slice(&text).map(Record::Run),
    };
    record.map_err(not_a_record)
}

/// The record in `dir`, if it is that of a search and can be read. Others are not parsed.
pub(crate) fn read_search(dir: &Path) -> Option<LimitRecord> {
    let text = read_text(&HeldDir::open(dir).ok()?).ok()?;
    // It is one of the first fields.
    let first = String::from_utf8_lossy(&text[..text.len().min(KIND_WITHIN)]);
    first.contains("\"limit\"").then(|| serde_json::from_slice(&text).ok()).flatten()
}

/// The record of version 1 with its kind, which it does not store.
fn with_kind(text: &[u8], kind: RecordKind) -> Vec<u8> {
    let at = text.iter().position(|byte| *byte == b'{').map_or(0, |open| open + 1);
    let kind = serde_json::to_string(&kind).unwrap_or_default();
    [&text[..at], format!("\"kind\":{kind},").as_bytes(), &text[at..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;
    use fathom_model::{Outcome, RunRecord};
    use std::path::PathBuf;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
    }

    fn read(name: &str) -> Record {
        read_record(&fixture(name)).unwrap()
    }

    #[test]
    fn a_run_that_was_killed_early_has_no_result() {
        let dir = tempfile::tempdir().unwrap();
        let error = || read_record(dir.path()).unwrap_err();
        assert!(error().contains("is not a run directory; name a run"), "{}", error());
        std::fs::write(dir.path().join("samples.ndjson"), "").unwrap();
        assert!(error().contains("has no result: fathom was killed"), "{}", error());
    }

    fn run(name: &str) -> RunRecord {
        match read(name) {
            Record::Run(record) => *record,
            other => panic!("{other:?}"),
        }
    }

    /// Counts of samples and of stacks in these records.
    fn assert_samples(records: [(&str, (usize, usize)); 3]) {
        for (name, expected) in records {
            let mut reader = Reader::open(&fixture(name)).unwrap();
            let mut samples = 0;
            while reader.forward().unwrap().is_some() {
                samples += 1;
            }
            assert_eq!((samples, reader.stacks().unwrap().len()), expected, "{name}");
        }
    }

    #[test]
    fn version_1_is_readable() {
        let record = run("v1/run");
        assert_eq!((record.header.kind, record.header.record_version), (RecordKind::Run, 1));
        assert_eq!((record.header.outcome, record.jobs.len()), (Outcome::Finished, 1));
        assert_eq!(record.jobs[0].dirs.read.counts.ios, 83_100);
        assert_eq!(run("v1/watch").header.kind, RecordKind::Watch);
        let Record::Limit(limit) = read("v1/limit") else { panic!("not a search") };
        assert_eq!(limit.header.kind, RecordKind::Limit);
        assert!(limit.report.targets[0].blocks[0].confirmation.is_some());
        assert_samples([("v1/run", (3, 17)), ("v1/watch", (3, 1)), ("v1/limit/watch", (6, 21))]);
    }

    #[test]
    fn version_2_is_readable() {
        let record = run("v2/run");
        assert_eq!((record.header.kind, record.header.record_version), (RecordKind::Run, 2));
        assert_eq!((record.header.outcome, record.jobs.len()), (Outcome::Finished, 1));
        assert_eq!(record.jobs[0].dirs.read.counts.ios, 775_968);
        assert!(record.header.findings.iter().all(|finding| !finding.evidence.is_empty()));
        assert_eq!(run("v2/watch").header.kind, RecordKind::Watch);
        let (limit, experiment) = (read("v2/limit"), read("v2/experiment"));
        assert!(matches!(&limit, Record::Limit(limit) if limit.report.targets.len() == 1));
        assert!(matches!(&experiment, Record::Experiment(found) if found.report.rounds > 0));
        for record in [limit, experiment] {
            let header = record.header();
            assert_eq!(header.outcome, Outcome::Finished);
            assert!(!header.facts.host.kernel.is_empty() && header.facts.targets.len() == 1);
        }
        assert_samples([("v2/run", (3, 16)), ("v2/watch", (5, 0)), ("v2/limit", (6, 72))]);
    }

    #[test]
    fn what_is_not_a_record_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let open = || read_record(dir.path()).unwrap_err();
        assert!(open().contains("is not a run directory; name a run"), "{}", open());
        std::fs::write(dir.path().join("record.json"), "[]").unwrap();
        assert!(open().contains("is not a record of fathom"), "{}", open());
        std::fs::write(dir.path().join("record.json"), r#"{"record_version":99}"#).unwrap();
        assert!(open().contains("version 99"), "{}", open());
    }
}
