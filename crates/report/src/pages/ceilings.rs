//! What every part could sustain for a workload, and how much of it was used.

use crate::doc::{
    DataColumn, Document, Quantity, QuantityUnit, Text, bandwidth, count, percent, text,
};
use fathom_analysis::ceilings::{Ceiling, CeilingUnit};

/// Up to this many ceilings are printed.
const SHOWN: usize = 8;
/// Parts that were used less than this, in percent, are far from any limit.
const USED_MIN: f64 = 10.0;

/// The tightest ceilings, in a table whose first column is called `name`.
pub(super) fn ceilings(body: &mut Document, name: &str, all: &[Ceiling]) {
    let columns = vec![
        DataColumn::text(name),
        DataColumn::number("could sustain"),
        DataColumn::number("used"),
        DataColumn::text("").ranked(2),
        DataColumn::text("known").ranked(1),
        DataColumn::text("from").ranked(3),
    ];
    let row = |ceiling: &Ceiling| {
        let used = ceiling.share() * 100.0;
        vec![
            ceiling.part.as_str().into(),
            most(ceiling),
            percent(used).into(),
            Quantity::new(used.min(100.0), QuantityUnit::PercentBar).into(),
            ceiling.basis.name().into(),
            ceiling.source.as_str().into(),
        ]
    };
    // The tightest comes first.
    let (first, rest) = all.split_at(all.len().min(1));
    let rest = rest.iter().filter(|ceiling| ceiling.share() * 100.0 >= USED_MIN);
    body.table(columns, first.iter().chain(rest).take(SHOWN).map(row).collect());
}

fn most(ceiling: &Ceiling) -> Text {
    match ceiling.unit {
        CeilingUnit::Iops => text!(count(ceiling.most), " IOPS"),
        CeilingUnit::BytesPerSecond => bandwidth(ceiling.most).into(),
        CeilingUnit::Celsius => format!("{:.0} °C", ceiling.most).into(),
    }
}
