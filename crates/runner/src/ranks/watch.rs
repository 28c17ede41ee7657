//! What ranks do together while each is at work: a thread of each exchanges how far it is, in barriers that use no CPU time.

use super::{Lost, Ranks, SILENCE};
use crate::cancel::CancelToken;
use fathom_engine::clock::unix_ns;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Between two exchanges: before the common start, and after it.
const PACE_BEFORE: Duration = Duration::from_millis(50);
const PACE: Duration = Duration::from_secs(1);
/// From the moment at which rank 0 knows that all are ready to the common start: more than an exchange takes.
const HEAD_START: Duration = Duration::from_millis(500);

/// What every rank waits for all others at, in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    #[default]
    Begun,
    /// Its jobs are possible on its machine. Nothing has been changed so far.
    Planned,
    /// Its targets are open, and may be used.
    Opened,
    /// Its files are laid out, and its samplers are open.
    Ready,
    /// Its result is complete.
    Done,
}

/// How far a rank is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub host: String,
    /// Where it waits for the others, or what it passed last.
    pub gate: Gate,
    /// Why it cannot take part, if so.
    pub refusals: Vec<String>,
    /// Files on other machines' file systems that it would write, by path, but for those that all may write.
    pub writes: Vec<String>,
    pub ios: u64,
    pub bytes: u64,
}

/// What rank 0 found in the last exchange.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Go {
    /// All have reached this.
    gate: Gate,
    /// One cannot take part, or some would write over each other.
    is_refused: bool,
    /// Who would.
    conflicts: Vec<String>,
    /// When the jobs start, on rank 0's clock, in nanoseconds since the Unix epoch.
    start_unix_ns: Option<u64>,
}

#[derive(Default)]
struct Shared {
    own: Status,
    /// On rank 0, of all ranks as of the last exchange.
    all: Vec<Status>,
    go: Go,
    lost: Option<Lost>,
}

/// This rank and the others, while a run is prepared and in progress.
pub struct Together {
    shared: Arc<(Mutex<Shared>, Condvar)>,
    exchanging: Mutex<Option<JoinHandle<Ranks>>>,
    last: Gate,
}

