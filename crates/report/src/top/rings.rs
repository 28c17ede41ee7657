//! io_uring instances.

use super::View;
use super::paint::Tone;
use super::table::{Cell, Column, Row, Table};
use fathom_analysis::derive::per_second;
use fathom_model::watch::{RingQueues, RingSample, RingsSample, SqPoll};

/// The column sorted by where none was chosen: submissions.
pub const SORT: usize = 1;

const COLUMNS: &[Column] = &[
    Column { name: "RING pid/fd", width: 12, wide: 20, rank: 0, number: false },
    Column { name: "sub/s", width: 6, wide: 6, rank: 0, number: true },
    Column { name: "compl/s", width: 7, wide: 7, rank: 1, number: true },
    Column { name: "inside", width: 6, wide: 6, rank: 1, number: true },
    Column { name: "sq", width: 5, wide: 5, rank: 2, number: true },
    Column { name: "cq", width: 5, wide: 5, rank: 2, number: true },
    Column { name: "overfl", width: 6, wide: 6, rank: 3, number: true },
    Column { name: "iowq", width: 4, wide: 4, rank: 2, number: true },
    Column { name: "sqpoll%", width: 7, wide: 7, rank: 2, number: true },
    Column { name: "sq size", width: 7, wide: 7, rank: 4, number: true },
    Column { name: "buffers", width: 7, wide: 7, rank: 5, number: true },
    Column { name: "files", width: 7, wide: 7, rank: 5, number: true },
];

/// The table.
pub fn table(view: &View<'_>) -> Table {
    let Some(now) = &view.now.rings else {
        return Table {
            note: "rings are not watched".into(),
            columns: COLUMNS,
            ..Table::default()
        };
    };
    let rows = now.rings.iter().map(|ring| row(view, now, ring)).collect();
    let note = "no io_uring is open in the processes that can be seen".into();
    Table { note, columns: COLUMNS, rows, ..Table::default() }
}

/// What the same ring was where the interval began.
pub fn before<'a>(view: &View<'a>, ring: &RingSample) -> Option<&'a RingSample> {
    let same =
        |then: &&RingSample| (then.pid, then.fd, then.inode) == (ring.pid, ring.fd, ring.inode);
    view.before.rings.as_ref()?.rings.iter().find(same)
}

fn row(view: &View<'_>, all: &RingsSample, ring: &RingSample) -> Row {
    let then = before(view, ring);
    let queues = ring.queues.as_ref();
    let both = then.and_then(|then| then.queues).zip(ring.queues);
    let rate = |of: fn(&RingQueues) -> u32| {
        let grown = both.map(|(then, now)| of(&now).wrapping_sub(of(&then)));
        Cell::known(grown.map(|n| per_second(n.into(), view.elapsed_ns)), Cell::count)
    };
    let now = |of: fn(&RingQueues) -> u32| Cell::known(queues.map(|q| of(q).into()), Cell::count);
    let workers = all.workers.iter().find(|workers| workers.pid == ring.pid);
    let busy = then.and_then(|then| then.sq_poll).zip(ring.sq_poll).and_then(busy);
    let key = format!("{}/{}", ring.pid, ring.fd);
    let cells = vec![
        Cell::text(&key),
        rate(|q| q.submitted),
        rate(|q| q.completed),
        now(|q| q.submitted.wrapping_sub(q.completed)),
        now(|q| q.sq_ready),
        now(|q| q.cq_ready),
        now(|q| q.overflowed),
        Cell::count(workers.map_or(0.0, |workers| workers.threads.into())),
        Cell::known(busy, |share| Cell::fixed(share, 1)),
        now(|q| q.sq_entries),
        now(|q| q.buffers),
        now(|q| q.files),
    ];
    Row { key, cells, tone: Tone::Plain }
}

/// Share of the SQPOLL thread's processor time in which it had work, in percent.
fn busy((then, now): (SqPoll, SqPoll)) -> Option<f64> {
    let grown = |of: fn(&SqPoll) -> Option<u64>| of(&now)?.checked_sub(of(&then)?);
    let total = grown(|poll| poll.total_us)?;
    (total > 0).then_some(grown(|poll| poll.work_us)? as f64 * 100.0 / total as f64)
}
