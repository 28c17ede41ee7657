//! `cargo xtask effects`: power and false-positive rate of `fathom try` on known delays.

use crate::Result;
use crate::fixtures::sparse;
use crate::programs::fathom;
use crate::run::{Probe, attempt};
use crate::table::{Spread, aligned};
use fathom_model::experiment::{Claim, Effect, ExperimentRecord};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Delay per I/O of the baseline, in microseconds.
const DELAY_US: f64 = 100.0;
/// What the variants add to it, in percent.
const ADDED: [f64; 3] = [5.0, 2.0, 0.0];
/// Length of the sparse file that the jobs read.
const FILE_BYTES: u64 = 1 << 30;

#[derive(clap::Args)]
pub struct Options {
    /// Number of experiments.
    #[arg(long, default_value_t = 100)]
    repetitions: usize,
    /// Start no further experiment after this many minutes.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// nice(2) value of the workers: below 0, other programs on the machine disturb them less.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    nice: i32,
    /// fathom's program, instead of building it.
    #[arg(long)]
    fathom: Option<PathBuf>,
    /// Where the jobs' file is created.
    #[arg(long, default_value = "target")]
    directory: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Judged {
    /// A change in the right direction, or none where there is none.
    Right,
    /// A change in the wrong direction or where there is none, or "no effect" above less than there is.
    Wrong,
    Inconclusive,
}

/// Runs the experiments, and prints how often each verdict occurred.
///
/// # Errors
/// fathom cannot be started, or its record cannot be read.
pub fn run(options: &Options) -> Result<()> {
    let program = std::path::absolute(fathom(options.fathom.as_deref())?)?;
    let place = tempfile::tempdir_in(&options.directory)?;
    sparse(&place.path().join("sparse"), FILE_BYTES)?;
    std::fs::write(place.path().join("effects.toml"), experiment(options.nice))?;
    let until = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    let mut claims: [Vec<Judged>; ADDED.len()] = Default::default();
    let mut seconds = Vec::new();
    while seconds.len() < options.repetitions && Instant::now() < until {
        let began = Instant::now();
        let record = measure(&program, place.path())?;
        seconds.push(began.elapsed().as_secs_f64());
        // After the baseline and its repetition.
        let effects = record.report.conditions.iter().skip(2).map(|found| found.effect.as_ref());
        let mut line = format!(
            "{} of {}: {:.0} s",
            seconds.len(),
            options.repetitions,
            began.elapsed().as_secs_f64()
        );
        for ((claims, added), effect) in claims.iter_mut().zip(ADDED).zip(effects) {
            let effect = effect.ok_or("a condition was not measured")?;
            let judged = judge(added, effect);
            claims.push(judged);
            line += &format!("; delay {added}%: {judged:?}, {}", claimed(effect));
        }
        eprintln!("{line}");
    }
    println!("{}", table(&claims, &seconds));
    Ok(())
}

/// The experiment. The delays are spent on a CPU, so that they are exact.
fn experiment(nice: i32) -> String {
    let mut text = format!(
        "question = \"Is a delay found?\"\n[job]\nrw = \"randread\"\nbs = \"4k\"\nioengine = \"psync\"\ndirect = 1\n\
         nice = {nice}\nthinktime_spin = \"1s\"\n[[variant]]\nname = \"baseline\"\njob = {{ thinktime = \"{DELAY_US}us\" }}\n"
    );
    for added in ADDED {
        let delay_us = DELAY_US * (1.0 + added / 100.0);
        // Differs from the baseline in its keys only, where nothing is added.
        text += &format!(
            "[[variant]]\nname = \"{added}%\"\njob = {{ thinktime = \"{delay_us}us\", thinktime_blocks = 1 }}\n"
        );
    }
    text
}

fn measure(program: &Path, place: &Path) -> Result<ExperimentRecord> {
    let args = ["try", "./effects.toml", "sparse", "--no-record", "--sampling=off", "--json"];
    let done = attempt(
        program,
        &args.map(String::from),
        place,
        Probe::Nothing,
        Duration::from_secs(3600),
    )?;
    serde_json::from_str(&done.stdout).map_err(|_| done.stderr.into())
}

fn judge(added: f64, effect: &Effect) -> Judged {
    let truth = 1.0 / (1.0 + added / 100.0);
    let is_right = match effect.claim {
        Claim::Changed => added > 0.0 && effect.ratio.is_some_and(|ratio| ratio.value < 1.0),
        // True, but not the effect looked for.
        Claim::NoneAbove(least) if added > 0.0 && least > 1.0 - truth => {
            return Judged::Inconclusive;
        }
        Claim::NoneAbove(least) => least > 1.0 - truth,
        Claim::Inconclusive(_) | Claim::NotComparable(_) => return Judged::Inconclusive,
    };
    if is_right { Judged::Right } else { Judged::Wrong }
}

/// The claim, and the change with its 95% interval in percent.
fn claimed(effect: &Effect) -> String {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let change = effect.ratio.map_or_else(String::new, |ratio| {
        format!(
            " ({:+.2}, {:+.2} to {:+.2})",
            percent(ratio.value),
            percent(ratio.low),
            percent(ratio.high)
        )
    });
    format!("{:?}{change}", effect.claim)
}

fn table(claims: &[Vec<Judged>], seconds: &[f64]) -> String {
    let mut rows = vec![["delay", "right", "wrong", "inconclusive"].map(String::from)];
    for (added, claims) in ADDED.iter().zip(claims) {
        let count = |of| claims.iter().filter(|judged| **judged == of).count().to_string();
        let [right, wrong] = [Judged::Right, Judged::Wrong].map(count);
        rows.push([format!("{added}%"), right, wrong, count(Judged::Inconclusive)]);
    }
    let median = Spread::of(seconds.iter().copied()).map_or(0.0, |spread| spread.median);
    format!("{} experiments, median time {median:.0} s\n\n{}", seconds.len(), aligned(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::window::Ratio;

    #[test]
    fn claims_are_judged_by_the_delay() {
        let effect = |value: f64, claim: Claim| {
            let ratio = Some(Ratio { value, low: value - 0.01, high: value + 0.01 });
            Effect { ratio, ratio_99: None, pairs: 10, claim }
        };
        let judge = |added: f64, effect: Effect| judge(added, &effect);
        assert_eq!(judge(2.0, effect(0.98, Claim::Changed)), Judged::Right);
        assert_eq!(judge(2.0, effect(1.02, Claim::Changed)), Judged::Wrong);
        assert_eq!(judge(0.0, effect(0.98, Claim::Changed)), Judged::Wrong);
        assert_eq!(judge(0.0, effect(1.0, Claim::NoneAbove(0.01))), Judged::Right);
        assert_eq!(judge(2.0, effect(0.995, Claim::NoneAbove(0.01))), Judged::Wrong);
        assert_eq!(judge(2.0, effect(0.98, Claim::NoneAbove(0.03))), Judged::Inconclusive);
        assert_eq!(
            judge(5.0, effect(0.9, Claim::Inconclusive("wide".into()))),
            Judged::Inconclusive
        );
    }
}