impl Together {
    /// Begins to exchange what this rank on `host` says, until all have reached the gate `last`. If another is lost, `cancel`
    /// ends the run.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn begin(
        mut ranks: Ranks,
        host: &str,
        cancel: &CancelToken,
        last: Gate,
    ) -> Result<Self, String> {
        ranks.heeds_signals = false;
        let own = Status { host: host.into(), ..Status::default() };
        let shared = Arc::new((Mutex::new(Shared { own, ..Shared::default() }), Condvar::new()));
        let (for_thread, cancel) = (Arc::clone(&shared), cancel.clone());
        let exchanging = move || {
            if let Err(lost) = exchange(&mut ranks, &for_thread, last) {
                cancel.cancel_for_lost_rank(lost.who());
                lock(&for_thread.0).lost = Some(lost);
            }
            for_thread.1.notify_all();
            ranks
        };
        let started = Builder::new().name("ranks".into()).spawn(exchanging);
        let exchanging = started.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Self { shared, exchanging: Mutex::new(Some(exchanging)), last })
    }

    /// What this rank would write where others might; before [`Gate::Planned`].
    pub fn writes(&self, paths: Vec<String>) {
        lock(&self.shared.0).own.writes = paths;
    }

    pub fn progress(&self, ios: u64, bytes: u64) {
        let mut shared = lock(&self.shared.0);
        (shared.own.ios, shared.own.bytes) = (ios, bytes);
    }

    /// What all ranks did as of the last exchange; on rank 0 only.
    pub fn all(&self) -> Vec<Status> {
        lock(&self.shared.0).all.clone()
    }

    /// Waits until all ranks have reached `gate`; this one did, or cannot take part for the reasons given.
    ///
    /// # Errors
    /// Another was lost, or one cannot take part: by host on rank 0, elsewhere only that this is so.
    pub fn reach(&self, gate: Gate, refusals: Vec<String>) -> Result<(), Vec<String>> {
        let mut shared = lock(&self.shared.0);
        (shared.own.gate, shared.own.refusals) = (gate, refusals);
        self.shared.1.notify_all();
        loop {
            if shared.go.gate >= gate {
                return Ok(());
            }
            if shared.go.is_refused {
                return Err(refused(&shared));
            }
            if let Some(lost) = &shared.lost {
                return Err(vec![lost.to_string()]);
            }
            shared = self.shared.1.wait(shared).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// When the jobs start, on rank 0's clock, in nanoseconds since the Unix epoch; after [`Gate::Ready`].
    pub fn start_unix_ns(&self) -> Option<u64> {
        lock(&self.shared.0).go.start_unix_ns
    }

    /// Ends the exchange, and returns the ranks, or why some are lost. Where this one did not pass the last gate, the others
    /// learn that it has no result.
    pub fn end(&self) -> (Option<Ranks>, Option<Lost>) {
        let Some(exchanging) = lock(&self.exchanging).take() else { return (None, None) };
        {
            let mut shared = lock(&self.shared.0);
            if shared.own.gate < self.last {
                shared.own.gate = self.last;
                shared.own.refusals.push("it ended without a result".into());
            }
            self.shared.1.notify_all();
        }
        let ranks = exchanging.join().ok();
        (ranks, lock(&self.shared.0).lost.clone())
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        if let (Some(mut ranks), None) = self.end() {
            // The launcher may have gone already.
            let _ = ranks.leave();
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Until all ranks have reached the gate `last`, or one cannot take part.
fn exchange(
    ranks: &mut Ranks,
    (shared, changed): &(Mutex<Shared>, Condvar),
    last: Gate,
) -> Result<(), Lost> {
    let mut known = Go::default();
    loop {
        let own = lock(shared).own.clone();
        let from = if ranks.rank == 0 { 0..ranks.size } else { 0..1 };
        let text = super::encode(&(&own, &known))?;
        let found = ranks.exchange(Some(&text), from, SILENCE + PACE)?;
        let found = found.iter().map(|text| super::decode::<(Status, Go)>(text));
        let (all, goes): (Vec<Status>, Vec<Go>) =
            found.collect::<Result<Vec<_>, Lost>>()?.into_iter().unzip();
        let told = goes.first().cloned().ok_or_else(super::nothing)?;
        if ranks.rank == 0 {
            known = next(&known, &all);
        }
        let mut now = lock(shared);
        (now.all, now.go) = (all, told);
        changed.notify_all();
        if now.go.is_refused || now.go.gate >= last {
            return Ok(());
        }
        let pace = if now.go.gate < Gate::Ready { PACE_BEFORE } else { PACE };
        let is_same = |shared: &mut Shared| shared.own.gate == own.gate;
        drop(changed.wait_timeout_while(now, pace, is_same));
    }
}

/// What rank 0 says in the next exchange, after it saw `all`.
fn next(known: &Go, all: &[Status]) -> Go {
    let gate = all.iter().map(|status| status.gate).min().unwrap_or_default();
    let latest = all.iter().map(|status| status.gate).max().unwrap_or_default();
    let conflicts = if gate == Gate::Planned { conflicts(all) } else { Vec::new() };
    let is_refused = !conflicts.is_empty() || all.iter().any(|status| !status.refusals.is_empty());
    // Those that have not got there yet may have refusals of their own.
    let is_refused = is_refused && gate == latest;
    let start = || unix_ns() + HEAD_START.as_nanos() as u64;
    let start_unix_ns =
        known.start_unix_ns.or_else(|| (gate >= Gate::Ready && !is_refused).then(start));
    Go { gate: if is_refused { known.gate } else { gate }, is_refused, conflicts, start_unix_ns }
}

/// Files that two ranks would write.
fn conflicts(all: &[Status]) -> Vec<String> {
    let mut writers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for status in all {
        for path in &status.writes {
            writers.entry(path).or_default().push(&status.host);
        }
    }
    writers.retain(|_, hosts| hosts.len() > 1);
    let said = |(path, hosts): (&str, Vec<&str>)| {
        let advice = if path.starts_with("--journal") {
            "use $rank in its name"
        } else if path.starts_with("device ") {
            "--share=split gives each a part of it, and --share=same says that it is meant"
        } else if path.ends_with(')') {
            // Of one host.
            "use $rank in its name, --share=own, or one rank on each host; a file that is only read must exist before"
        } else {
            "use $rank in its name, --share=split to give each a part of it, or --share=same if that is meant"
        };
        format!(
            "{} ranks, the first two on {} and {}, would write over each other in {path}: {advice}",
            hosts.len(),
            hosts[0],
            hosts[1]
        )
    };
    writers.into_iter().map(said).collect()
}

fn refused(shared: &Shared) -> Vec<String> {
    let of = |(rank, status): (usize, &Status)| {
        let name = format!("{} (rank {rank})", status.host);
        let said = status.refusals.iter().map(move |why| format!("{name}: {why}"));
        said.collect::<Vec<_>>()
    };
    let of_ranks = shared.all.iter().enumerate().flat_map(of);
    of_ranks.chain(shared.go.conflicts.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_would_write_over_each_other_are_refused() {
        let status = |host: &str, path: &str, gate| Status {
            host: host.into(),
            writes: vec![path.into()],
            gate,
            ..Status::default()
        };
        let own = [status("a", "/nfs/0", Gate::Planned), status("b", "/nfs/1", Gate::Planned)];
        assert_eq!(next(&Go::default(), &own).gate, Gate::Planned);
        let same = [status("a", "/nfs/0", Gate::Planned), status("b", "/nfs/0", Gate::Planned)];
        let go = next(&Go::default(), &same);
        assert!(go.is_refused && go.gate == Gate::Begun && go.start_unix_ns.is_none());
        assert!(go.conflicts[0].starts_with("2 ranks, the first two on a and b, would write over"));
        // The third may have something to say, too.
        let early = [same.as_slice(), &[status("c", "/nfs/2", Gate::Begun)]].concat();
        assert!(!next(&Go::default(), &early).is_refused);
    }
}
