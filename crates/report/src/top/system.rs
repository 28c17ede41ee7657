//! CPUs, tasks, memory: the lines above the tables.

use super::paint::{Paint, Tone};
use super::{View, take};
use fathom_analysis::machine::{CpuRates, SystemRates};
use fathom_model::units;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Width of the label column.
const LABEL: u16 = 6;
/// CPU usage in eighths.
const BARS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// Width of one CPU with its number and usage: `12 ▃  45%  `.
const WRITTEN: u16 = 11;

/// Minimum screen height for the line of hardware counters.
const COUNTED_MIN: u16 = 20;

/// Name and value.
type Figure = (&'static str, String);

/// Number of lines needed, given the size of `area`.
pub fn height(view: &View<'_>, area: Rect) -> u16 {
    let Some(system) = &view.rates.system else { return 1 };
    4 + core_lines(system, area) + more(view, system, area).len() as u16
}

/// Optional lines: hardware counters, cgroup limits.
fn more(view: &View<'_>, system: &SystemRates, area: Rect) -> Vec<(&'static str, Vec<Figure>)> {
    let limits = limits(view, system).map(|limits| ("cgroup", limits));
    // On a small screen the tables need the line more.
    let counted = counted(view);
    let room = area.height >= COUNTED_MIN && !counted.is_empty();
    let counted = room.then_some(("count", counted));
    counted.into_iter().chain(limits).collect()
}

/// Draws onto all of `area`, which is what [`height`] gave of `room`.
pub fn draw(view: &View<'_>, room: Rect, paint: Paint, area: Rect, buf: &mut Buffer) {
    let mut rest = area;
    let Some(system) = &view.rates.system else {
        let text = "CPU and memory figures are not in this record";
        buf.set_stringn(area.x, area.y, text, area.width.into(), paint.of(Tone::Faint));
        return;
    };
    figures("cpu %", &shares(system), paint, take(&mut rest, 1), buf);
    // `area` may be smaller than requested, never larger.
    let more = more(view, system, room);
    let lines = area.height.saturating_sub(4 + more.len() as u16);
    cores(system, paint, take(&mut rest, lines), buf);
    figures("tasks", &tasks(system), paint, take(&mut rest, 1), buf);
    figures("mem", &memory(system), paint, take(&mut rest, 1), buf);
    figures("page", &paging(system), paint, take(&mut rest, 1), buf);
    for (label, line) in more {
        figures(label, &line, paint, take(&mut rest, 1), buf);
    }
}

/// Draws a line of figures, omitting those that do not fit.
fn figures(label: &str, figures: &[Figure], paint: Paint, area: Rect, buf: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    buf.set_stringn(area.x, area.y, label, area.width.into(), paint.of(Tone::Key));
    let mut x = area.x + LABEL;
    for (name, value) in figures {
        let width = name.chars().count() + 1 + value.chars().count();
        if x + width as u16 > area.right() {
            break;
        }
        let (next, _) = buf.set_stringn(x, area.y, name, width, paint.of(Tone::Faint));
        let (next, _) = buf.set_stringn(next + 1, area.y, value, width, paint.of(Tone::Plain));
        x = next + 1;
    }
}

/// In the order of mpstat.
fn shares(system: &SystemRates) -> Vec<Figure> {
    let cpu = &system.cpu;
    let share = |value: f64| format!("{value:4.1}");
    vec![
        ("usr", share(cpu.user)),
        ("nice", format!("{:.1}", cpu.nice)),
        ("sys", share(cpu.system)),
        ("iow", share(cpu.iowait)),
        ("irq", format!("{:.1}", cpu.irq)),
        ("soft", share(cpu.softirq)),
        ("st", format!("{:.1}", cpu.steal)),
        ("idle", share(cpu.idle)),
    ]
}

fn tasks(system: &SystemRates) -> Vec<Figure> {
    let mut figures = vec![
        ("run", system.ready.to_string()),
        ("blocked", system.blocked.to_string()),
        ("cs/s", units::count(system.context_switches.round())),
        ("intr/s", units::count(system.interrupts.round())),
    ];
    if let Some(stalls) = &system.pressure {
        let share = |value: f64| format!("{value:.1}%");
        figures.push(("PSI cpu", share(stalls.cpu.some)));
        figures.push(("mem", share(stalls.memory.some)));
        figures.push(("io", share(stalls.io.some)));
    }
    figures.push(("new/s", units::count(system.forks.round())));
    figures
}

fn memory(system: &SystemRates) -> Vec<Figure> {
    let memory = &system.memory;
    let mut figures = vec![
        ("total", bytes(memory.total)),
        ("used", bytes(memory.used)),
        ("free", bytes(memory.free)),
        ("buff", bytes(memory.buffers)),
        ("cache", bytes(memory.cache)),
        ("dirty", bytes(memory.dirty)),
        ("writeback", bytes(memory.writeback)),
    ];
    if memory.swap_used > 0 {
        figures.push(("swap", bytes(memory.swap_used)));
    }
    figures
}

fn paging(system: &SystemRates) -> Vec<Figure> {
    let paging = &system.paging;
    let count = |value: f64| units::count(value.round());
    vec![
        ("in", format!("{}/s", bytes(paging.in_bytes as u64))),
        ("out", format!("{}/s", bytes(paging.out_bytes as u64))),
        ("faults/s", count(paging.faults)),
        ("major/s", count(paging.major_faults)),
        ("scan/s", count(paging.scan_kswapd + paging.scan_direct)),
        ("direct/s", count(paging.scan_direct)),
        ("steal/s", count(paging.steal_kswapd + paging.steal_direct)),
        ("refault/s", count(paging.refault_file)),
        ("swap in/s", count(paging.swap_in)),
        ("swap out/s", count(paging.swap_out)),
    ]
}

/// The limits of this cgroup, if any.
fn limits(view: &View<'_>, system: &SystemRates) -> Option<Vec<Figure>> {
    let group = view.now.system.as_ref()?.cgroup.as_ref()?;
    let rates = system.cgroup.unwrap_or_default();
    let mut figures = Vec::new();
    if let Some(limit) = group.cpu_limit {
        figures.push(("CPUs", format!("{limit:.2}")));
        figures.push(("throttled", format!("{:.1}%", rates.throttled.unwrap_or(0.0))));
    }
    if let (Some(used), Some(limit)) = (group.memory_used, group.memory_limit) {
        figures.push(("memory", format!("{} of {}", bytes(used), bytes(limit))));
        figures.push(("max events/s", units::count(rates.memory_hits.unwrap_or(0.0))));
    }
    if !group.io_limits.is_empty() {
        figures.push(("I/O", group.io_limits.join(", ")));
    }
    (!figures.is_empty()).then_some(figures)
}

/// Hardware counters; for counted processes also their software events, which other lines show for the
/// whole machine.
fn counted(view: &View<'_>) -> Vec<Figure> {
    let Some(counters) = &view.rates.counters else { return Vec::new() };
    let work = &counters.all;
    let two = |value: f64| format!("{value:.2}");
    let mut figures: Vec<(&'static str, Option<String>)> = vec![
        ("CPUs", work.cpus.map(two)),
        ("IPC", work.ipc.all.map(two)),
        ("IPC:u", work.ipc.user.map(two)),
        ("IPC:k", work.ipc.kernel.map(two)),
        ("GHz", work.ghz.map(two)),
        ("MPKI", work.cache_mpki.map(two)),
        ("cycles/IO", work.per_io.and_then(|io| Some(units::count(io.cycles?)))),
        ("counted", work.counted.filter(|part| *part < 99.95).map(|part| format!("{part:.0}%"))),
    ];
    if work.cpus.is_some() {
        figures.push(("cs/s", work.context_switches.map(|rate| units::count(rate.round()))));
        figures.push(("faults/s", work.page_faults.map(|rate| units::count(rate.round()))));
    }
    figures.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Bytes without a space before the unit, to save room.
pub fn bytes(value: u64) -> String {
    units::bytes(value).replace(' ', "")
}

/// Number of lines for the CPUs.
fn core_lines(system: &SystemRates, area: Rect) -> u16 {
    let width = usize::from(area.width.saturating_sub(LABEL).max(1));
    let most = if area.height > 40 { 4 } else { 2 };
    system.cpus.len().div_ceil(width).clamp(1, most) as u16
}

/// Draws each CPU as a bar of one column; several share a column where there are too many.
fn cores(system: &SystemRates, paint: Paint, area: Rect, buf: &mut Buffer) {
    let room = usize::from(area.width.saturating_sub(LABEL));
    let cpus = &system.cpus;
    if area.height == 0 || room == 0 {
        return;
    }
    buf.set_stringn(area.x, area.y, "cpus", LABEL.into(), paint.of(Tone::Key));
    if cpus.len() * usize::from(WRITTEN) <= room {
        return written(cpus, paint, area, buf);
    }
    let each = cpus.len().div_ceil(room * usize::from(area.height)).max(1);
    for (place, group) in cpus.chunks(each).enumerate() {
        // A shared column shows the busiest CPU.
        let busy = group.iter().map(|cpu| cpu.shares.busy()).fold(0.0, f64::max);
        let x = area.x + LABEL + (place % room) as u16;
        let y = area.y + (place / room) as u16;
        buf.set_stringn(x, y, bar(busy), 1, paint.of(tone(busy)));
    }
    if each > 1 && area.height > 1 {
        let text = format!("/{each}");
        buf.set_stringn(area.x, area.y + 1, text, LABEL.into(), paint.of(Tone::Faint));
    }
}

/// Draws a small number of CPUs, each with its number and usage.
fn written(cpus: &[CpuRates], paint: Paint, area: Rect, buf: &mut Buffer) {
    for (place, cpu) in cpus.iter().enumerate() {
        let x = area.x + LABEL + place as u16 * WRITTEN;
        let busy = cpu.shares.busy();
        let (x, _) = buf.set_stringn(x, area.y, cpu.cpu.to_string(), 4, paint.of(Tone::Faint));
        let (x, _) = buf.set_stringn(x + 1, area.y, bar(busy), 1, paint.of(tone(busy)));
        buf.set_stringn(x, area.y, format!("{busy:3.0}%"), 5, paint.of(Tone::Plain));
    }
}

fn bar(busy: f64) -> &'static str {
    // Low usage must differ from none.
    let eighths = if busy < 0.5 { 0 } else { (busy / 12.5).round().clamp(1.0, 8.0) as usize };
    BARS[eighths]
}

fn tone(busy: f64) -> Tone {
    match busy {
        90.0.. => Tone::High,
        50.0.. => Tone::Middle,
        _ => Tone::Low,
    }
}
