//! Always-on recording into a ring of bounded size.

use crate::cancel::CancelToken;
use crate::sampling::SamplingOptions;
use crate::session::{RecordTo, Session};
use fathom_model::advice::intervals_merged;
use fathom_model::progress::Sample;
use fathom_model::watch::Level;
use fathom_model::{RunRecord, units};
use fathom_store::{EncodedSample, Retention, SampleRing};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(200);
const RETRY: Duration = Duration::from_secs(10);
/// Time without errors after which recovery is reported.
const CALM: Duration = Duration::from_secs(5);
/// Time between syncs, which bounds the loss in a power failure.
const SYNC: Duration = Duration::from_secs(10);
/// Sampling rates of threads and stacks: enough to identify what lasts.
const THREADS_HZ: u32 = 2;
const STACKS_HZ: u32 = 19;
/// Number of samples after which their mean size is known.
const SAMPLES_TYPICAL: u64 = 100;

fn wait(time: Duration, cancel: &CancelToken) {
    let until = Instant::now() + time;
    while cancel.reason().is_none() && Instant::now() < until {
        thread::sleep(TICK);
    }
}

struct ReportedError {
    reason: String,
    seen: Instant,
}

pub struct RingRecorder<'a> {
    ring: SampleRing,
    retention: Retention,
    options: SamplingOptions,
    notice: &'a mut dyn FnMut(&str),
    observe: &'a mut dyn FnMut(&Sample),
    samples: u64,
    /// Of these, samples in the ring.
    stored: u64,
    /// Why later samples are not in the ring.
    lost: Option<String>,
    bytes: u64,
    trouble: Option<ReportedError>,
    last_sync: Instant,
}

impl<'a> RingRecorder<'a> {
    /// Records a sample into `ring` every `interval`, and shows it to `observe`; `notice` reports to the user.
    pub fn new(
        ring: SampleRing,
        retention: Retention,
        (level, interval): (Level, Duration),
        notice: &'a mut dyn FnMut(&str),
        observe: &'a mut dyn FnMut(&Sample),
    ) -> Self {
        let options = SamplingOptions {
            level,
            interval,
            threads_hz: Some(THREADS_HZ),
            stacks_hz: Some(STACKS_HZ),
            ..SamplingOptions::default()
        };
        Self {
            ring,
            retention,
            options,
            notice,
            observe,
            samples: 0,
            stored: 0,
            lost: None,
            bytes: 0,
            trouble: None,
            last_sync: Instant::now(),
        }
    }

    /// Records until cancelled, the regular end.
    pub fn run(mut self, cancel: &CancelToken) -> Result<(), String> {
        while cancel.reason().is_none() {
            self.segment(cancel)?;
        }
        match self.lost {
            Some(why) if self.stored == 0 => Err(format!("no samples were recorded: {why}")),
            Some(why) => Err(format!("the last samples were not recorded: {why}")),
            None => Ok(()),
        }
    }

    /// Writes one segment of the ring with new samplers, so that it contains everything its samples refer to.
    fn segment(&mut self, cancel: &CancelToken) -> Result<(), String> {
        let (session, mut record) =
            Session::observe(&self.options, &RecordTo::Nowhere, self.notice)?;
        let mut session = session.without_sum();
        if self.trouble.is_none() && self.samples == 0 {
            let missing = session.sampling().map_or(&[][..], |sampling| &sampling.missing);
            missing.iter().for_each(|m| (self.notice)(&format!("not measured: {m}")));
        }
        let header = record.header.unfinished();
        if let Err(error) = self.ring.begin(&RunRecord { header, ..record.clone() }) {
            self.report_error(Err(error));
            // Close the samplers while waiting for space.
            drop(session);
            wait(RETRY, cancel);
            return Ok(());
        }
        let until = Instant::now() + self.ring.segment_time();
        let is_over = |ring: &SampleRing| Instant::now() >= until || ring.is_segment_full();
        while cancel.reason().is_none() && !is_over(&self.ring) && !session.has_panicked() {
            if let Some(sample) = session.next(TICK) {
                self.keep(&sample);
            }
        }
        let broken = session.has_panicked();
        if broken {
            self.lost =
                Some("a sampler panicked; this is a bug in fathom, please report it".into());
        }
        session.end(&mut record, None, None).iter().for_each(|sample| self.keep(sample));
        let merged = record.header.sampling.as_ref().map_or(0, |s| s.intervals_merged);
        if merged > 0 {
            (self.notice)(&format!("note: {}", intervals_merged(merged)));
        }
        let ended = self.ring.end(&record);
        self.report_error(ended);
        if broken {
            wait(RETRY, cancel);
        }
        Ok(())
    }

    fn keep(&mut self, sample: &Sample) {
        let encoded = EncodedSample::of(sample).map_err(|e| format!("cannot write a sample: {e}"));
        self.bytes += encoded.as_ref().map_or(0, EncodedSample::size_bytes);
        let kept = encoded.and_then(|encoded| self.ring.keep(&encoded, sample.unix_ns));
        if kept.is_ok() {
            self.stored += 1;
            self.lost = None;
        }
        self.report_error(kept);
        (self.observe)(sample);
        self.samples += 1;
        if self.samples == SAMPLES_TYPICAL {
            self.warn_if_ring_too_small();
        }
        if self.last_sync.elapsed() >= SYNC {
            let synced = self.ring.sync();
            self.report_error(synced);
            self.last_sync = Instant::now();
        }
    }

    /// Reports a problem once, and its end after some time without errors.
    fn report_error(&mut self, result: Result<(), String>) {
        for path in self.ring.take_not_removed() {
            (self.notice)(&format!(
                "note: {} was not removed, because it contains files that fathom did not create",
                path.display()
            ));
        }
        let Err(error) = result else {
            if self.trouble.take_if(|trouble| trouble.seen.elapsed() >= CALM).is_some() {
                (self.notice)("samples are recorded again");
            }
            return;
        };
        // On a full disk, different files fail for the same reason.
        let reason = error.split_once(": ").map_or(error.as_str(), |(_file, why)| why);
        if self.trouble.as_ref().is_none_or(|trouble| trouble.reason != reason) {
            (self.notice)(&format!("{error}; retrying"));
        }
        self.trouble = Some(ReportedError { reason: reason.into(), seen: Instant::now() });
        self.lost = Some(error);
    }

    /// Reports if the maximum size is too small for the time to keep.
    fn warn_if_ring_too_small(&mut self) {
        let Some(per_sample) = self.bytes.checked_div(self.samples) else { return };
        let per_second = per_sample as f64 / self.options.interval.as_secs_f64();
        let holds = self.retention.bytes_max as f64 / per_second.max(1.0);
        if holds < self.retention.keep.as_secs_f64() {
            (self.notice)(&format!(
                "note: at {} per sample, {} hold only the last {:.1} hours; increase --max-size or \
                 --interval",
                units::bytes(per_sample),
                units::bytes(self.retention.bytes_max),
                holds / 3600.0
            ));
        }
    }
}
