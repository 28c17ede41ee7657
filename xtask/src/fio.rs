//! fio's JSON, which fathom prints too.

use crate::Result;
use serde_json::Value;

/// What all jobs of a run did, reads, writes and trims.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Done {
    pub dirs: [DirDone; 3],
    pub iops: f64,
    /// The longest runtime of a job.
    pub runtime_ms: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DirDone {
    pub ios: u64,
    pub bytes: u64,
}

impl Done {
    pub fn sum(&self) -> DirDone {
        self.dirs.iter().fold(DirDone::default(), |sum, dir| DirDone {
            ios: sum.ios + dir.ios,
            bytes: sum.bytes + dir.bytes,
        })
    }
}

/// The result of a run whose jobs all succeeded. fio writes warnings before its JSON; its readers skip to the first brace,
/// as this does.
pub fn read(stdout: &str) -> Result<Done> {
    let start = stdout.find('{').ok_or("it printed no JSON")?;
    let root: Value = serde_json::from_str(&stdout[start..])
        .map_err(|error| format!("its JSON does not parse: {error}"))?;
    let mut done = Done::default();
    for job in root["jobs"].as_array().ok_or("its JSON has no jobs")? {
        if job["error"].as_i64() != Some(0) {
            return Err(format!("its job ended with error {}", job["error"]).into());
        }
        for (dir, sum) in ["read", "write", "trim"].iter().zip(&mut done.dirs) {
            let missing = |key: &str| format!("its JSON has no {dir}.{key}");
            let count = |key: &str| job[*dir][key].as_u64().ok_or_else(|| missing(key));
            sum.ios += count("total_ios")?;
            sum.bytes += count("io_bytes")?;
            done.runtime_ms = done.runtime_ms.max(count("runtime")?);
            done.iops += job[*dir]["iops"].as_f64().ok_or_else(|| missing("iops"))?;
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_after_warnings() {
        let dir = |ios: u64, iops: f64| {
            format!(r#"{{"iops": {iops}, "total_ios": {ios}, "io_bytes": 512, "runtime": {ios}}}"#)
        };
        let dirs = format!(
            r#""read": {}, "write": {}, "trim": {}"#,
            dir(21, 10.5),
            dir(4, 2.0),
            dir(0, 0.0)
        );
        let done = read(&format!("note: x\n{{\"jobs\": [{{\"error\": 0, {dirs}}}]}}")).unwrap();
        assert_eq!((done.iops, done.sum().ios, done.runtime_ms), (12.5, 25, 21));
        assert_eq!(done.dirs[1], DirDone { ios: 4, bytes: 512 });
    }

    #[test]
    fn json_that_is_no_result() {
        let bad = [
            ("", "no JSON"),
            ("{\"jobs\": [", "does not parse"),
            ("{}", "no jobs"),
            ("{\"jobs\": [{\"error\": 5, \"read\": {}}]}", "error 5"),
            ("{\"jobs\": [{\"error\": 0, \"read\": {\"iops\": 1}}]}", "read.total_ios"),
        ];
        for (text, message) in bad {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
