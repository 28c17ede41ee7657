//! `fathom record`: always on, into a ring with bounds, for looking back after something happened.

use crate::quantity;
use crate::signals::Signals;
use crate::stdio::note;
use crate::{level, limits};
use fathom_model::progress::Sample;
use fathom_model::units;
use fathom_model::watch::Level;
use fathom_runner::observe::{new_record, unfinished};
use fathom_runner::{Sampling, SamplingOptions};
use fathom_store::{EncodedSample, Retention, Ring, state_dir};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks for signals.
const TICK: Duration = Duration::from_millis(200);
/// Before what failed is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// After so long without an error all is well again.
const CALM: Duration = Duration::from_secs(5);
/// A machine that stops loses at most this much.
const SYNC: Duration = Duration::from_secs(10);
/// Looks at threads and samples of processors per second: enough to tell what lasts.
const THREADS_HZ: u32 = 2;
const STACKS_HZ: u32 = 19;
/// Samples after which it is known how much they take.
const SAMPLES_TYPICAL: u64 = 100;

/// What `fathom record` takes.
#[derive(clap::Args)]
pub struct Args {
    /// Keep this much time, such as 24h or 7d.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = keep)]
    keep: Duration,
    /// Maximum size of the ring, at least 4m; it overrides --keep: at the limit, the oldest data is deleted first.
    #[arg(long, value_name = "SIZE", default_value = "2g", value_parser = size)]
    max_size: u64,
    /// Between two samples, 50ms to 1h.
    #[arg(short, long, value_name = "TIME", default_value = "500ms", value_parser = quantity::interval)]
    interval: Duration,
    /// How much to sample.
    #[arg(long, value_parser = level::parser(), default_value = "default")]
    sampling: Level,
    /// Directory of the ring; an existing ring is resumed.
    #[arg(long = "record", value_name = "DIR")]
    dir: Option<PathBuf>,
}

fn keep(text: &str) -> Result<Duration, String> {
    match quantity::duration(text)? {
        time if time < Duration::from_secs(1) => Err("less than 1s".into()),
        time => Ok(time),
    }
}

fn size(text: &str) -> Result<u64, String> {
    match quantity::bytes(text)? {
        ..4_194_304 => Err("less than 4m".into()),
        size => Ok(size),
    }
}

/// Records until a signal comes, which is its regular end.
///
/// # Errors
/// When the ring cannot be written, at the beginning or at the end, or is being written by another.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let signals = Signals::take().map_err(|e| format!("cannot install signal handlers: {e}"))?;
    limits::raise();
    let path = match &args.dir {
        Some(path) => path.clone(),
        None => state_dir("ring")?,
    };
    let ring = Ring::open(&path, Retention { keep: args.keep, bytes_max: args.max_size })?;
    note!(
        "recording the last {} (at most {}) in {}",
        long(args.keep),
        units::bytes(args.max_size),
        path.display()
    );
    let watch = SamplingOptions {
        level: args.sampling,
        interval: args.interval,
        threads_hz: Some(THREADS_HZ),
        stacks_hz: Some(STACKS_HZ),
        ..SamplingOptions::default()
    };
    let mut recorder = Recorder {
        args,
        ring,
        samples: 0,
        stored: 0,
        lost: None,
        bytes: 0,
        trouble: None,
        last_sync: Instant::now(),
    };
    while signals.caught().is_none() {
        recorder.segment(&watch, &signals)?;
    }
    match recorder.lost {
        Some(why) if recorder.stored == 0 => Err(format!("nothing was recorded: {why}")),
        Some(why) => Err(format!("the last samples were not recorded: {why}")),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// A time as `--keep` takes it, in the largest unit in which it is a whole number.
fn long(time: Duration) -> String {
    let seconds = time.as_secs();
    let fits = [(86_400, "d"), (3600, "h"), (60, "m")].into_iter();
    let mut fits = fits.filter(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit));
    fits.next().map_or(format!("{seconds}s"), |(unit, name)| format!("{}{name}", seconds / unit))
}

/// Waits for `time`, or for a signal.
fn wait(time: Duration, signals: &Signals) {
    let until = Instant::now() + time;
    while signals.caught().is_none() && Instant::now() < until {
        thread::sleep(TICK);
    }
}

/// What was complained about last.
struct Trouble {
    reason: String,
    /// When it was last so.
    seen: Instant,
}

