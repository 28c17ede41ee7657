//! A record as stored, of any kind and of any released version.

use crate::dir::HeldDir;
use crate::read::{check_version, unread};
use fathom_model::outcome::RecordKind;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::path::{Path, PathBuf};

/// Maximum size of a `record.json` in bytes. Those of the largest machines have some MiB.
pub(crate) const RECORD_MAX: u64 = 64 << 20;

/// A `record.json` and its kind.
#[derive(Debug, Clone)]
pub struct StoredRecord {
    /// Its kind.
    pub kind: RecordKind,
    path: PathBuf,
    text: Vec<u8>,
}

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

impl StoredRecord {
    /// Reads the record in the run directory `dir`.
    pub fn open(dir: &Path) -> Result<Self, String> {
        let dir = HeldDir::open(dir).map_err(unread)?;
        let text = dir.read("record.json", RECORD_MAX).map_err(unread)?;
        let path = dir.path().join("record.json");
        check_version(&path, &text)?;
        let header: KindFields =
            serde_json::from_slice(&text).map_err(|e| not_a_record(&path, &e))?;
        let kind = header.kind.unwrap_or(match &header {
            KindFields { config: Some(_), .. } => RecordKind::Limit,
            KindFields { watch: Some(_), jobs, .. } if jobs.is_empty() => RecordKind::Watch,
            _ => RecordKind::Run,
        });
        let text = if header.kind.is_some() { text } else { with_kind(&text, kind) };
        Ok(Self { kind, path, text })
    }

    /// The record itself.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_slice(&self.text).map_err(|e| not_a_record(&self.path, &e))
    }
}

/// The record of version 1 with its kind, which it does not store.
fn with_kind(text: &[u8], kind: RecordKind) -> Vec<u8> {
    let at = text.iter().position(|byte| *byte == b'{').map_or(0, |open| open + 1);
    let kind = serde_json::to_string(&kind).unwrap_or_default();
    [&text[..at], format!("\"kind\":{kind},").as_bytes(), &text[at..]].concat()
}

fn not_a_record(path: &Path, error: &serde_json::Error) -> String {
    format!("{} is not a record of fathom: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;
    use fathom_model::record::Header;
    use fathom_model::{Outcome, RunRecord};

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
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
        let run = StoredRecord::open(&fixture("v1/run")).unwrap();
        let record: RunRecord = run.parse().unwrap();
        assert_eq!((run.kind, record.header.record_version), (RecordKind::Run, 1));
        assert_eq!((record.header.outcome, record.jobs.len()), (Outcome::Finished, 1));
        assert_eq!(record.jobs[0].dirs.read.counts.ios, 83_100);
        assert_eq!(StoredRecord::open(&fixture("v1/watch")).unwrap().kind, RecordKind::Watch);
        let limit = StoredRecord::open(&fixture("v1/limit")).unwrap();
        let header: Header = limit.parse().unwrap();
        assert_eq!((limit.kind, header.kind), (RecordKind::Limit, RecordKind::Limit));
        assert_samples([("v1/run", (3, 17)), ("v1/watch", (3, 1)), ("v1/limit/watch", (6, 21))]);
    }

    #[test]
    fn version_2_is_readable() {
        let run = StoredRecord::open(&fixture("v2/run")).unwrap();
        let record: RunRecord = run.parse().unwrap();
        assert_eq!((run.kind, record.header.record_version), (RecordKind::Run, 2));
        assert_eq!((record.header.outcome, record.jobs.len()), (Outcome::Finished, 1));
        assert_eq!(record.jobs[0].dirs.read.counts.ios, 775_968);
        assert!(record.header.findings.iter().all(|finding| !finding.evidence.is_empty()));
        assert_eq!(StoredRecord::open(&fixture("v2/watch")).unwrap().kind, RecordKind::Watch);
        for (name, kind) in
            [("v2/limit", RecordKind::Limit), ("v2/experiment", RecordKind::Experiment)]
        {
            let stored = StoredRecord::open(&fixture(name)).unwrap();
            let header: Header = stored.parse().unwrap();
            assert_eq!((stored.kind, header.kind), (kind, kind));
            assert_eq!(header.outcome, Outcome::Finished);
            assert!(!header.facts.host.kernel.is_empty() && header.facts.targets.len() == 1);
        }
        assert_samples([("v2/run", (3, 16)), ("v2/watch", (5, 0)), ("v2/limit", (6, 72))]);
    }

    #[test]
    fn what_is_not_a_record_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let open = || StoredRecord::open(dir.path()).unwrap_err();
        assert!(open().contains("record.json"), "{}", open());
        std::fs::write(dir.path().join("record.json"), "[]").unwrap();
        assert!(open().contains("is not a record of fathom"), "{}", open());
        std::fs::write(dir.path().join("record.json"), r#"{"record_version":99}"#).unwrap();
        assert!(open().contains("version 99"), "{}", open());
    }
}
