//! io_uring instances.

use super::TopView;
use crate::doc::{DataColumn, Text};
use crate::figures::{cell, column};
use crate::render::screen::Listing;
use fathom_analysis::machine::{RingRates, setup_flag_names};
use fathom_analysis::metrics::RING;
use fathom_model::watch::RingSample;

pub fn table(view: &TopView<'_>) -> Listing {
    let mut columns = vec![DataColumn::text("RING pid/fd").wide(12, 16)];
    columns.push(DataColumn::text("comm").ranked(1).wide(12, 15));
    columns.extend(RING.iter().map(column));
    columns.push(DataColumn::text("setup").ranked(5).wide(14, 60));
    let rates = view.interval().rings();
    let note = match &rates {
        Some(_) => "no accessible process has an io_uring open",
        None => "rings are not sampled",
    };
    let rings = rates.map_or_else(Vec::new, |rates| rates.rings);
    let keys = rings.iter().map(|rates| key(&rates.ring)).collect();
    Listing::new(columns, rings.iter().map(row).collect(), keys, note.into())
}

pub fn key(ring: &RingSample) -> String {
    format!("{}/{}", ring.pid, ring.fd)
}

fn row(rates: &RingRates) -> Vec<Text> {
    let flags = rates.ring.setup_flags.map(|flags| setup_flag_names(flags).join(" "));
    let figures = RING.iter().map(|metric| cell(metric, (metric.value)(rates)));
    let names = [key(&rates.ring).into(), rates.ring.comm.as_str().into()];
    names.into_iter().chain(figures).chain([flags.into()]).collect()
}
