//! A record, as the view's intervals.

use super::feed::{Feed, Interval, Take};
use fathom_model::watch::{MachineSample, Missing, WatchRecord};
use fathom_report::calendar;
use fathom_report::top::{Go, Source, View};
use fathom_store::{Reader, TimedSample};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

/// Seconds of the record in a second.
const SPEEDS: [f64; 8] = [0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0];
const NORMAL: usize = 1;
/// Samples of a run that may go before the first of the machine.
const LATE_MAX: usize = 10;

/// A record with a place in it.
pub struct Replay {
    reader: Reader,
    first_ns: u64,
    last_ns: u64,
    shown: Option<Interval>,
    watched: WatchRecord,
    /// Each interval is shown once, as fast as they are asked for.
    as_lines: bool,
    /// What is shown has not been asked for yet.
    fresh: bool,
    ended: bool,
    speed: usize,
    /// Where it plays: the instant of the record that was reached, and when.
    playing: Option<(u64, Instant)>,
}

impl Replay {
    /// Opens the record at `dir` and stands at its beginning, or at the time `from`.
    ///
    /// # Errors
    /// What cannot be read; what is wrong with the times.
    pub fn open(
        dir: &str,
        from: Option<&str>,
        to: Option<&str>,
        as_lines: bool,
    ) -> Result<Self, String> {
        let mut reader = Reader::open(Path::new(dir))?;
        let Some((first, last)) = reader.span()? else {
            return Err(format!("{dir} holds no samples"));
        };
        if !holds_machine(&mut reader)? {
            let why = "it was recorded with --sampling=off";
            return Err(format!("{dir} holds no samples of the machine: {why}"));
        }
        let zone = crate::page::zone();
        let instant = |text: &str| calendar::instant(text, first, zone);
        let first_ns = from.map(instant).transpose()?.unwrap_or(first).max(first);
        let last_ns = to.map(instant).transpose()?.unwrap_or(last).min(last);
        if first_ns > last_ns {
            return Err(format!(
                "nothing lies between these times: {dir} reaches from {} to {}",
                calendar::date_and_time(first, zone),
                calendar::date_and_time(last, zone)
            ));
        }
        let watched = reader.watch().cloned().unwrap_or_default();
        let mut replay = Self {
            reader,
            first_ns,
            last_ns,
            shown: None,
            watched,
            as_lines,
            fresh: true,
            ended: false,
            speed: NORMAL,
            playing: None,
        };
        replay.land(first_ns)?;
        Ok(replay)
    }

    /// Shows the interval that holds an instant.
    fn land(&mut self, unix_ns: u64) -> Result<(), String> {
        self.reader.seek(unix_ns.clamp(self.first_ns, self.last_ns))?;
        let before = self.reader.back()?;
        if before.is_some() {
            self.reader.forward()?;
        }
        let Some(now) = self.reader.forward()? else { return Ok(()) };
        self.shown = None;
        match before {
            Some(before) if !now.begins => self.show(take(before), take(now)),
            // Counters alone say nothing yet.
            _ => {
                let begun = Rc::new(take(now));
                match self.reader.forward()?.filter(|next| !next.begins) {
                    Some(next) => self.show_after(begun, next),
                    None => self.shown = Some(Interval::new(Rc::clone(&begun), begun)),
                }
            }
        }
        self.fresh = true;
        Ok(())
    }

    fn show(&mut self, before: Take, now: Take) {
        self.shown = Some(Interval::new(Rc::new(before), Rc::new(now)));
    }

    fn show_after(&mut self, before: Rc<Take>, now: TimedSample) {
        self.shown = Some(Interval::new(before, Rc::new(take(now))));
    }

    /// Goes one interval on; `false` at the end.
    fn next(&mut self) -> Result<bool, String> {
        loop {
            let Some(now) = self.reader.forward()? else { return Ok(false) };
            if now.unix_ns > self.last_ns {
                self.reader.back()?;
                return Ok(false);
            }
            let before = self.shown.as_ref().map(|shown| Rc::clone(&shown.now));
            match before.filter(|_| !now.begins) {
                Some(before) => {
                    self.show_after(before, now);
                    return Ok(true);
                }
                // The next one can be compared with this.
                None => {
                    let begun = Rc::new(take(now));
                    self.shown = Some(Interval::new(Rc::clone(&begun), begun));
                }
            }
        }
    }

