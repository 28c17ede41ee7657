//! The rounds of a run that ends at steady state, and whether it did.

use crate::doc::{
    Axis, Chart, ChartPoint, ChartSeries, DataColumn, Document, QuantityUnit, Text, count, percent,
    plural, text,
};
use fathom_analysis::compare::{
    JobSteadiness, STEADY_RANGE_MAX, STEADY_ROUNDS, STEADY_SLOPE_MAX, Steadiness,
};

/// Jobs with a column of their own; charts show all.
const JOBS_SHOWN: usize = 4;

/// Adds whether the rounds are steady, and what was done to the targets before.
pub(super) fn outcome(page: &mut Document, steadiness: &Steadiness, prepared: &[String]) {
    let verdict = match steadiness.is_attained() {
        true => {
            let (first, last) = steadiness.rounds;
            let worst = steadiness.worst().map(|job| figures(steadiness, job));
            format!(
                "reached in rounds {first} to {last}, whose figures are below: {}",
                worst.unwrap_or_default()
            )
        }
        false => not_steady(steadiness),
    };
    page.entry("steady state", verdict);
    for (index, line) in prepared.iter().enumerate() {
        page.entry(if index == 0 { "preparation" } else { "" }, line.clone());
    }
}

/// Adds the IOPS of each round.
pub(super) fn rounds(page: &mut Document, steadiness: &Steadiness) {
    let mut body = Document::default();
    let shown = &steadiness.jobs[..steadiness.jobs.len().min(JOBS_SHOWN)];
    let mut columns = vec![DataColumn::text("round")];
    columns.extend(shown.iter().map(|job| DataColumn::number(&format!("{} IOPS", job.name))));
    let row = |index: usize| {
        let mut row = vec![Text::from((index + 1).to_string())];
        row.extend(
            shown.iter().map(|job| Text::from(job.iops.get(index).map(|iops| count(*iops)))),
        );
        row
    };
    body.table(columns, (0..steadiness.rounds.1).map(row).collect());
    if steadiness.jobs.len() > shown.len() {
        let more = (steadiness.jobs.len() - shown.len()) as u64;
        body.paragraph(text!(plural(more, "more job"), " in `--format=html`"));
    }
    let axes = ["round", "IOPS"].map(|name| Axis::linear(name, QuantityUnit::Count));
    let series = steadiness.jobs.iter().map(series).collect();
    body.chart(Chart::lines("IOPS by round", axes.into(), series));
    let limits = text!(
        plural(STEADY_ROUNDS as u64, "round"),
        " in a row: range at most ",
        percent(STEADY_RANGE_MAX * 100.0),
        " of the mean, line through them within ",
        percent(STEADY_SLOPE_MAX * 100.0),
        " (SNIA SSS PTS)"
    );
    page.section("rounds until steady", limits, body);
}

/// Why rounds are not steady, in a sentence.
pub fn not_steady(steadiness: &Steadiness) -> String {
    let count = steadiness.rounds.1;
    match steadiness.worst() {
        _ if count < STEADY_ROUNDS => {
            format!("not known after {count} rounds: it takes {STEADY_ROUNDS}")
        }
        None => format!("not known after {count} rounds: no job has IOPS in all of them"),
        Some(worst) => format!(
            "not reached in {count} rounds: {}; the figures below are those of the last {STEADY_ROUNDS}",
            figures(steadiness, worst)
        ),
    }
}

fn figures(steadiness: &Steadiness, job: &JobSteadiness) -> String {
    let name = if steadiness.jobs.len() > 1 { format!(" of {}", job.name) } else { String::new() };
    let direction = if job.slope < 0.0 { "falls" } else { "rises" };
    format!(
        "the IOPS{name} have a range of {:.1}% of their mean (limit {:.0}%), and the line through them {direction} by {:.1}% \
         (limit {:.0}%)",
        job.range * 100.0,
        STEADY_RANGE_MAX * 100.0,
        job.slope.abs() * 100.0,
        STEADY_SLOPE_MAX * 100.0
    )
}

fn series(job: &JobSteadiness) -> ChartSeries {
    let point = |(index, iops): (usize, &f64)| ChartPoint {
        label: format!("round {}", index + 1),
        x: (index + 1) as f64,
        y: *iops,
        ..ChartPoint::default()
    };
    ChartSeries::new(&job.name, job.iops.iter().enumerate().map(point).collect())
}
