//! The machine live, with the last minute of samples.

use super::{Feed, ViewSample, ViewedInterval};
use crate::stdio::error;
use fathom_model::RunRecord;
use fathom_model::progress::Sample;
use fathom_model::watch::{Stack, Unavailable};
use fathom_report::calendar;
use fathom_report::top::{Go, TopSource, TopView};
use fathom_runner::{RecordTo, SamplingOptions, Session};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

const INTERVALS_KEPT: usize = 60;

pub struct LiveSamples {
    session: Session,
    record: RunRecord,
    takes: VecDeque<Rc<ViewSample>>,
    stacks: Vec<Stack>,
    /// Index of the sample that ends the interval shown, if the view is frozen.
    frozen: Option<usize>,
    shown: Option<ViewedInterval>,
}

impl LiveSamples {
    /// Starts sampling, and recording into the directory `record` if given.
    pub fn start(watch: &SamplingOptions, record: Option<&str>) -> Result<Self, String> {
        let record = record.map_or(RecordTo::Nowhere, |dir| RecordTo::Required(Some(dir.into())));
        record.check()?;
        let (session, started) = Session::observe(watch, &record, &mut |text| error!("{text}"))?;
        let session = match record {
            RecordTo::Nowhere => session.without_sum(),
            _ => session,
        };
        Ok(Self {
            session,
            record: started,
            takes: VecDeque::new(),
            stacks: Vec::new(),
            frozen: None,
            shown: None,
        })
    }

    fn keep(&mut self, sample: Sample) {
        let mut machine = sample.machine;
        if let Some(stacks) = &mut machine.stacks {
            self.stacks.append(&mut stacks.new);
        }
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let own_ns = Some(own.tv_sec as u64 * 1_000_000_000 + own.tv_nsec as u64);
        let take = ViewSample { own_ns, ..ViewSample::of(Sample { machine, ..sample }) };
        self.takes.push_back(Rc::new(take));
        if self.takes.len() > INTERVALS_KEPT + 1 {
            self.takes.pop_front();
            self.frozen = self.frozen.map(|place| place.saturating_sub(1).max(1));
        }
    }

    fn show(&mut self) {
        let place = self.frozen.unwrap_or(self.last());
        let before = place.checked_sub(1).and_then(|place| self.takes.get(place));
        if let Some((before, now)) = before.zip(self.takes.get(place)) {
            self.shown = Some(ViewedInterval::new(Rc::clone(before), Rc::clone(now)));
        }
    }

    fn last(&self) -> usize {
        self.takes.len().saturating_sub(1)
    }

    fn behind_ns(&self) -> u64 {
        let shown = self.shown.as_ref().map_or(0, |shown| shown.now.at_ns);
        self.takes.back().map_or(0, |last| last.at_ns.saturating_sub(shown))
    }

    /// The interval that contains the time `text`.
    fn place(&self, text: &str) -> Result<usize, String> {
        let first = self.takes.front().map_or(0, |take| take.unix_ns);
        let wanted = calendar::instant(text, first, crate::page::zone())?;
        let place = self.takes.iter().position(|take| take.unix_ns >= wanted);
        place.ok_or_else(|| {
            format!("{text} is not within the last minute; a live view keeps no more")
        })
    }
}

impl Feed for LiveSamples {
    fn poll(&mut self) -> Result<bool, String> {
        let mut any = false;
        while let Some(sample) = self.session.next(Duration::ZERO) {
            self.keep(sample);
            any = true;
        }
        if self.session.has_panicked() {
            return Err("a sampler panicked; this is a bug in fathom, please report it".into());
        }
        if any && self.frozen.is_none() {
            self.show();
        }
        Ok(any && self.shown.is_some())
    }

    fn at_end(&self) -> bool {
        false
    }

    fn view(&mut self) -> Result<Option<TopView<'_>>, String> {
        let Some(shown) = &self.shown else { return Ok(None) };
        let Some(watched) = self.session.sampling() else { return Ok(None) };
        let source = TopSource::Live {
            interval_ns: watched.interval_ns,
            frozen: self.frozen.map(|_| self.behind_ns()),
            recording: self.session.is_recording(),
        };
        Ok(Some(shown.view(source, &self.stacks, watched)))
    }

    fn go(&mut self, go: &Go) -> Result<(), String> {
        let last = self.last();
        let first = 1.min(last);
        let here = self.frozen.unwrap_or(last);
        self.frozen = match go {
            Go::By(by) => {
                let place = here.saturating_add_signed(*by as isize).clamp(first, last);
                // Moving past the last interval resumes the live view.
                (*by < 0 || place < last).then_some(place)
            }
            Go::First => Some(first),
            Go::Last => None,
            Go::Toggle => self.frozen.is_none().then_some(last),
            Go::To(text) => Some(self.place(text)?.clamp(first, last)),
            Go::Faster | Go::Slower => {
                return Err("only a replay can be sped up or slowed down".into());
            }
        };
        self.show();
        Ok(())
    }

    fn missing(&self) -> &[Unavailable] {
        self.session.sampling().map_or(&[], |sampling| &sampling.missing)
    }

    fn take_error(&mut self) -> Option<String> {
        self.session.take_error()
    }

    fn finish(mut self: Box<Self>) -> Result<(), String> {
        self.session.end(&mut self.record, None, None);
        let notice = &mut |text: &str| error!("{text}");
        self.session.finish(&mut self.record, |record| &mut record.header, Ok(()), notice)
    }
}
