//! A case: a shell file whose head says what its program is limited by.

use super::truth::{self, Shares};
use crate::Result;
use crate::programs;
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
    /// On an idle machine, and with all CPUs busy.
    pub expect: [Expected; 2],
    /// The finding that is right contains this word.
    mentions: String,
    packages: Vec<String>,
    /// Names of the processes at the other end, which bpftrace traces as well.
    pub peers: Vec<String>,
    /// `program` prints the processes to watch, for this long.
    pub watch: Option<String>,
    /// `program` becomes fathom itself, whose own result is judged.
    pub is_fathom: bool,
}

#[derive(Default)]
pub struct Expected {
    /// The rules that name the causes, each with its group of the account; the main one's first.
    right: Vec<(String, String)>,
    vague: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Right,
    Vague,
    /// A cause that is right, but not first, or of which bpftrace found less than of another.
    Order,
    Wrong,
    Inconclusive,
}

/// verdicts/causes.txt: of each cause the group, the rules that name it, and those that are true, but vague.
pub type Causes = BTreeMap<String, [String; 3]>;

/// Share of the time by which one cause must exceed another to be the larger one: what bpftrace's and fathom's differ by.
const MORE_MIN: f64 = 0.05;

/// $1 is the case's file, $2 its directory, $3 the function, $4 the marker, $5 the fathom to be used.
const SHELL: &str = "set -eu; DIR=$2; FATHOM=$5; cd \"$DIR\"; . \"${1%/*}/../lib.sh\"; . \"$1\"
    [ \"$3\" != program ] || kill -0 $4 2>/dev/null || :
    \"$3\"";

pub fn causes(text: &str) -> Causes {
    let row = |line: &str| {
        let mut cells = line.split('|').map(|cell| cell.trim().to_string());
        let mut cell = || cells.next().unwrap_or_default();
        (cell(), [cell(), cell(), cell()])
    };
    text.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split([',', ' ']).filter(|word| !word.is_empty()).map(String::from)
}

impl Expected {
    fn of(names: &str, vague: &str, causes: &Causes) -> Result<Expected> {
        let find = |name: String| causes.get(&name).ok_or(format!("{name}: not in causes.txt"));
        let mut expected = Expected::default();
        for name in words(vague) {
            expected.vague.extend(words(&find(name)?[1]));
        }
        for name in words(names) {
            let [group, rules, vague] = find(name)?;
            expected.right.extend(words(rules).map(|rule| (rule, group.clone())));
            expected.vague.extend(words(vague));
        }
        Ok(expected)
    }

    /// The group of the cause that this rule names, or of the main one.
    pub fn group(&self, rule: &str) -> &str {
        let named = self.right.iter().find(|(name, _)| name == rule);
        named.or(self.right.first()).map_or("", |(_, group)| group)
    }
}

impl Case {
    pub fn read_all(dir: &Path, causes: &Causes) -> Result<Vec<Case>> {
        programs::cases(dir, |path, _, text| Case::parse(path, text, causes))
    }

    fn parse(path: &Path, text: &str, causes: &Causes) -> Result<Case> {
        let lines = text.lines().map_while(|line| line.strip_prefix("# "));
        let mut head: BTreeMap<_, _> = lines.filter_map(|line| line.split_once(": ")).collect();
        let expect = head.remove("expect").ok_or("`# expect:` is missing")?;
        let vague = head.remove("vague").unwrap_or_default();
        let busy = head.remove("busy").unwrap_or(expect);
        let case = Case {
            path: path.to_path_buf(),
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            cause: head.remove("cause").ok_or("`# cause:` is missing")?.into(),
            expect: [Expected::of(expect, vague, causes)?, Expected::of(busy, vague, causes)?],
            mentions: head.remove("mentions").unwrap_or_default().into(),
            packages: words(head.remove("packages").unwrap_or_default()).collect(),
            peers: words(head.remove("peers").unwrap_or_default()).collect(),
            watch: head.remove("watch").map(String::from),
            is_fathom: match head.remove("runs") {
                None => false,
                Some("fathom") => true,
                Some(other) => return Err(format!("`# runs: {other}`: expected fathom").into()),
            },
        };
        match head.into_keys().next() {
            Some(key) => Err(format!("unknown key {key}").into()),
            None => Ok(case),
        }
    }

    /// Installs its packages where they are missing.
    pub fn install(&self) -> Result<()> {
        const SCRIPT: &str = "dpkg-query -W -f '${Status}' $0 2>&1 | grep -q 'ok installed' ||
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $0";
        for package in &self.packages {
            if !Command::new("sh").args(["-c", SCRIPT, package]).output()?.status.success() {
                return Err(format!("package {package} cannot be installed").into());
            }
        }
        Ok(())
    }

    /// Arguments of bash for one of its functions.
    pub fn arguments(&self, function: &str, dir: &Path, fathom: &Path) -> Vec<String> {
        let [path, dir, fathom] =
            [&self.path, dir, fathom].map(|path: &Path| path.display().to_string());
        let marker = truth::marker();
        vec![
            "-c".into(),
            SHELL.into(),
            "verdicts".into(),
            path,
            dir,
            function.into(),
            marker,
            fathom,
        ]
    }

    /// Runs one of its functions, which must succeed.
    pub fn call(&self, function: &str, dir: &Path, fathom: &Path) -> Result<Finished> {
        let (bash, limit) = (Path::new("bash"), Duration::from_secs(120));
        let done =
            attempt(bash, &self.arguments(function, dir, fathom), dir, Probe::Nothing, limit)?;
        match done.code {
            Some(0) => Ok(done),
            _ => Err(format!("{function}: {}", last_line(&done)).into()),
        }
    }

    /// The verdict on fathom's findings, with the rule and the sentence of the first one.
    pub fn judge(
        &self,
        findings: &Value,
        is_busy: bool,
        truth: Option<&Shares>,
    ) -> (Verdict, String, String) {
        let expected = &self.expect[usize::from(is_busy)];
        let is_right = |rule: &String| expected.right.iter().any(|(right, _)| right == rule);
        let share =
            |group: &str| truth.and_then(|shares| shares.get(group)).copied().unwrap_or(0.0);
        let most = expected.right.iter().map(|(_, group)| share(group)).fold(0.0, f64::max);
        // What other threads do meanwhile is not in these shares.
        let others = share("peer").max(share("futex"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let mut verdict: Vec<&Value> = findings.as_array().into_iter().flatten().collect();
        verdict.retain(|finding| finding["rank"].is_u64());
        verdict.sort_by_key(|finding| finding["rank"].as_u64());
        let named =
            verdict.iter().map(|finding| (text(&finding["rule"]), text(&finding["summary"])));
        let named: Vec<(String, String)> = named.collect();
        let (rule, summary) = named.first().cloned().unwrap_or_default();
        let explained = truth.map_or(0.0, |shares| truth::share(shares, expected.group(&rule)));
        let is_less = explained + MORE_MIN < most && others < most;
        let verdict = if is_right(&rule) && is_less {
            Verdict::Order
        } else if is_right(&rule) && summary.contains(&self.mentions) {
            Verdict::Right
        } else if is_right(&rule) || expected.vague.contains(&rule) {
            Verdict::Vague
        } else if ["", "inconclusive"].contains(&rule.as_str()) {
            Verdict::Inconclusive
        } else if named.iter().any(|(rule, _)| is_right(rule)) {
            Verdict::Order
        } else {
            Verdict::Wrong
        };
        (verdict, rule, summary)
    }
}

pub fn last_line(done: &Finished) -> String {
    done.stderr.lines().last().unwrap_or("failed without a message").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_cause_is_judged() {
        let causes_text = "queue-depth | device | one-at-a-time | device\nown-cpu | on_cpu | own-cpu-time |\n\
             timer | timer | timer |\n";
        let causes = causes(causes_text);
        let text = "# cause: One read.\n# expect: queue-depth\n# busy: queue-depth, own-cpu\n# mentions: vda\nprogram() { :; }\n";
        let case = Case::parse(Path::new("cases/read.sh"), text, &causes).unwrap();
        let judged = |is_busy: bool, rules: &[(&str, &str)], on_cpu: f64| {
            let finding = |(at, (rule, summary)): (usize, &(&str, &str))| json!({ "rank": at + 1, "rule": rule, "summary": summary });
            let others = [json!({ "rule": "device", "summary": "" })];
            let findings =
                others.into_iter().chain(rules.iter().enumerate().map(finding).rev()).collect();
            let shares = [("on_cpu", on_cpu), ("device", 0.4)];
            let shares = shares.map(|(group, share)| (group.to_string(), share)).into();
            case.judge(&findings, is_busy, Some(&shares)).0
        };
        let judge = |rules: &[(&str, &str)]| judged(false, rules, 0.6);
        let cpu = [("own-cpu-time", "vda"), ("one-at-a-time", "on vda")];
        assert_eq!(judge(&cpu), Verdict::Order);
        // Of several causes, the larger one is right; none if they are as large.
        let first = |first: usize, on_cpu: f64| judged(true, &cpu[first..], on_cpu);
        assert_eq!([first(0, 0.6), first(1, 0.6)], [Verdict::Right, Verdict::Order]);
        assert_eq!([first(0, 0.42), first(1, 0.42)], [Verdict::Right, Verdict::Right]);
        assert_eq!([first(0, 0.2), first(1, 0.2)], [Verdict::Order, Verdict::Right]);
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
            ("# cause: x\n# expect: timer\n# runs: fio", "fio"),
        ] {
            let error = Case::parse(Path::new("a.sh"), head, &causes).err().unwrap().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
