//! fio's logs: averages and histograms of intervals, or entries of single I/Os, as lines of text.

use fathom_model::io_entry::{IoEntry, IoEvent};
use fathom_model::plan::{BlockSizes, JobPlan, LogKind, Logs};
use fathom_model::progress::{JobTotals, Phase, Progress};
use fathom_model::{Dir, Histogram, PerDir};
use std::fmt::Write;

/// Bins of fio's histograms: FIO_IO_U_PLAT_NR of its stat.h, 29 powers of two with 64 bins each.
const BINS: usize = 29 << BIN_BITS;
const BIN_BITS: u32 = 6;

pub struct JobLog {
    plan: Logs,
    /// Largest block size of each direction, as histograms name it.
    block: PerDir<u64>,
    averages: LogInterval,
    histograms: LogInterval,
}

/// The bandwidth of all jobs together (`--bandwidth-log`), every half second.
#[derive(Default)]
pub struct TotalLog {
    before: (u64, PerDir<u64>),
}

impl TotalLog {
    const INTERVAL_NS: u64 = 500_000_000;

    /// The lines due now, one per direction; as in fio, also of those without I/O.
    pub fn lines(&mut self, now: &Progress) -> Vec<(Dir, String)> {
        let (from_ns, before) = self.before;
        let spent_ns = now.elapsed_ns.saturating_sub(from_ns);
        let bytes =
            PerDir::from_fn(|dir| now.jobs.iter().map(|job| job.dirs[dir].bytes).sum::<u64>());
        let ended = now.jobs.iter().all(|job| job.phase == Phase::Done) && bytes != before;
        if spent_ns == 0 || (spent_ns < Self::INTERVAL_NS && !ended) {
            return Vec::new();
        }
        self.before = (now.elapsed_ns, bytes);
        let line = |dir: Dir| {
            let moved = u128::from(bytes[dir].saturating_sub(before[dir]));
            let kib = moved * 1_000_000_000 / u128::from(spent_ns) / 1024;
            (dir, format!("{}, {kib}, {}, 0, 0\n", now.elapsed_ns / 1_000_000, dir as u8))
        };
        Dir::ALL.map(line).to_vec()
    }
}

#[derive(Default)]
struct LogInterval {
    before: JobTotals,
    next_ns: u64,
}

impl LogInterval {
    /// Whether an interval is over, the last one also before its time; sets the next one's end.
    fn is_over(&mut self, interval_ns: u64, now: &JobTotals) -> bool {
        let ended = matches!(now.phase, Phase::Finishing | Phase::Done);
        let ms = |job: &JobTotals| job.measured_ns / 1_000_000;
        let grown = ms(now) > ms(&self.before);
        let over = interval_ns > 0 && grown && (ended || now.measured_ns >= self.next_ns);
        if over {
            self.next_ns = (now.measured_ns / interval_ns + 1) * interval_ns;
        }
        over
    }
}

impl JobLog {
    pub fn new(job: &JobPlan) -> Option<Self> {
        let plan = job.logs.clone()?;
        let window = |interval_ns| LogInterval { next_ns: interval_ns, ..LogInterval::default() };
        Some(Self {
            block: job.access.block_sizes.map(|_, sizes: &BlockSizes| sizes.max()),
            averages: window(plan.average_ns),
            histograms: window(plan.hist_ns),
            plan,
        })
    }

    /// The lines of averages and histograms due now, by log; `unix_ms` is the time of `now`.
    pub fn lines(&mut self, now: &JobTotals, unix_ms: u64) -> Vec<(LogKind, String)> {
        let time_ms = if self.plan.unix_epoch { unix_ms } else { now.measured_ns / 1_000_000 };
        let mut lines = Vec::new();
        if self.averages.is_over(self.plan.average_ns, now) {
            let before = std::mem::replace(&mut self.averages.before, now.clone());
            for dir in Dir::ALL {
                averages(&self.plan, time_ms, dir, &before, now, &mut lines);
            }
        }
        if self.histograms.is_over(self.plan.hist_ns, now) {
            let before = std::mem::replace(&mut self.histograms.before, now.clone());
            for dir in Dir::ALL {
                let new = now.clat[dir].since(&before.clat[dir]);
                if !new.is_empty() {
                    let bins = bins(&new, self.plan.coarseness);
                    let line = format!("{time_ms}, {}, {}, {bins}\n", dir as u8, self.block[dir]);
                    lines.push((LogKind::Histogram, line));
                }
            }
        }
        lines
    }

    /// Nanoseconds until a line is due, or `None` once the job has ended.
    pub fn wait_ns(&self, now: &JobTotals) -> Option<u64> {
        let windows =
            [(self.plan.average_ns, &self.averages), (self.plan.hist_ns, &self.histograms)];
        let waits = windows.into_iter().filter(|(interval_ns, _)| *interval_ns > 0);
        let next_ns = waits.map(|(_, window)| window.next_ns).min()?;
        (now.phase == Phase::Running).then(|| next_ns.saturating_sub(now.measured_ns))
    }
}