    fn here_ns(&self) -> u64 {
        self.shown.as_ref().map_or(self.first_ns, |shown| shown.now.unix_ns)
    }

    /// Intervals back.
    fn back(&mut self, by: u64) -> Result<(), String> {
        self.reader.seek(self.here_ns())?;
        let mut to = self.first_ns;
        for _ in 0..by {
            match self.reader.back()? {
                Some(moment) if moment.unix_ns >= self.first_ns => to = moment.unix_ns,
                _ => break,
            }
        }
        self.land(to)
    }

    fn play(&mut self, plays: bool) {
        self.playing = plays.then(|| (self.here_ns(), Instant::now()));
    }
}

/// Whether the machine is in one of the first samples: watching begins a moment after a run.
fn holds_machine(reader: &mut Reader) -> Result<bool, String> {
    for _ in 0..LATE_MAX {
        match reader.forward()? {
            Some(moment) if moment.sample.machine == MachineSample::default() => {}
            seen => return Ok(seen.is_some()),
        }
    }
    Ok(false)
}

fn take(moment: TimedSample) -> Take {
    Take {
        unix_ns: moment.unix_ns,
        at_ns: moment.unix_ns,
        own_ns: None,
        machine: moment.sample.machine,
    }
}

impl Feed for Replay {
    fn poll(&mut self) -> Result<bool, String> {
        if std::mem::take(&mut self.fresh) {
            return Ok(true);
        }
        if self.as_lines {
            let more = self.next()?;
            self.ended = !more;
            return Ok(more);
        }
        let Some((from, at)) = self.playing else { return Ok(false) };
        let played = at.elapsed().as_nanos() as f64 * SPEEDS[self.speed];
        let reached = from.saturating_add(played as u64);
        let here = self.here_ns();
        // The interval that follows is shown once it is over.
        let mut any = false;
        let length = self.shown.as_ref().map_or(0, |shown| shown.elapsed_ns);
        if reached > here.saturating_add(length.max(1).saturating_mul(20)) {
            self.land(reached)?;
            any = true;
        } else {
            while reached >= self.here_ns().saturating_add(length.max(1)) && self.next()? {
                any = true;
            }
        }
        if reached >= self.last_ns {
            self.playing = None;
            any = true;
        }
        self.fresh = false;
        Ok(any)
    }

    fn at_end(&self) -> bool {
        self.ended
    }

    fn view(&mut self) -> Result<Option<View<'_>>, String> {
        let Some(shown) = &self.shown else { return Ok(None) };
        let source = Source::Replay {
            first_ns: self.first_ns,
            last_ns: self.last_ns,
            speed: self.playing.map(|_| SPEEDS[self.speed]),
        };
        Ok(Some(shown.view(source, self.reader.stacks()?, &self.watched)))
    }

    fn go(&mut self, go: &Go) -> Result<(), String> {
        let plays = self.playing.is_some();
        match go {
            Go::By(by) if *by < 0 => self.back(by.unsigned_abs())?,
            Go::By(by) => {
                for _ in 0..*by {
                    if !self.next()? {
                        break;
                    }
                }
            }
            Go::First => self.land(self.first_ns)?,
            Go::Last => self.land(self.last_ns)?,
            Go::To(text) => {
                let to = calendar::instant(text, self.first_ns, crate::page::zone())?;
                self.land(to)?;
            }
            Go::Toggle if !plays && self.here_ns() >= self.last_ns => self.land(self.first_ns)?,
            Go::Toggle => {}
            Go::Faster => self.speed = (self.speed + 1).min(SPEEDS.len() - 1),
            Go::Slower => self.speed = self.speed.saturating_sub(1),
        }
        self.play(plays != (*go == Go::Toggle));
        Ok(())
    }

    fn missing(&self) -> &[Missing] {
        &self.watched.missing
    }

    fn finish(self: Box<Self>) -> Result<(), String> {
        Ok(())
    }
}
