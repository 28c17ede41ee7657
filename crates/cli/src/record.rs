//! `fathom record`: records the machine continuously into a ring of bounded size.

mod ios;

use crate::quantity;
use crate::signals::{self, Signals};
use crate::stdio::{self, error};
use crate::top::{ExportArgs, ViewSample, ViewedInterval};
use fathom_model::progress::Sample;
use fathom_model::units;
use fathom_model::watch::Level;
use fathom_runner::RingRecorder;
use fathom_store::{Retention, SampleRing, state_dir};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

#[derive(clap::Args)]
pub struct Args {
    /// How much time to keep, such as 24h or 7d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = keep)]
    keep: Duration,
    /// Maximum size of the ring, at least 4m; overrides --keep
    #[arg(long, value_name = "SIZE", default_value = "2g", value_parser = size)]
    max_size: u64,
    /// Time between samples, 50ms to 1h
    #[arg(short, long, value_name = "TIME", default_value = "500ms", value_parser = quantity::interval)]
    interval: Duration,
    /// How much of the machine to sample
    #[arg(long, value_parser = quantity::level(), default_value = "default")]
    sampling: Level,
    #[command(flatten)]
    export: ExportArgs,
    /// Directory of the ring; an existing ring is resumed
    #[arg(long = "record", value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Record every I/O of the devices named into FILE instead, as a trace to replay
    ///
    /// I/Os are recorded as programs and file systems submit them to the block layer. `read_iolog` replays them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keep", "max_size", "interval", "sampling", "prometheus", "otlp", "dir"])]
    ios: Option<String>,
    /// How long to record, such as 60s or 5m; by default until Ctrl-C
    #[arg(short = 't', long = "duration", value_name = "TIME", value_parser = quantity::time, requires = "ios",
          conflicts_with = "command")]
    time: Option<Duration>,
    /// Devices, partitions, or files on them
    #[arg(value_name = "DEVICE", requires = "ios")]
    devices: Vec<String>,
    /// Command to run meanwhile; fathom exits with its status
    #[arg(last = true, value_name = "COMMAND", requires = "ios")]
    command: Vec<OsString>,
}

fn keep(text: &str) -> Result<Duration, String> {
    match quantity::duration(text)? {
        time if time < Duration::from_secs(1) => Err("expected at least 1s".into()),
        time => Ok(time),
    }
}

fn size(text: &str) -> Result<u64, String> {
    match quantity::bytes(text)? {
        ..4_194_304 => Err("expected at least 4m".into()),
        size => Ok(size),
    }
}

/// Records until a signal comes, which is its regular end.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    if let Some(path) = &args.ios {
        return ios::command(args, path);
    }
    let signals = Signals::take()?;
    signals::raise_limits();
    let mut exported = args.export.open()?;
    let path = match &args.dir {
        Some(path) => path.clone(),
        None => state_dir("ring")?,
    };
    let retention = Retention { keep: args.keep, bytes_max: args.max_size };
    let ring = SampleRing::open(&path, retention)?;
    let (keep, size) = (long(args.keep), units::bytes(args.max_size));
    let path = path.display();
    stdio::info(&format!("fathom: recording the last {keep} (at most {size}) in {path}"));
    let mut notice = |text: &str| error!("{text}");
    let how = (args.sampling, args.interval);
    let mut last: Option<Rc<ViewSample>> = None;
    let mut export = |sample: &Sample| {
        let Some(to) = &mut exported else { return };
        let now = Rc::new(ViewSample::of(sample.clone()));
        // A new segment of the ring begins with new samplers.
        let before = last.replace(Rc::clone(&now)).filter(|before| before.at_ns < now.at_ns);
        if let Some(before) = before {
            to.write(&ViewedInterval::new(before, now));
        }
    };
    let recorder = RingRecorder::new(ring, retention, how, &mut notice, &mut export);
    recorder.run(signals.cancel_token())?;
    Ok(ExitCode::SUCCESS)
}

/// A time as `--keep` takes it, in the largest unit in which it is a whole number.
fn long(time: Duration) -> String {
    let seconds = time.as_secs();
    let fits = [(86_400, "d"), (3600, "h"), (60, "m")].into_iter();
    let mut fits = fits.filter(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit));
    fits.next().map_or(format!("{seconds}s"), |(unit, name)| format!("{}{name}", seconds / unit))
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
