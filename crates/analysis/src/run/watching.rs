//! What watching cost the run that was watched.

use super::finding;
use crate::stats::Ratio;
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::RunRecord;
use fathom_model::units;
use fathom_model::watch::{Level, WatchTurn};

/// Watching that was switched on and off in turn (`--watch-turns`).
pub(super) fn watching_cost(record: &RunRecord) -> Option<Finding> {
    let watch = record.watch.as_ref().filter(|watch| !watch.turns.is_empty())?;
    let level = Level::NAMES.iter().find(|(_, level)| *level == watch.level).map_or("", |l| l.0);
    let pairs: Vec<(f64, f64)> = watch.turns.chunks_exact(2).filter_map(pair).collect();
    let summary = match Ratio::paired_robust(&pairs) {
        Some(ratio) => format!(
            "Watching (`{level}`) changed the I/Os per second by {}, somewhere from {} to {}.",
            percent(ratio.value),
            percent(ratio.low),
            percent(ratio.high)
        ),
        None => {
            format!("What watching (`{level}`) costs is not told by {} turns.", pairs.len() * 2)
        }
    };
    let without: Vec<f64> = pairs.iter().map(|(_, without)| *without).collect();
    let mean = without.iter().sum::<f64>() / without.len().max(1) as f64;
    let evidence = vec![format!(
        "{} pairs of turns without and with it, {} I/Os per second without",
        pairs.len(),
        units::count(mean)
    )];
    let next = "at least 12 turns must fit into the run, and 50 are better: take shorter ones or a longer run";
    let next = if pairs.len() < 6 { next } else { "" };
    finding("watching-cost", Severity::Info, summary, evidence, next)
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
    use fathom_model::watch::WatchRecord;

    fn turns(ios: &[u64]) -> impl FnOnce(&mut RunRecord) {
        let turn = |(at, ios): (usize, &u64)| {
            let watched = matches!(at % 4, 1 | 2);
            WatchTurn { watched, ns: 2_000_000_000, ios: *ios }
        };
        let turns = ios.iter().enumerate().map(turn).collect();
        move |r| r.watch = Some(WatchRecord { turns, ..WatchRecord::default() })
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
            ["6 pairs of turns without and with it, 750 I/Os per second without"]
        );
        assert_eq!(f.next_step, None);
    }

    #[test]
    fn five_pairs_tell_nothing() {
        let f = fires(watching_cost, turns(&[1000, 980].repeat(5)));
        assert_eq!(f.summary, "What watching (`default`) costs is not told by 10 turns.");
        assert!(f.next_step.unwrap().starts_with("at least 12 turns"));
    }
}