struct Recorder<'a> {
    args: &'a Args,
    ring: Ring,
    samples: u64,
    /// Of these, samples in the ring.
    stored: u64,
    /// Why what came after the last of those is not in it.
    lost: Option<String>,
    /// Bytes of all samples.
    bytes: u64,
    trouble: Option<Trouble>,
    last_sync: Instant,
}

impl Recorder<'_> {
    /// Writes one folder of the ring, with samplers of its own, so that it holds all that its samples
    /// refer to.
    fn segment(&mut self, watch: &SamplingOptions, signals: &Signals) -> Result<(), String> {
        let mut record = new_record();
        let mut watching = Sampling::start(watch)?;
        record.watch = Some(watching.record().clone());
        if self.trouble.is_none() && self.samples == 0 {
            watching.record().missing.iter().for_each(|m| note!("not measured: {m}"));
        }
        if let Err(error) = self.ring.begin(&unfinished(&record)) {
            self.complain(Err(error));
            // Nothing is to be opened meanwhile: perhaps there is room again by then.
            drop(watching.stop());
            wait(RETRY, signals);
            return Ok(());
        }
        let until = Instant::now() + self.ring.segment_time();
        let is_over = |ring: &Ring| Instant::now() >= until || ring.is_segment_full();
        while signals.caught().is_none() && !is_over(&self.ring) && !watching.has_panicked() {
            if let Some(sample) = watching.next(TICK) {
                self.keep(&sample);
            }
        }
        let broken = watching.has_panicked();
        if broken {
            self.lost =
                Some("a sampler panicked; this is a bug in fathom, please report it".into());
        }
        let (rest, watched) = watching.stop();
        rest.iter().for_each(|sample| self.keep(sample));
        record.elapsed_ns = fathom_engine::clock::unix_ns().saturating_sub(record.started_unix_ns);
        if watched.intervals_joined > 0 {
            note!("note: {}", fathom_report::pages::joined(watched.intervals_joined));
        }
        record.watch = Some(watched);
        let ended = self.ring.end(&record);
        self.complain(ended);
        if broken {
            wait(RETRY, signals);
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
        self.complain(kept);
        self.samples += 1;
        if self.samples == SAMPLES_TYPICAL {
            self.foretell();
        }
        if self.last_sync.elapsed() >= SYNC {
            let synced = self.ring.sync();
            self.complain(synced);
            self.last_sync = Instant::now();
        }
    }

    /// Says what is wrong once, and that it is right again when it has been so for a time.
    fn complain(&mut self, result: Result<(), String>) {
        for path in self.ring.take_not_removed() {
            note!(
                "note: {} was not removed, because it holds files that are not fathom's",
                path.display()
            );
        }
        let Err(error) = result else {
            if self.trouble.take_if(|trouble| trouble.seen.elapsed() >= CALM).is_some() {
                note!("samples are recorded again");
            }
            return;
        };
        // On a full disk it is one file now and another then, for the same reason.
        let reason = error.split_once(": ").map_or(error.as_str(), |(_file, why)| why);
        if self.trouble.as_ref().is_none_or(|trouble| trouble.reason != reason) {
            note!("{error}; retrying");
        }
        self.trouble = Some(Trouble { reason: reason.into(), seen: Instant::now() });
        self.lost = Some(error);
    }

    /// Says so where the room will not hold as long as was asked.
    fn foretell(&self) {
        let Some(per_sample) = self.bytes.checked_div(self.samples) else { return };
        let per_second = per_sample as f64 / self.args.interval.as_secs_f64();
        let holds = self.args.max_size as f64 / per_second.max(1.0);
        if holds < self.args.keep.as_secs_f64() {
            note!(
                "note: at {} a sample, {} hold the last {:.1} hours only; give a larger \
                 --max-size or --interval",
                units::bytes(per_sample),
                units::bytes(self.args.max_size),
                holds / 3600.0
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_they_are_given() {
        for text in ["45s", "90m", "24h", "7d", "61s"] {
            let time = quantity::duration(text).unwrap();
            let shown = quantity::duration(&long(time)).unwrap();
            assert_eq!(shown, time, "{text}");
        }
        assert_eq!(long(Duration::from_secs(86_400)), "1d");
        assert_eq!(long(Duration::from_secs(5400)), "90m");
    }

    #[test]
    fn bounds_have_bounds() {
        assert!(keep("0.5").is_err() && keep("1s").is_ok());
        assert!(size("3m").is_err() && size("4m").is_ok());
    }
}
