//! io_uring instances.

use super::View;
use super::paint::Tone;
use super::table::{Cell, Column, Row, Table};
use fathom_analysis::machine::{RingRates, RingsRates, ring_rates, setup_flag_names};
use fathom_model::watch::{RingQueues, RingSample, RingsSample};

/// The default sort column: submissions.
pub const SORT: usize = 2;

const COLUMNS: &[Column] = &[
    Column { name: "RING pid/fd", width: 12, wide: 16, rank: 0, number: false },
    Column { name: "comm", width: 12, wide: 15, rank: 1, number: false },
    Column { name: "sub/s", width: 6, wide: 6, rank: 0, number: true },
    Column { name: "compl/s", width: 7, wide: 7, rank: 1, number: true },
    Column { name: "inflt", width: 6, wide: 6, rank: 1, number: true },
    Column { name: "sq", width: 4, wide: 5, rank: 2, number: true },
    Column { name: "cq", width: 4, wide: 5, rank: 2, number: true },
    Column { name: "iowq", width: 4, wide: 4, rank: 2, number: true },
    Column { name: "sqpoll%", width: 7, wide: 7, rank: 2, number: true },
    Column { name: "overfl", width: 6, wide: 6, rank: 3, number: true },
    Column { name: "size", width: 5, wide: 5, rank: 4, number: true },
    Column { name: "setup", width: 14, wide: 60, rank: 5, number: false },
];

/// The table.
pub fn table(view: &View<'_>) -> Table {
    let Some(now) = &view.now.rings else {
        return Table {
            note: "rings are not sampled".into(),
            columns: COLUMNS,
            ..Table::default()
        };
    };
    let rates = rates(view).unwrap_or_default();
    let rows = rates.rings.iter().map(|ring| row(now, ring)).collect();
    let note = "no accessible process has an io_uring open".into();
    Table { note, columns: COLUMNS, rows, ..Table::default() }
}

/// Ring rates; `None` where rings are not sampled.
pub fn rates(view: &View<'_>) -> Option<RingsRates> {
    let none = RingsSample::default();
    let before = view.before.rings.as_ref().unwrap_or(&none);
    Some(ring_rates(before, view.now.rings.as_ref()?, view.elapsed_ns))
}

/// The key of a ring's row: `PID/FD`.
pub fn key(ring: &RingSample) -> String {
    format!("{}/{}", ring.pid, ring.fd)
}

fn row(all: &RingsSample, rates: &RingRates) -> Row {
    let ring = &rates.ring;
    let now = |of: fn(&RingQueues) -> u32| {
        Cell::optional(ring.queues.as_ref().map(|queues| of(queues).into()), Cell::count)
    };
    let workers = all.workers.iter().find(|workers| workers.pid == ring.pid);
    let cells = vec![
        Cell::text(key(ring)),
        Cell::text(&ring.comm),
        Cell::optional(rates.submitted, Cell::count),
        Cell::optional(rates.completed, Cell::count),
        Cell::optional(rates.in_kernel.map(f64::from), Cell::count),
        now(|q| q.sq_ready),
        now(|q| q.cq_ready),
        Cell::count(workers.map_or(0.0, |workers| workers.threads.into())),
        Cell::optional(rates.sq_busy, |busy| Cell::fixed(busy * 100.0, 1)),
        now(|q| q.overflowed),
        now(|q| q.sq_entries),
        Cell::text(
            ring.setup_flags.map_or(String::new(), |flags| setup_flag_names(flags).join(" ")),
        ),
    ];
    Row { key: key(ring), cells, tone: Tone::Plain }
}
