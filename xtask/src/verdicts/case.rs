//! A case: a shell file whose head says what its program is limited by.

use crate::Result;
use crate::run::{Finished, Probe, attempt};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub struct Case {
    path: PathBuf,
    pub name: String,
    pub cause: String,
    /// Causes that are right, the main one first: on an idle machine, and with all CPUs busy.
    pub expect: Vec<String>,
    pub busy: Vec<String>,
    vague: Vec<String>,
    /// The finding that is right contains this word.
    mentions: Option<String>,
    packages: Vec<String>,
    /// `program` prints the processes to watch, for this long.
    pub watch: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Right,
    Vague,
    /// A cause that is right, but not first.
    Order,
    Wrong,
    Inconclusive,
}

impl Verdict {
    pub const ALL: [Verdict; 5] =
        [Verdict::Right, Verdict::Vague, Verdict::Order, Verdict::Wrong, Verdict::Inconclusive];

    pub fn word(self) -> &'static str {
        match self {
            Verdict::Right => "right",
            Verdict::Vague => "vague",
            Verdict::Order => "order",
            Verdict::Wrong => "wrong",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}

/// What sets up the shell; $1 is the case's file, $2 its directory, $3 the function.
const SHELL: &str = "set -eu; DIR=$2; cd \"$DIR\"; . \"${1%/*}/../lib.sh\"; . \"$1\"
    [ \"$3\" != program ] || kill -0 2147483646 2>/dev/null || :
    \"$3\"";

impl Case {
    /// All cases of a directory, by name.
    pub fn read_all(dir: &Path, causes: &Causes) -> Result<Vec<Case>> {
        let mut cases = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            let text = std::fs::read_to_string(&path)?;
            let case = Case::parse(&path, &text, causes);
            cases.push(case.map_err(|error| format!("{}: {error}", path.display()))?);
        }
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(cases)
    }

    fn parse(path: &Path, text: &str, causes: &Causes) -> Result<Case> {
        let mut head = BTreeMap::new();
        for line in text.lines().map_while(|line| line.strip_prefix("# ")) {
            let (key, value) =
                line.split_once(": ").ok_or("a line of the head is `# key: value`")?;
            head.insert(key, value.trim().to_string());
        }
        let mut list = |key| -> Vec<String> {
            let value = head.remove(key).unwrap_or_default();
            value.split([',', ' ']).filter(|word| !word.is_empty()).map(String::from).collect()
        };
        let (expect, vague, packages) = (list("expect"), list("vague"), list("packages"));
        let busy = Some(list("busy")).filter(|busy| !busy.is_empty());
        let busy = busy.unwrap_or_else(|| expect.clone());
        if expect.is_empty() {
            return Err("`# expect:` is missing".into());
        }
        for cause in expect.iter().chain(&busy).chain(&vague) {
            causes.group(cause).ok_or_else(|| format!("{cause}: not in causes.txt"))?;
        }
        let case = Case {
            path: path.to_path_buf(),
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            cause: head.remove("cause").ok_or("`# cause:` is missing")?,
            expect,
            busy,
            vague,
            mentions: head.remove("mentions"),
            packages,
            watch: head.remove("watch"),
        };
        match head.into_keys().next() {
            Some(key) => Err(format!("unknown key {key}").into()),
            None => Ok(case),
        }
    }

    /// Installs its packages where they are missing.
    pub fn install(&self) -> Result<()> {
        for package in &self.packages {
            let status =
                Command::new("dpkg-query").args(["-W", "-f", "${Status}", package]).output()?;
            if status.stdout == b"install ok installed" {
                continue;
            }
            let install = ["install", "-y", "-qq", "--no-install-recommends", package];
            let output = Command::new("apt-get")
                .args(install)
                .env("DEBIAN_FRONTEND", "noninteractive")
                .output()?;
            if !output.status.success() {
                return Err(format!("package {package} cannot be installed").into());
            }
        }
        Ok(())
    }

    /// Arguments of bash for one of its functions.
    pub fn arguments(&self, function: &str, dir: &Path) -> Vec<String> {
        let [path, dir] = [&self.path, dir].map(|path: &Path| path.display().to_string());
        vec!["-c".into(), SHELL.into(), "verdicts".into(), path, dir, function.into()]
    }

    /// Runs one of its functions, which must succeed.
    pub fn call(&self, function: &str, dir: &Path) -> Result<Finished> {
        let arguments = self.arguments(function, dir);
        let done =
            attempt(Path::new("bash"), &arguments, dir, Probe::Nothing, Duration::from_secs(120))?;
        match done.code {
            Some(0) => Ok(done),
            _ => {
                Err(format!("{function}: {}", done.stderr.lines().last().unwrap_or("failed"))
                    .into())
            }
        }
    }

    /// Its verdict on fathom's findings, with the rule and the sentence of the first cause.
    pub fn judge(
        &self,
        findings: &Value,
        expected: &[String],
        causes: &Causes,
    ) -> (Verdict, String, String) {
        let named: Vec<(&str, &str)> = findings
            .as_array()
            .into_iter()
            .flatten()
            .filter(|finding| finding["class"] == "limiter")
            .map(|f| {
                (f["rule"].as_str().unwrap_or_default(), f["summary"].as_str().unwrap_or_default())
            })
            .collect();
        let is_right = |rule: &str| expected.iter().any(|cause| causes.names(cause, rule));
        let is_vague = |rule: &str| {
            expected.iter().any(|cause| causes.is_vague(cause, rule))
                || self.vague.iter().any(|cause| causes.names(cause, rule))
        };
        let Some(&(rule, summary)) = named.first() else {
            return (Verdict::Inconclusive, "nothing".into(), String::new());
        };
        let mentions =
            |summary: &str| self.mentions.as_ref().is_none_or(|word| summary.contains(word));
        let verdict = if is_right(rule) && mentions(summary) {
            Verdict::Right
        } else if is_right(rule) || is_vague(rule) {
            Verdict::Vague
        } else if rule == "inconclusive" {
            Verdict::Inconclusive
        } else if named.iter().any(|(rule, _)| is_right(rule)) {
            Verdict::Order
        } else {
            Verdict::Wrong
        };
        (verdict, rule.into(), summary.into())
    }
}

/// What cases may expect: verdicts/causes.txt.
pub struct Causes(BTreeMap<String, Cause>);

struct Cause {
    group: String,
    rules: Vec<String>,
    vague: Vec<String>,
}

impl Causes {
    pub fn read(path: &Path) -> Result<Causes> {
        Causes::parse(&std::fs::read_to_string(path)?)
            .map_err(|error| format!("{}: {error}", path.display()).into())
    }

