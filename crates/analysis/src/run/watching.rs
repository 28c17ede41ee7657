//! What watching cost the run that was watched.

use super::finding;
use crate::stats::Ratio;
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::RunRecord;
use fathom_model::units;
use fathom_model::watch::{Level, WatchRecord, WatchTurn};

/// With fewer turns nothing is told: six pairs are what [`Ratio::paired_robust`] needs.
pub const TURNS_MIN: u64 = 12;

/// Watching that was switched on and off in turn (`--watch-turns`).
pub(super) fn watching_cost(record: &RunRecord) -> Option<Finding> {
    let in_turns = |watch: &&WatchRecord| watch.turn_ns.is_some() || !watch.turns.is_empty();
    let watch = record.watch.as_ref().filter(in_turns)?;
    let level = Level::NAMES.iter().find(|(_, level)| *level == watch.level).map_or("", |l| l.0);
    let pairs: Vec<(f64, f64)> = watch.turns.chunks_exact(2).filter_map(pair).collect();
    let ratio = Ratio::paired_robust(&pairs);
    let summary = match ratio {
        Some(ratio) => {
            let what = match watch.level {
                Level::Off => "Nothing was switched (`off`): turns alike differed in".into(),
                _ => format!("Watching (`{level}`) changed"),
            };
            let [value, low, high] = [ratio.value, ratio.low, ratio.high].map(percent);
            format!("{what} the I/Os per second by {value}, somewhere from {low} to {high}.")
        }
        None if (watch.turns.len() as u64) < TURNS_MIN => format!(
            "What watching (`{level}`) costs is not told: only {} turns came to their end.",
            watch.turns.len()
        ),
        None => format!("What watching (`{level}`) costs is not told: too few turns did any I/O."),
    };
    let without: Vec<f64> = pairs.iter().map(|(_, without)| *without).collect();
    let mean = without.iter().sum::<f64>() / without.len().max(1) as f64;
    let mut evidence = vec![format!(
        "{} pairs of turns without and with it, {} I/Os per second without",
        pairs.len(),
        units::count(mean)
    )];
    // A stall is in the mean of all, and not in what is typical.
    evidence.extend(Ratio::paired(&pairs).filter(|_| ratio.is_some()).map(|mean| {
        let [value, low, high] = [mean.value, mean.low, mean.high].map(percent);
        format!("the mean of these pairs, stalls included: {value}, from {low} to {high}")
    }));
    let next = format!(
        "at least {TURNS_MIN} turns must fit into the run, and 50 are better: take shorter ones or a longer run"
    );
    match ratio {
        Some(_) => finding("watching-cost", Severity::Info, summary, evidence, ""),
        // It was asked for.
        None => finding("watching-cost", Severity::Error, summary, evidence, &next),
    }
}

/// I/Os per second with and without watching.
fn pair(turns: &[WatchTurn]) -> Option<(f64, f64)> {
    let rate = |watched: bool| {
        let turn = turns.iter().find(|turn| turn.watched == watched && turn.ns > 0)?;
        Some(turn.ios as f64 * 1e9 / turn.ns as f64)
    };
    rate(true).zip(rate(false))
}

fn percent(ratio: f64) -> String {
    format!("{:+.1}%", (ratio - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::fires;
    use super::*;
    fn turns(ios: &[u64]) -> impl FnOnce(&mut RunRecord) {
        let turn = |(at, ios): (usize, &u64)| {
            let watched = matches!(at % 4, 1 | 2);
            WatchTurn { watched, ns: 2_000_000_000, ios: *ios }
        };
        let turns = ios.iter().enumerate().map(turn).collect();
        let turn_ns = Some(4_000_000_000);
        move |r| r.watch = Some(WatchRecord { turn_ns, turns, ..WatchRecord::default() })
    }

    #[test]
    fn turns_tell_what_watching_costs() {
        // Slower by 2% and by 4% with it, three times each, and half a pair, which does not count.
        let mut ios = [1000, 980, 1920, 2000].repeat(3);
        ios.push(7);
        let f = fires(watching_cost, turns(&ios));
        assert_eq!(
            f.summary,
            "Watching (`default`) changed the I/Os per second by -3.0%, somewhere from -4.0% to -2.0%."
        );
        assert_eq!(
            f.evidence,
            [
                "6 pairs of turns without and with it, 750 I/Os per second without",
                "the mean of these pairs, stalls included: -3.0%, from -4.1% to -1.8%"
            ]
        );
        assert_eq!(f.next_step, None);
    }

    #[test]
    fn five_pairs_tell_nothing() {
        let f = fires(watching_cost, turns(&[1000, 980].repeat(5)));
        assert_eq!(
            f.summary,
            "What watching (`default`) costs is not told: only 10 turns came to their end."
        );
        assert!(f.next_step.unwrap().starts_with("at least 12 turns"));
        assert_eq!(f.severity, Severity::Error, "it was asked for");
        let f = fires(watching_cost, turns(&[0].repeat(16)));
        assert!(f.summary.ends_with("too few turns did any I/O."), "{}", f.summary);
        let f = fires(watching_cost, turns(&[]));
        assert!(f.summary.ends_with("only 0 turns came to their end."), "{}", f.summary);
    }
}