/// Entries of one direction. As in fio, an interval without I/O has none.
fn averages(
    plan: &Logs,
    time_ms: u64,
    dir: Dir,
    before: &JobTotals,
    now: &JobTotals,
    lines: &mut Vec<(LogKind, String)>,
) {
    let spent_ns = u128::from(now.measured_ns - before.measured_ns).max(1);
    let ios = now.counts[dir].ios - before.counts[dir].ios;
    let bytes = now.counts[dir].bytes - before.counts[dir].bytes;
    if ios == 0 {
        return;
    }
    let per_second = |n: u64| u128::from(n) * 1_000_000_000 / spent_ns;
    let both = plan.average && plan.maximum;
    let mut entry = |kind, value: u64, maximum: u64| {
        let mut line = String::new();
        let values = (value, both.then_some(maximum));
        append(&mut line, plan, &no_io(time_ms, dir), values, None);
        lines.push((kind, line));
    };
    if plan.bw.is_some() {
        let kib = (per_second(bytes) / 1024) as u64;
        entry(LogKind::Bandwidth, kib, kib);
    }
    if plan.iops.is_some() {
        let iops = per_second(ios) as u64;
        entry(LogKind::Iops, iops, iops);
    }
    if plan.lat.is_some() {
        let latencies = [
            (LogKind::Slat, &now.slat, &before.slat),
            (LogKind::Clat, &now.clat, &before.clat),
            (LogKind::Lat, &now.lat, &before.lat),
        ];
        for (kind, now, before) in latencies {
            let new = now[dir].since(&before[dir]);
            let (mean, max) = (new.mean_ns() as u64, new.max_ns());
            entry(kind, if plan.average { mean } else { max }, max);
        }
    }
}

/// The counts of all bins, `1 << coarseness` added up in each.
fn bins(histogram: &Histogram, coarseness: u32) -> String {
    let mut counts = vec![0_u64; BINS];
    for (ns, count) in histogram.buckets() {
        counts[bin_of(ns)] += count;
    }
    let mut text = String::new();
    for group in counts.chunks(1 << coarseness) {
        let separator = if text.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{}", group.iter().sum::<u64>());
    }
    text
}

/// The bin of a latency: plat_val_to_idx() of fio's stat.c.
fn bin_of(ns: u64) -> usize {
    let msb = 63 - (ns | 1).leading_zeros();
    if msb <= BIN_BITS {
        return ns as usize;
    }
    let error_bits = msb - BIN_BITS;
    let base = (error_bits as usize + 1) << BIN_BITS;
    (base + (ns >> error_bits) as usize % (1 << BIN_BITS)).min(BINS - 1)
}

/// The first lines of a trace of I/Os on these files.
pub fn trace_head(files: &[String]) -> String {
    let mut text = String::from("fio version 3 iolog\n");
    for file in files {
        let _ = write!(text, "0 {file} add\n0 {file} open\n");
    }
    text
}

/// Appends the line of `entry` in a trace of I/Os on these files, if it has one there.
pub fn append_event(text: &mut String, files: &[String], entry: &IoEntry) {
    let action = match entry.event {
        IoEvent::Submitted { .. } => entry.dir.name(),
        IoEvent::Flush { data_only: false } => "sync",
        IoEvent::Flush { data_only: true } => "datasync",
        IoEvent::Completed { .. } => return,
    };
    let file = files.get(entry.file as usize).map_or("-", String::as_str);
    let (time_us, offset, len) = (entry.time_ns / 1000, entry.offset, entry.len);
    let _ = writeln!(text, "{time_us} {file} {action} {offset} {len}");
}

/// Appends the line of `entry` in the log `kind`, if it has one there.
pub fn append_entry(text: &mut String, plan: &Logs, kind: LogKind, entry: &IoEntry) {
    if let Some(value) = value(kind, entry) {
        // As in fio, single I/Os have no maximum.
        let value = (value, (plan.average && plan.maximum).then_some(0));
        append(text, plan, entry, value, issued_ns(kind, entry));
    }
}

/// As fio has it: bandwidth in KB/s from the completion latency, and 1 for IOPS.
fn value(kind: LogKind, entry: &IoEntry) -> Option<u64> {
    match (kind, entry.event) {
        (LogKind::Slat, IoEvent::Submitted { slat_ns }) => Some(slat_ns),
        (LogKind::Clat, IoEvent::Completed { clat_ns, .. }) => Some(clat_ns),
        (LogKind::Lat, IoEvent::Completed { lat_ns, .. }) => Some(lat_ns),
        (LogKind::Bandwidth, IoEvent::Completed { clat_ns, .. }) => {
            Some((u64::from(entry.len) * 1_000_000).checked_div(clat_ns).unwrap_or(0))
        }
        (LogKind::Iops, IoEvent::Completed { .. }) => Some(1),
        _ => None,
    }
}

