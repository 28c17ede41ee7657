//! io_uring's tracepoints, counted, and the flags that rings are set up with
//! (include/trace/events/io_uring.h of the kernel).

use super::punted::Punted;
use crate::perf::{
    EachIo, Field, Gate, OnCpus, Record, Ring, Tracefs, Tracepoint, Turns, bindings, online_cpus,
    refused,
};
use fathom_model::watch::{Missing, RingEvents};
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// Runs of task work are told apart by these least numbers of requests. Each is one more filter that
/// the kernel tries at each run.
const BATCHES: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Bytes for records of new rings on each processor, each some 100 bytes.
const RECORDS: usize = 4096;
/// Places in a record of pid and tid, then of the raw data, after its length.
const PID: usize = 0;
const RAW: usize = 12;

/// Counters of io_uring's events, of all processes, since they were opened.
#[derive(Debug)]
pub(super) struct Events {
    punted: Option<Punted>,
    overflows: Option<OnCpus>,
    /// By least number of requests, over both kinds of task work.
    task_work: Vec<(u32, Vec<OnCpus>)>,
    creations: Option<Creations>,
    /// What switches task work's counters, where they are not always on.
    partly: Option<(Gate, Turns)>,
}

impl Events {
    /// Opens all that the kernel has; what it has not is told in `missing`.
    pub fn open(
        proc_root: &Path,
        sys_root: &Path,
        each_io: EachIo,
        missing: &mut Vec<Missing>,
    ) -> Option<Self> {
        let what = "io_uring's events";
        let found = Tracefs::find(proc_root, what).and_then(|tracefs| {
            let refused = |error| refused(what, &error);
            let cpus = online_cpus(sys_root).map_err(refused)?;
            let partly = each_io == EachIo::Partly;
            let gate = partly.then(|| Gate::open(&cpus)).transpose().map_err(refused)?;
            Ok(Source { tracefs, cpus, gate })
        });
        let source = found.map_err(|missed| missing.push(missed)).ok()?;
        let punted = source.punted(each_io).map_err(|missed| missing.push(missed)).ok();
        let overflows = source.count("io_uring_cqe_overflow");
        let overflows = overflows.map_err(|missed| missing.push(missed)).ok();
        let kinds: &[&str] = match each_io {
            EachIo::Never => &[],
            _ => &["io_uring_task_work_run", "io_uring_local_work_run"],
        };
        let mut by_batch: Vec<(u32, Vec<OnCpus>)> = Vec::new();
        for kind in kinds {
            let all: Result<Vec<OnCpus>, Missing> =
                (0..BATCHES.len()).map(|index| source.count_runs(kind, &batch(index))).collect();
            let Ok(all) = all.map_err(|missed| missing.push(missed)) else { continue };
            by_batch.resize_with(BATCHES.len(), || (0, Vec::new()));
            for ((least, counters), (batch, counter)) in
                by_batch.iter_mut().zip(BATCHES.iter().zip(all))
            {
                *least = *batch;
                counters.push(counter);
            }
        }
        let creations = source.creations().map_err(|missed| missing.push(missed)).ok();
        let partly = source.gate.map(|gate| (gate, Turns::default()));
        let events = Self { punted, overflows, task_work: by_batch, creations, partly };
        (events.punted.is_some() || events.overflows.is_some() || !events.task_work.is_empty())
            .then_some(events)
    }

    /// Switches what is not always on. To be called each [`Turns::PERIOD`].
    pub fn turn(&mut self) {
        if let Some(punted) = &mut self.punted {
            punted.turn();
        }
        if let Some((gate, turns)) = &mut self.partly {
            gate.switch(turns.next());
        }
    }

    /// The counters as they stand.
    pub fn read(&mut self) -> RingEvents {
        let punted = self.punted.as_mut().and_then(Punted::read);
        let runs = |counters: &Vec<OnCpus>| -> io::Result<u64> {
            counters.iter().try_fold(0, |sum, counter| Ok(sum + counter.read()?))
        };
        let batches = self.task_work.iter();
        RingEvents {
            punted: punted.map(|(count, _)| count),
            punted_estimated: punted.is_some_and(|(_, is_rough)| is_rough),
            overflows: self.overflows.as_ref().and_then(|counter| counter.read().ok()),
            task_work_ns: self.partly.as_ref().map(|(gate, _)| gate.on_ns()),
            task_work: batches.map_while(|(least, all)| Some((*least, runs(all).ok()?))).collect(),
        }
    }

