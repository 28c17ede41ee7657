//! The cases: workload, measured figures, goals. `cases.txt` describes its own form.

use super::results::{Figure, Goal, Peer};
use super::threads::Load;
use super::tools::Tool;
use crate::Result;
use clap::ValueEnum;
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Case {
    pub name: String,
    pub title: String,
    pub target: Target,
    pub measure: Measure,
    pub job_file: bool,
    /// One of several similar, short cases that share a table.
    pub in_row: bool,
    /// Also run with `--quick`.
    pub quick: bool,
    /// Run only if it is named.
    pub only_named: bool,
    pub goals: Vec<Goal>,
    keys: Vec<(Tool, Vec<String>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Sparse(u64),
    Filled,
    Loop,
    Zram(u64),
    Threads(Load),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Speed,
    Beside,
    Instructions,
    Overhead,
    Start,
    Sampling,
    Memory { fathom_jobs: u32, peer_jobs: u32 },
}

impl Case {
    /// The keys of a tool; `None` if it is not part of this case.
    pub fn keys(&self, tool: Tool) -> Option<&[String]> {
        let (_, keys) = self.keys.iter().find(|(have, _)| *have == tool)?;
        Some(keys)
    }
}

pub fn all() -> Result<Vec<Case>> {
    let mut cases = parse(&defaults())?;
    for case in &mut cases {
        (case.in_row, case.quick) = (true, case.name.ends_with("-32"));
    }
    cases.extend(parse(include_str!("cases.txt"))?);
    Ok(cases)
}

/// fathom's defaults on a disk, a loop device and zram, compared with the best that fio and t/io_uring reach. The second
/// t/io_uring submits half of the queue depth per call.
fn defaults() -> String {
    // fio's default is psync; its block map, processes and clock (therefore latencies) cost it time.
    let mut text =
        "RING = ioengine=io_uring\nTUNED = ioengine=io_uring fixedbufs=1 registerfiles=1 \
        norandommap=1 thread=1 gtod_reduce=1\n"
            .to_string();
    for (place, title, target) in
        [("file", "file", "filled"), ("loop", "loop device", "loop"), ("zram", "zram", "zram 256m")]
    {
        let mut add = |name: &str, what: &str, keys: &str, own: Option<(&str, u32)>| {
            text += &format!(
                "disk-{place}-{name}: {title}, {what}\n target {target}\n measure speed\n fathom {keys}\n \
                 fio RING {keys}\n fio-tuned TUNED {keys}\n goal iops best 0.98\n goal cpu-per-io best 1\n"
            );
            if let Some((options, depth)) = own {
                let half = (depth / 2).max(1);
                text += &format!(
                    " t/io_uring {options} -d{depth} -s1 -c1\n t/io_uring-half {options} -d{depth} -s{half} -c{half}\n"
                );
            }
        };
        for depth in (0..=8).map(|power| 1 << power) {
            let what = format!("4 KiB random reads, depth {depth}");
            add(&depth.to_string(), &what, &format!("direct=1 iodepth={depth}"), Some(("", depth)));
        }
        let deep = |keys: &str| format!("direct=1 iodepth=32 {keys}");
        let blocks = "16 KiB random reads, depth 32";
        add("16k", blocks, &deep("bs=16k"), Some(("-b16384", 32)));
        let libaio = "4 KiB random reads, libaio, QD32";
        add("libaio", libaio, &deep("ioengine=libaio"), Some(("-a1", 32)));
        let jobs = "4 KiB random reads, 4 jobs, QD8";
        add("jobs", jobs, "direct=1 iodepth=8 numjobs=4", Some(("-n4", 8)));
        let mixed = "4 KiB, 70% reads and 30% writes, QD32";
        add("mixed", mixed, &deep("rw=randrw rwmixread=70"), None);
        add("write", "4 KiB random writes, depth 32", &deep("rw=randwrite"), None);
    }
    text
}

fn parse(text: &str) -> Result<Vec<Case>> {
    let mut words = BTreeMap::new();
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((name, keys)) = line.split_once(" = ") {
            words.insert(name, keys);
        } else if let Some((name, title)) = line.split_once(": ").filter(|_| !line.starts_with(' '))
        {
            cases.push(Case {
                name: name.into(),
                title: title.into(),
                target: Target::Filled,
                measure: Measure::Speed,
                job_file: false,
                in_row: false,
                quick: true,
                only_named: false,
                goals: Vec::new(),
                keys: Vec::new(),
            });
        } else {
            let case = cases.last_mut().ok_or("the first line names no case")?;
            let parts: Vec<&str> = line.split_whitespace().collect();
            case.set(&parts, &words).ok_or_else(|| format!("{}: {line}", case.name))?;
        }
    }
    Ok(cases)
}

impl Case {
    fn set(&mut self, line: &[&str], words: &BTreeMap<&str, &str>) -> Option<()> {
        match line {
            ["target", "sparse", size] => self.target = Target::Sparse(bytes(size)?),
            ["target", "zram", size] => self.target = Target::Zram(bytes(size)?),
            ["target", "filled"] => self.target = Target::Filled,
            ["target", "loop"] => self.target = Target::Loop,
            ["target", "threads", threads, kind, busy] => {
                let (threads, busy) = (threads.parse().ok()?, busy.parse().ok()?);
                let kind = ValueEnum::from_str(kind, false).ok()?;
                self.target = Target::Threads(Load { threads, kind, busy });
            }
            ["measure", "sampling"] => self.measure = Measure::Sampling,
            ["only-named"] => self.only_named = true,
            ["measure", "speed"] => self.measure = Measure::Speed,
            ["measure", "beside"] => self.measure = Measure::Beside,
            ["measure", "instructions"] => self.measure = Measure::Instructions,
            ["measure", "overhead"] => self.measure = Measure::Overhead,
            ["measure", "start"] => self.measure = Measure::Start,
            ["measure", "memory", own, peer] => {
                let (fathom_jobs, peer_jobs) = (own.parse().ok()?, peer.parse().ok()?);
                self.measure = Measure::Memory { fathom_jobs, peer_jobs };
            }
            ["job-file"] => self.job_file = true,
            ["sampling"] => {
                let variants = [Tool::WatchDefault, Tool::Again, Tool::WatchFull];
                self.keys.extend(variants.map(|tool| (tool, Vec::new())));
            }
            ["goal", figure, peer, limit] => {
                let figure = Figure::ALL.into_iter().find(|known| known.name() == *figure)?;
                let peer = match *peer {
                    "-" => Peer::None,
                    "best" => Peer::Fastest,
                    tool => Peer::Tool(tool_of(tool)?),
                };
                self.goals.push(Goal { figure, peer, limit: limit.parse().ok()? });
            }
            [tool, keys @ ..] => {
                let tool = tool_of(tool)?;
                let keys = keys.iter().flat_map(|key| words.get(key).unwrap_or(key).split(' '));
                let keys: Vec<String> = keys.map(String::from).collect();
                let variants =
                    self.keys.iter_mut().filter(|(of, _)| tool == Tool::Fathom && of.is_fathom());
                variants.for_each(|(_, of)| of.clone_from(&keys));
                self.keys.push((tool, keys));
            }
            [] => return None,
        }
        Some(())
    }
}

fn tool_of(id: &str) -> Option<Tool> {
    Tool::ALL.into_iter().find(|tool| tool.name() == id)
}

/// `4g`, `256m`.
fn bytes(size: &str) -> Option<u64> {
    let (number, unit) = size.split_at_checked(size.len().checked_sub(1)?)?;
    Some(number.parse::<u64>().ok()? << if unit == "g" { 30 } else { 20 })
}