/// When the I/O was issued. As in fio, only latencies of submission and completion tell.
fn issued_ns(kind: LogKind, entry: &IoEntry) -> Option<u64> {
    match (kind, entry.event) {
        (LogKind::Slat, IoEvent::Submitted { .. }) => Some(entry.time_ns),
        (LogKind::Clat, IoEvent::Completed { clat_ns, .. }) => {
            Some(entry.time_ns.saturating_sub(clat_ns))
        }
        _ => None,
    }
}

/// Appends a line with the time, block size, offset and priority of `entry`.
fn append(
    text: &mut String,
    plan: &Logs,
    entry: &IoEntry,
    (value, maximum): (u64, Option<u64>),
    issued_ns: Option<u64>,
) {
    let IoEntry { time_ns, dir, len, offset, priority, .. } = *entry;
    let time_ms = time_ns / 1_000_000;
    // Writing to a string cannot fail.
    let _ = write!(text, "{time_ms}, {value}");
    if let Some(maximum) = maximum {
        let _ = write!(text, ", {maximum}");
    }
    let _ = write!(text, ", {}, {len}", dir as u8);
    if plan.offset {
        let _ = write!(text, ", {offset}");
    }
    let _ = match plan.priority {
        true => write!(text, ", 0x{priority:04x}"),
        false => write!(text, ", {}", u8::from(priority >> 13 == 1)),
    };
    if plan.issue_time {
        let _ = write!(text, ", {}", issued_ns.unwrap_or(0));
    }
    text.push('\n');
}

