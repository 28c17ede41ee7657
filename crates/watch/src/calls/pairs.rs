//! Entries and returns of calls, matched by thread.

use super::files::FileTable;
use fathom_model::Histogram;
use fathom_model::watch::{CallTimes, CallsSample};
use std::collections::{BTreeMap, HashMap};

/// Maximum number of calls in flight; there is one per thread.
const IN_FLIGHT_MAX: usize = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallEvent {
    pub time_ns: u64,
    pub pid: i32,
    pub tid: i32,
    pub number: u32,
    pub what: CallEventKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallEventKind {
    Entry {
        first: u64,
    },
    /// With the result, negative for an error.
    Return {
        result: i64,
    },
}

/// The calls recorded: number, name, and whether the first argument is a descriptor.
pub(super) type CallNames = HashMap<u32, (&'static str, bool)>;

#[derive(Debug)]
pub(super) struct CallPairs {
    names: CallNames,
    in_flight: HashMap<i32, CallEvent>,
    times: BTreeMap<&'static str, (u64, Histogram)>,
    not_files: u64,
    unfinished: u64,
}

impl CallPairs {
    pub fn new(names: CallNames) -> Self {
        Self {
            names,
            in_flight: HashMap::new(),
            times: BTreeMap::new(),
            not_files: 0,
            unfinished: 0,
        }
    }

    /// Adds an event; each thread's events in chronological order.
    pub fn add(&mut self, event: &CallEvent, files: &mut FileTable) {
        let result = match event.what {
            CallEventKind::Entry { first } => return self.begin(event, first, files),
            CallEventKind::Return { result } => result,
        };
        let Some(entry) = self.in_flight.remove(&event.tid) else { return };
        let Some((name, _)) = self.names.get(&entry.number) else { return };
        if entry.number != event.number {
            return;
        }
        let (failed, latency) = self.times.entry(name).or_default();
        latency.record(event.time_ns.saturating_sub(entry.time_ns));
        *failed += u64::from(result < 0);
    }

    /// A call that has begun. One on a pipe or socket may never return, so it is not awaited.
    fn begin(&mut self, event: &CallEvent, first: u64, files: &mut FileTable) {
        // The return of the thread's call before was lost.
        self.in_flight.remove(&event.tid);
        let has_file = self.names.get(&event.number).is_some_and(|(_, has_file)| *has_file);
        // The upper half of the register is undefined.
        if has_file && !files.is_file(event.pid, first as u32) {
            self.not_files += 1;
        } else if self.in_flight.len() < IN_FLIGHT_MAX {
            self.in_flight.insert(event.tid, *event);
        }
    }

    /// A thread has exited: its call does not return.
    pub fn ended(&mut self, tid: i32) {
        self.in_flight.remove(&tid);
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Drops the calls in flight: their returns may have been lost.
    pub fn forget(&mut self) {
        self.in_flight.clear();
    }

    /// Drops the calls in flight, and counts them: their returns are no longer recorded.
    pub fn stop_waiting(&mut self) {
        self.unfinished += self.in_flight.len() as u64;
        self.in_flight.clear();
    }

    pub fn put(&self, sample: &mut CallsSample) {
        let times = self.times.iter();
        let times = times.map(|(call, (failed, latency))| CallTimes {
            call: (*call).to_string(),
            failed: *failed,
            latency: latency.clone(),
        });
        sample.calls = times.collect();
        sample.not_files = self.not_files;
        sample.unfinished = self.unfinished;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn event(time_ns: u64, tid: i32, number: u32, what: CallEventKind) -> CallEvent {
        CallEvent { time_ns, pid: 7, tid, number, what }
    }

    #[test]
    fn calls_are_timed_from_entry_to_return() {
        use CallEventKind::{Entry, Return};
        let proc = tempfile::tempdir().unwrap();
        let dir = proc.path().join("7/fd");
        std::fs::create_dir_all(&dir).unwrap();
        std::os::unix::fs::symlink("pipe:[1]", dir.join("3")).unwrap();
        let mut files = FileTable::new(proc.path(), Path::new("/nonexistent"));
        let names = CallNames::from([(0, ("read", true)), (74, ("fsync", true))]);
        let mut pairs = CallPairs::new(names);
        for event in [
            event(10, 1, 0, Entry { first: 4 }),
            event(20, 2, 74, Entry { first: 0xffff_ffff_0000_0005 }),
            event(60, 1, 0, Return { result: 4096 }),
            event(520, 2, 74, Return { result: -5 }),
            // A pipe, a return without an entry, and one of another call.
            event(530, 1, 0, Entry { first: 3 }),
            event(540, 1, 0, Return { result: 1 }),
            event(550, 1, 0, Return { result: 1 }),
            event(560, 1, 0, Entry { first: 4 }),
            event(570, 1, 74, Return { result: 0 }),
            event(580, 3, 0, Entry { first: 4 }),
        ] {
            pairs.add(&event, &mut files);
        }
        assert_eq!(pairs.in_flight(), 1);
        pairs.ended(3);
        assert_eq!(pairs.in_flight(), 0);
        pairs.add(&event(590, 3, 0, Entry { first: 4 }), &mut files);
        let mut sample = CallsSample::default();
        pairs.put(&mut sample);
        let found: Vec<_> = sample
            .calls
            .iter()
            .map(|of| (of.call.as_str(), of.failed, of.latency.count(), of.latency.max_ns()))
            .collect();
        assert_eq!(found, [("fsync", 1, 1, 500), ("read", 0, 1, 50)]);
        assert_eq!(sample.not_files, 1);
        // A read of a pipe that does not return.
        pairs.ended(3);
        pairs.add(&event(600, 4, 0, Entry { first: 3 }), &mut files);
        assert_eq!(pairs.in_flight(), 0);
        pairs.put(&mut sample);
        assert_eq!(sample.not_files, 2);
        pairs.add(&event(610, 4, 74, Entry { first: 4 }), &mut files);
        pairs.stop_waiting();
        pairs.add(&event(620, 4, 74, Entry { first: 4 }), &mut files);
        pairs.forget();
        assert_eq!(pairs.in_flight(), 0);
        pairs.put(&mut sample);
        assert_eq!(sample.unfinished, 1);
    }
}
