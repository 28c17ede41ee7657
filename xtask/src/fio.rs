//! fio's JSON, which fathom prints too.

use crate::Result;
use serde_json::Value;

/// What all jobs of a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Done {
    pub iops: f64,
    pub ios: f64,
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
        for dir in ["read", "write", "trim"] {
            let missing = |key: &str| format!("its JSON has no {dir}.{key}");
            let number = |key: &str| job[dir][key].as_f64().ok_or_else(|| missing(key));
            done.ios += number("total_ios")?;
            done.iops += number("iops")?;
        }
    }
    if done.ios == 0.0 { Err("it did no I/O".into()) } else { Ok(done) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_after_warnings() {
        let dir = |ios: u64, iops: f64| format!(r#"{{"iops": {iops}, "total_ios": {ios}}}"#);
        let dirs = format!(
            r#""read": {}, "write": {}, "trim": {}"#,
            dir(21, 10.5),
            dir(4, 2.0),
            dir(0, 0.0)
        );
        let done = read(&format!("note: x\n{{\"jobs\": [{{\"error\": 0, {dirs}}}]}}")).unwrap();
        assert_eq!(done, Done { iops: 12.5, ios: 25.0 });
    }

    #[test]
    fn json_that_is_no_result() {
        let bad = [
            ("", "no JSON"),
            ("{\"jobs\": [", "does not parse"),
            ("{}", "no jobs"),
            ("{\"jobs\": []}", "no I/O"),
            ("{\"jobs\": [{\"error\": 5, \"read\": {}}]}", "error 5"),
            ("{\"jobs\": [{\"error\": 0, \"read\": {\"iops\": 1}}]}", "read.total_ios"),
        ];
        for (text, message) in bad {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
