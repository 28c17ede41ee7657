//! Where CPUs spent their time: functions, processes, layers.

use super::{charts, layers};
use crate::doc::{DataColumn, Document, Text, of, plural, share, text, time, whole};
use crate::stacks::{ProcessStacks, Sampled};

const PROCESSES: usize = 10;

/// The number of samples, then the `rows` functions, the processes and the layers with the most samples.
pub fn stacks(sampled: &Sampled, rows: usize) -> Document {
    let mut page = Document::default();
    let busy: u64 = sampled.counts().map(|count| u64::from(count.count)).sum();
    header(&mut page, sampled, busy);
    if busy > 0 {
        let mut drawn = Document::default();
        charts::flame(&mut drawn, sampled, "");
        page.html_only(drawn);
        functions(&mut page, sampled, busy, rows);
        processes(&mut page, sampled, busy);
        page.blocks.extend(layers(&sampled.layers(), None).blocks);
    }
    page
}

fn header(page: &mut Document, sampled: &Sampled, busy: u64) {
    let (idle, own) = (sampled.sum(|s| s.idle), sampled.sum(|s| s.own));
    let ns = sampled.intervals.last().map_or(0.0, |(end, _)| *end as f64);
    let sample = sampled.intervals.last().map(|(_, sample)| sample);
    let (event, hz) = sample.map_or(("", 0), |sample| (sample.event.as_str(), sample.hz));
    let all = busy + idle + own;
    let parts = [(busy, "on busy CPUs"), (idle, "on idle CPUs"), (own, "of fathom")];
    let part = |(n, name): (u64, &str)| text!(of(whole(n), name), " (", share(n, all), ")");
    let parts = match parts.iter().find(|(n, _)| *n == all) {
        _ if all == 0 => Text::default(),
        Some((_, name)) => format!(", all {name}").into(),
        None => text!(": ", Text::join(parts.into_iter().filter(|(n, _)| *n > 0).map(part), ", ")),
    };
    let samples = plural(all, "sample");
    let about = text!(event, " at ", of(whole(hz), "Hz"), " for ", time(ns));
    page.paragraph(text!(samples, parts, " · ", about));
    let notes = [
        (sampled.sum(|s| s.lost), "records lost: buffers were full"),
        (sampled.sum(|s| s.throttled), "times the kernel throttled sampling"),
        (
            sampled.sum(|s| s.cut),
            "samples reduced to the function that was running: too many distinct stacks",
        ),
    ];
    for (count, what) in notes.iter().filter(|(count, _)| *count > 0) {
        page.paragraph(of(whole(*count), what));
    }
}

/// Functions that were running, most samples first; those in user mode by thread name.
fn functions(page: &mut Document, sampled: &Sampled, busy: u64, rows: usize) {
    let cells = |((name, is_kernel), count): ((String, bool), u64)| -> Vec<Text> {
        let mode = if is_kernel { "kernel" } else { "user" };
        vec![name.into(), share(count, busy).into(), whole(count).into(), mode.into()]
    };
    let columns = vec![
        DataColumn::text("function (self)"),
        DataColumn::number("share"),
        DataColumn::number("samples"),
        DataColumn::text("mode"),
    ];
    page.table(columns, sampled.functions().into_iter().take(rows).map(cells).collect());
}

fn processes(page: &mut Document, sampled: &Sampled, busy: u64) {
    let cells = |(pid, process): (i32, ProcessStacks<'_>)| -> Vec<Text> {
        let parts = [process.user + process.kernel, process.user, process.kernel];
        let shares = parts.map(|part| Text::from(share(part, busy)));
        [process.comm.into(), pid.to_string().into()].into_iter().chain(shares).collect()
    };
    let numbers = ["PID", "share", "user", "kernel"].map(DataColumn::number);
    let columns = [DataColumn::text("process")].into_iter().chain(numbers).collect();
    page.table(columns, sampled.processes().into_iter().take(PROCESSES).map(cells).collect());
}