    fn parse(text: &str) -> Result<Causes> {
        let mut causes = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<&str> = line.split('|').map(str::trim).collect();
            let [name, group, rules, vague] = columns[..] else {
                return Err(format!("{line}: four columns").into());
            };
            let [rules, vague] = [rules, vague].map(|rules| {
                rules.split(", ").filter(|rule| !rule.is_empty()).map(String::from).collect()
            });
            causes.insert(name.into(), Cause { group: group.into(), rules, vague });
        }
        Ok(Causes(causes))
    }

    /// The group of the account that the cause is in.
    pub fn group(&self, cause: &str) -> Option<&str> {
        Some(&self.0.get(cause)?.group)
    }

    fn names(&self, cause: &str, rule: &str) -> bool {
        self.0.get(cause).is_some_and(|cause| cause.rules.iter().any(|known| known == rule))
    }

    fn is_vague(&self, cause: &str, rule: &str) -> bool {
        self.0.get(cause).is_some_and(|cause| cause.vague.iter().any(|known| known == rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_cause_is_judged() {
        let causes = "queue-depth | device | one-at-a-time | device\ntimer | timer | timer |\n";
        let causes = Causes::parse(causes).unwrap();
        let text = "# cause: One read.\n# expect: queue-depth\n# mentions: vda\nprogram() { :; }\n";
        let case = Case::parse(Path::new("cases/read.sh"), text, &causes).unwrap();
        let judge = |rules: &[(&str, &str)]| {
            let finding = |(rule, summary): &(&str, &str)| json!({ "class": "limiter", "rule": rule, "summary": summary });
            let findings: Value = rules.iter().map(finding).collect();
            case.judge(&findings, &case.expect, &causes).0
        };
        assert_eq!(judge(&[("one-at-a-time", "on vda")]), Verdict::Right);
        assert_eq!(judge(&[("one-at-a-time", "on vdb")]), Verdict::Vague);
        assert_eq!(judge(&[("device", "")]), Verdict::Vague);
        assert_eq!(judge(&[("lock", ""), ("one-at-a-time", "")]), Verdict::Order);
        assert_eq!(judge(&[("lock", ""), ("device", "")]), Verdict::Wrong);
        assert_eq!(judge(&[("inconclusive", "")]), Verdict::Inconclusive);
        assert_eq!(judge(&[]), Verdict::Inconclusive);
        for (head, named) in [
            ("# expect: timer", "cause"),
            ("# cause: x", "expect"),
            ("# cause: x\n# expect: timre", "timre"),
            ("# cause: x\n# expect: timer\n# wach: 5s", "wach"),
        ] {
            let error = Case::parse(Path::new("a.sh"), head, &causes).err().unwrap().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
