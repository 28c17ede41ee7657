//! Watching that is switched on and off in turn while one run goes on, to tell what it costs.
//!
//! Two runs differ by more than watching costs: where their threads and their memory lie gives each a speed of
//! its own. Within one run that stays as it is.

use super::Session;
use super::beside::Beside;
use fathom_analysis::run::TURNS_MIN;
use fathom_model::plan::JobPlan;
use fathom_model::units;
use fathom_model::watch::{Level, WatchRecord, WatchTurn};
use fathom_model::{Plan, Progress};
use std::collections::BTreeMap;
use std::time::Duration;

/// Turns without and with watching: off, on, on, off, so that a steady drift meets both alike.
pub struct Turns<'a> {
    session: &'a Session,
    level: Level,
    length_ns: u64,
    /// Where the turn that goes on began, and where counting began in it.
    turn: Option<(u64, Option<Count>)>,
    beside: Option<Beside>,
    record: WatchRecord,
}

/// How far the run was at a time.
#[derive(Clone, Copy)]
struct Count {
    at_ns: u64,
    ios: u64,
}

/// Between two looks at a run, at most; a turn ends at one.
const LOOK: Duration = Duration::from_millis(100);

/// Whether enough turns of `length` fit into the time that `plan` is measured, where that is known.
///
/// # Errors
/// Says how long it has to be.
pub fn check(plan: &Plan, length: Duration) -> Result<(), String> {
    let Some(most_ns) = most_ns(plan) else { return Ok(()) };
    let needed = (length + LOOK) * TURNS_MIN as u32 + LOOK;
    if needed.as_nanos() <= u128::from(most_ns) {
        return Ok(());
    }
    let time = |time: Duration| units::time(time.as_nanos() as f64);
    Err(format!(
        "--watch-turns: {TURNS_MIN} turns of {} need a runtime of {}, and this is {}; take a longer one, or \
         shorter turns (1s at least)",
        time(length),
        time(Duration::from_secs(needed.as_secs() + 1)),
        units::time(most_ns as f64),
    ))
}

/// The longest time from the first I/O that is measured to the last, if all jobs end at a time. Turns go on while a
/// later wave ramps.
fn most_ns(plan: &Plan) -> Option<u64> {
    let mut waves: BTreeMap<u32, u64> = BTreeMap::new();
    let begins = |job: &JobPlan| job.start_delay_ns.saturating_add(job.until.ramp_ns);
    for job in &plan.jobs {
        let wave = waves.entry(job.wave).or_default();
        *wave = begins(job).saturating_add(job.until.runtime_ns?).max(*wave);
    }
    let (first, all) =
        (*waves.keys().next()?, waves.values().fold(0, |a: u64, b| a.saturating_add(*b)));
    let before = plan.jobs.iter().filter(|job| job.wave == first).map(begins).min()?;
    Some(all - before)
}

impl<'a> Turns<'a> {
    /// Turns of `length` each, of which the second half counts: by then samplers are open and closed.
    pub fn new(session: &'a Session, level: Level, length: Duration) -> Self {
        let length_ns = length.as_nanos() as u64;
        let record = WatchRecord { level, turn_ns: Some(length_ns), ..WatchRecord::default() };
        Self { session, level, length_ns, turn: None, beside: None, record }
    }

    /// Goes on to the next turn where it is time.
    pub fn look(&mut self, progress: &Progress) {
        while self.beside.as_mut().and_then(Beside::next).is_some() {}
        let dirs = progress.jobs.iter().flat_map(|job| job.dirs.iter());
        let now = Count { at_ns: progress.elapsed_ns, ios: dirs.map(|(_, done)| done.ios).sum() };
        match &mut self.turn {
            // Nothing is measured yet.
            None if now.ios == 0 => {}
            None => self.turn = Some((now.at_ns, None)),
            Some((began, from @ None)) if now.at_ns >= *began + self.length_ns / 2 => {
                *from = Some(now);
            }
            Some((began, Some(from))) if now.at_ns >= *began + self.length_ns => {
                let (ns, ios) = (now.at_ns - from.at_ns, now.ios.saturating_sub(from.ios));
                let watched = is_watched(self.record.turns.len());
                self.record.turns.push(WatchTurn { watched, ns, ios });
                self.turn = Some((now.at_ns, None));
                self.switch(is_watched(self.record.turns.len()));
            }
            Some(_) => {}
        }
    }

    fn switch(&mut self, on: bool) {
        if on && self.beside.is_none() {
            self.beside = Some(Beside::new(self.level, self.session));
        } else if !on {
            self.stop();
        }
    }

    fn stop(&mut self) {
        if let Some(told) = self.beside.take().and_then(|beside| beside.stop().1) {
            let turns = std::mem::take(&mut self.record.turns);
            self.record = WatchRecord { turns, turn_ns: self.record.turn_ns, ..told.record };
        }
    }

    /// Ends it; gives the turns that came to their end, and how it was watched in the last of them.
    pub fn finish(mut self) -> WatchRecord {
        self.stop();
        self.record
    }
}

fn is_watched(turn: usize) -> bool {
    matches!(turn % 4, 1 | 2)
}
