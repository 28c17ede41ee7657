//! A record as intervals that `top` shows.

use super::{Feed, ViewSample, ViewedInterval};
use fathom_model::watch::{MachineSample, SamplingRecord, Unavailable};
use fathom_report::calendar;
use fathom_report::top::{Go, TopSource, TopView};
use fathom_store::{Reader, StoredSample};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

/// Replay speeds, as a factor of real time.
const SPEEDS: [f64; 8] = [0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0];
const NORMAL: usize = 1;
/// Maximum number of samples of a run before the first one of the machine.
const LATE_MAX: usize = 10;

/// A record with a current position.
pub struct Replay {
    reader: Reader,
    first_ns: u64,
    last_ns: u64,
    shown: Option<ViewedInterval>,
    watched: SamplingRecord,
    /// Each interval is printed once, without delay.
    as_lines: bool,
    /// The interval shown has not been returned by `poll` yet.
    fresh: bool,
    ended: bool,
    speed: usize,
    /// If playing: the time of the record reached, and when that was.
    playing: Option<(u64, Instant)>,
}

impl Replay {
    /// Opens the record at `dir`, at its start or at the time `from`.
    pub fn open(
        dir: &str,
        from: Option<&str>,
        to: Option<&str>,
        as_lines: bool,
    ) -> Result<Self, String> {
        let mut reader = Reader::open(Path::new(dir))?;
        let Some((first, last)) = reader.span()? else {
            return Err(format!("{dir} contains no samples"));
        };
        if !holds_machine(&mut reader)? {
            let why = "it was recorded with --sampling=off";
            return Err(format!("{dir} contains no samples of the machine: {why}"));
        }
        let zone = crate::page::zone();
        let instant = |text: &str| calendar::instant(text, first, zone);
        let first_ns = from.map(instant).transpose()?.unwrap_or(first).max(first);
        let last_ns = to.map(instant).transpose()?.unwrap_or(last).min(last);
        if first_ns > last_ns {
            return Err(format!(
                "no samples between these times; {dir} covers {} to {}",
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
            // A rate needs a second sample.
            _ => {
                let begun = Rc::new(take(now));
                match self.reader.forward()?.filter(|next| !next.begins) {
                    Some(next) => self.show_after(begun, next),
                    None => self.shown = Some(ViewedInterval::new(Rc::clone(&begun), begun)),
                }
            }
        }
        self.fresh = true;
        Ok(())
    }

    fn show(&mut self, before: ViewSample, now: ViewSample) {
        self.shown = Some(ViewedInterval::new(Rc::new(before), Rc::new(now)));
    }

    fn show_after(&mut self, before: Rc<ViewSample>, now: StoredSample) {
        self.shown = Some(ViewedInterval::new(before, Rc::new(take(now))));
    }

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
                // The first sample of a segment; rates start with the next one.
                None => {
                    let begun = Rc::new(take(now));
                    self.shown = Some(ViewedInterval::new(Rc::clone(&begun), begun));
                }
            }
        }
    }

    fn here_ns(&self) -> u64 {
        self.shown.as_ref().map_or(self.first_ns, |shown| shown.now.unix_ns)
    }

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

fn holds_machine(reader: &mut Reader) -> Result<bool, String> {
    for _ in 0..LATE_MAX {
        match reader.forward()? {
            Some(moment) if moment.sample.machine == MachineSample::default() => {}
            seen => return Ok(seen.is_some()),
        }
    }
    Ok(false)
}

fn take(moment: StoredSample) -> ViewSample {
    ViewSample {
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
        // An interval is shown once it has ended.
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

    fn view(&mut self) -> Result<Option<TopView<'_>>, String> {
        let Some(shown) = &self.shown else { return Ok(None) };
        let source = TopSource::Replay {
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

    fn missing(&self) -> &[Unavailable] {
        &self.watched.missing
    }

    fn finish(self: Box<Self>) -> Result<(), String> {
        Ok(())
    }
}