/// What averages have in place of a single I/O.
fn no_io(time_ms: u64, dir: Dir) -> IoEntry {
    let event = IoEvent::Submitted { slat_ns: 0 };
    let time_ns = time_ms * 1_000_000;
    IoEntry { time_ns, event, file: 0, offset: 0, len: 0, priority: 0, dir }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::plan::{Engine, Mix, Order};
    use fathom_model::progress::JobProgress;

    fn log(change: impl FnOnce(&mut Logs)) -> JobLog {
        let order = Order::Sequential { skip: 0 };
        let mut job = JobPlan::new("j", Engine::Null, Mix::Only(Dir::Write), order);
        let mut logs = Logs { average_ns: 500_000_000, average: true, ..Logs::default() };
        change(&mut logs);
        job.logs = Some(logs);
        JobLog::new(&job).unwrap()
    }

    fn totals(ms: u64, ios: u64, ns: &[u64]) -> JobTotals {
        let mut totals = JobTotals {
            phase: Phase::Running,
            measured_ns: ms * 1_000_000,
            ..JobTotals::default()
        };
        (totals.counts.write.ios, totals.counts.write.bytes) = (ios, ios * 4096);
        ns.iter().for_each(|ns| totals.clat.write.record(*ns));
        totals
    }

    #[test]
    fn each_interval_has_one_line_per_direction_with_io() {
        let mut log = log(|logs| (logs.bw, logs.iops) = (Some("b".into()), Some("i".into())));
        assert_eq!(log.lines(&totals(499, 99, &[]), 7), []);
        assert_eq!(log.wait_ns(&totals(499, 99, &[])), Some(1_000_000));
        let lines = log.lines(&totals(500, 100, &[]), 7);
        let expected =
            [(LogKind::Bandwidth, "500, 800, 1, 0, 0\n"), (LogKind::Iops, "500, 200, 1, 0, 0\n")];
        assert_eq!(lines, expected.map(|(kind, line)| (kind, line.to_string())));
        assert_eq!(log.lines(&totals(900, 200, &[]), 7), []);
        assert_eq!(log.lines(&totals(1000, 100, &[]), 7), [], "no I/O, no line");
        let mut end = totals(1250, 150, &[]);
        end.phase = Phase::Done;
        assert_eq!(log.lines(&end, 7)[1].1, "1250, 200, 1, 0, 0\n");
        assert_eq!((log.lines(&end, 7), log.wait_ns(&end)), (vec![], None));
    }

    #[test]
    fn the_total_has_a_line_for_each_direction_every_half_second() {
        let mut log = TotalLog::default();
        let progress = |ms: u64, bytes: u64, phase| {
            let mut job = JobProgress { phase, ..JobProgress::default() };
            job.dirs.read.bytes = bytes;
            Progress { elapsed_ns: ms * 1_000_000, jobs: vec![job.clone(), job] }
        };
        assert_eq!(log.lines(&progress(499, 1 << 20, Phase::Running)), []);
        let lines = log.lines(&progress(500, 1 << 20, Phase::Running));
        let expected = ["500, 4096, 0, 0, 0\n", "500, 0, 1, 0, 0\n", "500, 0, 2, 0, 0\n"];
        assert_eq!(lines.iter().map(|line| &line.1).collect::<Vec<_>>(), expected);
        let last = log.lines(&progress(600, 2 << 20, Phase::Done));
        assert_eq!(last[0].1, "600, 20480, 0, 0, 0\n");
        assert_eq!(log.lines(&progress(601, 2 << 20, Phase::Done)), []);
    }

    #[test]
    fn latencies_are_means_maxima_or_both() {
        let clat = |average, maximum| {
            let mut log = log(|logs| {
                (logs.lat, logs.unix_epoch) = (Some("l".into()), true);
                (logs.average, logs.maximum) = (average, maximum);
            });
            log.lines(&totals(600, 2, &[100, 40]), 1234).remove(1).1
        };
        assert_eq!(clat(true, false), "1234, 70, 1, 0, 0\n");
        assert_eq!(clat(false, true), "1234, 100, 1, 0, 0\n");
        assert_eq!(clat(true, true), "1234, 70, 100, 1, 0, 0\n");
    }

    #[test]
    fn histograms_have_fio_s_bins() {
        // Values from plat_val_to_idx().
        for (ns, bin) in [(0, 0), (127, 127), (128, 128), (129, 128), (255, 191), (256, 192)] {
            assert_eq!(bin_of(ns), bin, "{ns}");
        }
        assert_eq!(bin_of(u64::MAX), BINS - 1);
        let mut log = log(|logs| (logs.hist, logs.hist_ns) = (Some("h".into()), 100_000_000));
        let (_, line) = log.lines(&totals(100, 3, &[5, 5, 64]), 0).remove(0);
        let fields: Vec<u64> =
            line.trim().split(", ").map(|field| field.parse().unwrap()).collect();
        assert_eq!((&fields[..3], fields.len()), (&[100, 1, 4096][..], 3 + BINS));
        assert_eq!((fields[3 + 5], fields[3 + 64]), (2, 1));
        let mut log = self::log(|logs| {
            (logs.hist, logs.hist_ns, logs.coarseness) = (Some("h".into()), 100_000_000, 6);
        });
        let (_, line) = log.lines(&totals(100, 3, &[5, 5, 64]), 0).remove(0);
        assert_eq!(line.split(", ").count(), 3 + 29);
    }

    const KINDS: [LogKind; 5] =
        [LogKind::Slat, LogKind::Clat, LogKind::Lat, LogKind::Bandwidth, LogKind::Iops];

    fn lines(plan: &Logs, event: IoEvent) -> Vec<String> {
        let dir = Dir::Write;
        let entry = IoEntry {
            time_ns: 7_000_000,
            event,
            file: 0,
            offset: 81_920,
            len: 4096,
            priority: 0x2003,
            dir,
        };
        let line = |kind| {
            let mut text = String::new();
            append_entry(&mut text, plan, kind, &entry);
            text
        };
        KINDS.map(line).to_vec()
    }

    #[test]
    fn each_log_has_its_value() {
        let plan = Logs { average: true, ..Logs::default() };
        let submitted = lines(&plan, IoEvent::Submitted { slat_ns: 500 });
        assert_eq!(submitted, ["7, 500, 1, 4096, 1\n", "", "", "", ""]);
        let completed = lines(&plan, IoEvent::Completed { clat_ns: 10_000, lat_ns: 11_000 });
        let expected = ["", "7, 10000, ", "7, 11000, ", "7, 409600, ", "7, 1, "];
        let expected = expected.map(|start| match start {
            "" => String::new(),
            start => format!("{start}1, 4096, 1\n"),
        });
        assert_eq!(completed, expected);
        assert_eq!(
            lines(&plan, IoEvent::Completed { clat_ns: 0, lat_ns: 0 })[3],
            "7, 0, 1, 4096, 1\n"
        );
    }

    #[test]
    fn further_columns_are_those_of_fio() {
        let all =
            Logs { average: true, maximum: true, offset: true, priority: true, ..Logs::default() };
        let submitted = &lines(&all, IoEvent::Submitted { slat_ns: 500 })[0];
        assert_eq!(submitted, "7, 500, 0, 1, 4096, 81920, 0x2003\n");
        let mut text = String::new();
        append(&mut text, &all, &no_io(500, Dir::Read), (3, Some(4)), None);
        assert_eq!(text, "500, 3, 4, 0, 0, 0, 0x0000\n");
        let all = Logs { issue_time: true, ..all };
        text.clear();
        append(&mut text, &all, &no_io(500, Dir::Read), (3, Some(4)), None);
        assert_eq!(text, "500, 3, 4, 0, 0, 0, 0x0000, 0\n");
    }
}
