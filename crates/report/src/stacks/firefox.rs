//! The Firefox profiler's processed profile
//! (github.com/firefox-devtools/profiler, docs-developer/processed-profile-format.md, version 48).

use super::{Frame, Sampled, comm, process_name};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// Categories, by which the profiler colors: numbers into `meta.categories`.
const USER: usize = 1;
const KERNEL: usize = 2;

/// A profile that profiler.firefox.com opens: each thread a track, each interval's samples of a stack
/// one row at the interval's end with their number as its weight.
pub fn firefox(sampled: &Sampled) -> String {
    let mut threads: BTreeMap<(i32, i32), Tables> = BTreeMap::new();
    for (end_ns, sample) in &sampled.intervals {
        for count in &sample.counts {
            let thread = threads.entry((count.pid, count.tid)).or_default();
            thread.comm = comm(count).into();
            thread.process = process_name(count).into();
            let stack = thread.stack(sampled.frames(count.stack));
            thread.rows.push((stack, *end_ns as f64 / 1e6, count.count));
        }
    }
    let names: HashMap<i32, String> =
        threads.iter().rev().map(|((pid, _), thread)| (*pid, thread.process.clone())).collect();
    let shown: Vec<Value> = threads
        .iter()
        .map(|((pid, tid), thread)| {
            thread.json(*pid, *tid, names.get(pid).map_or("", String::as_str))
        })
        .collect();
    let hz = sampled.intervals.iter().map(|(_, sample)| sample.hz).find(|hz| *hz > 0).unwrap_or(1);
    let profile = json!({
        "meta": {
            "version": 27,
            "preprocessedProfileVersion": 48,
            "interval": 1000.0 / f64::from(hz),
            "startTime": sampled.started_unix_ns as f64 / 1e6,
            "processType": 0,
            "product": "fathom",
            "platform": "Linux",
            "oscpu": "Linux",
            "stackwalk": 1,
            "debug": false,
            "symbolicated": true,
            "usesOnlyOneStackType": true,
            "doesNotUseFrameImplementation": true,
            "sourceCodeIsNotOnSearchfox": true,
            "extensions": { "baseURL": [], "id": [], "name": [], "length": 0 },
            "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns" },
            "categories": [
                { "name": "Other", "color": "grey", "subcategories": ["Other"] },
                { "name": "User", "color": "yellow", "subcategories": ["Other"] },
                { "name": "Kernel", "color": "blue", "subcategories": ["Other"] },
            ],
            "markerSchema": [],
        },
        "libs": [],
        "pages": [],
        "threads": shown,
    });
    profile.to_string()
}

#[derive(Debug, Default)]
struct Tables {
    comm: String,
    process: String,
    strings: Vec<String>,
    /// Functions, which are frames as well: name and category.
    functions: Vec<(usize, usize)>,
    known_functions: HashMap<(String, bool), usize>,
    stacks: Vec<(Option<usize>, usize)>,
    known_stacks: HashMap<(Option<usize>, usize), usize>,
    rows: Vec<(Option<usize>, f64, u32)>,
}

impl Tables {
    fn stack<'a>(&mut self, frames: impl Iterator<Item = Frame<'a>>) -> Option<usize> {
        let mut at = None;
        for frame in frames {
            let key = (at, self.function(frame));
            let next = self.stacks.len();
            let stack = *self.known_stacks.entry(key).or_insert(next);
            if stack == next {
                self.stacks.push(key);
            }
            at = Some(stack);
        }
        at
    }

    fn function(&mut self, frame: Frame<'_>) -> usize {
        let next = self.functions.len();
        let key = (frame.name.to_string(), frame.kernel);
        let function = *self.known_functions.entry(key).or_insert(next);
        if function == next {
            let category = if frame.kernel { KERNEL } else { USER };
            self.functions.push((self.strings.len(), category));
            self.strings.push(frame.name.into());
        }
        function
    }

    fn json(&self, pid: i32, tid: i32, process: &str) -> Value {
        json!({
            "name": self.comm,
            "isMainThread": pid == tid,
            "processType": "default",
            "processName": process,
            "pid": pid.to_string(),
            "tid": tid,
            "processStartupTime": 0,
            "processShutdownTime": null,
            "registerTime": 0,
            "unregisterTime": null,
            "pausedRanges": [],
            "samples": {
                "stack": self.rows.iter().map(|row| row.0).collect::<Vec<_>>(),
                "time": self.rows.iter().map(|row| row.1).collect::<Vec<_>>(),
                "weight": self.rows.iter().map(|row| row.2).collect::<Vec<_>>(),
                "weightType": "samples",
                "length": self.rows.len(),
            },
            "markers": {
                "data": [], "name": [], "startTime": [], "endTime": [], "phase": [],
                "category": [], "length": 0,
            },
            "stackTable": self.stack_table(),
            "frameTable": self.frame_table(),
            "funcTable": self.func_table(),
            "resourceTable": { "lib": [], "name": [], "host": [], "type": [], "length": 0 },
            "nativeSymbols": {
                "libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0,
            },
            "stringArray": self.strings,
        })
    }

    fn stack_table(&self) -> Value {
        let category = |(_, function): &(Option<usize>, usize)| self.functions[*function].1;
        json!({
            "prefix": self.stacks.iter().map(|stack| stack.0).collect::<Vec<_>>(),
            "frame": self.stacks.iter().map(|stack| stack.1).collect::<Vec<_>>(),
            "category": self.stacks.iter().map(category).collect::<Vec<_>>(),
            "subcategory": vec![0; self.stacks.len()],
            "length": self.stacks.len(),
        })
    }

    fn frame_table(&self) -> Value {
        let length = self.functions.len();
        let none = vec![Value::Null; length];
        json!({
            "func": (0..length).collect::<Vec<_>>(),
            "category": self.functions.iter().map(|function| function.1).collect::<Vec<_>>(),
            "subcategory": vec![0; length],
            "address": vec![-1; length],
            "inlineDepth": vec![0; length],
            "nativeSymbol": none,
            "innerWindowID": none,
            "implementation": none,
            "line": none,
            "column": none,
            "length": length,
        })
    }

    fn func_table(&self) -> Value {
        let length = self.functions.len();
        let none = vec![Value::Null; length];
        json!({
            "name": self.functions.iter().map(|function| function.0).collect::<Vec<_>>(),
            "isJS": vec![false; length],
            "relevantForJS": vec![false; length],
            "resource": vec![-1; length],
            "fileName": none,
            "lineNumber": none,
            "columnNumber": none,
            "length": length,
        })
    }
}