    /// The flags of rings that were made since the last call, by process and descriptor.
    pub fn created(&mut self) -> HashMap<(i32, i32), u32> {
        self.creations.as_mut().map_or_else(HashMap::new, Creations::drain)
    }
}

/// The filter for runs of [`BATCHES`]`[index]` requests and more, up to the next.
fn batch(index: usize) -> String {
    let least = BATCHES[index];
    match BATCHES.get(index + 1) {
        Some(next) => format!("count >= {least} && count < {next}"),
        None => format!("count >= {least}"),
    }
}

/// Where events come from.
struct Source {
    tracefs: Tracefs,
    cpus: Vec<u32>,
    gate: Option<Gate>,
}

impl Source {
    /// Counts all of a kind from now on.
    fn count(&self, name: &str) -> Result<OnCpus, Missing> {
        let point = self.tracefs.tracepoint("io_uring", name)?;
        let counters = point.count(&self.cpus, None);
        let counters = counters.and_then(|counters| counters.enable().map(|()| counters));
        counters.map_err(|error| refused(&point.name, &error))
    }

    fn punted(&self, each_io: EachIo) -> Result<Punted, Missing> {
        let point = self.tracefs.tracepoint("io_uring", "io_uring_queue_async_work")?;
        let counter = |gate: Option<&Gate>| point.count_gated(&self.cpus, None, gate);
        let punted = Punted::open(each_io, || Gate::open(&self.cpus), counter);
        punted.map_err(|error| refused(&point.name, &error))
    }

    /// Counts those that match, while the gate is on where there is one.
    fn count_runs(&self, name: &str, filter: &str) -> Result<OnCpus, Missing> {
        let point = self.tracefs.tracepoint("io_uring", name)?;
        let counters = point.count_gated(&self.cpus, Some(filter), self.gate.as_ref());
        counters.map_err(|error| refused(&point.name, &error))
    }

    fn creations(&self) -> Result<Creations, Missing> {
        let point = self.tracefs.tracepoint("io_uring", "io_uring_create")?;
        Creations::open(&point, &self.cpus).map_err(|error| Missing {
            what: "the flags that rings are set up with".into(),
            ..refused(&point.name, &error)
        })
    }
}

/// Records of rings that are made.
#[derive(Debug)]
struct Creations {
    // Before the events, so that it is unmapped before they are closed.
    records: Vec<Ring>,
    _events: OnCpus,
    fd: Field,
    flags: Field,
}

impl Creations {
    fn open(point: &Tracepoint, cpus: &[u32]) -> io::Result<Self> {
        let field = |name: &str| {
            point.field(name).cloned().ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("it has no field {name}"))
            })
        };
        let mut attr = point.attr();
        attr.__bindgen_anon_1.sample_period = 1;
        attr.sample_type = u64::from(bindings::PERF_SAMPLE_TID | bindings::PERF_SAMPLE_RAW);
        let events = point.open(attr, cpus, None, None)?;
        let records = events
            .events()
            .iter()
            .map(|event| Ring::map(event, RECORDS))
            .collect::<io::Result<_>>()?;
        events.enable()?;
        Ok(Self { records, _events: events, fd: field("fd")?, flags: field("flags")? })
    }

    fn drain(&mut self) -> HashMap<(i32, i32), u32> {
        let mut flags = HashMap::new();
        let mut add = |record: Record<'_>| {
            let raw = record.body.get(RAW..)?;
            let pid = i32::try_from(record.u32_at(PID)?).ok()?;
            let fd = self.fd.number(raw)? as i32;
            flags.insert((pid, fd), self.flags.number(raw)? as u32);
            Some(())
        };
        for ring in &mut self.records {
            ring.drain(|record| {
                if record.kind == bindings::PERF_RECORD_SAMPLE {
                    // A record that is too short tells nothing.
                    let _ = add(record);
                }
            });
        }
        flags
    }
}
