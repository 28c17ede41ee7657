//! Golden files: screens and lines of `top` for synthetic samples.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::support::{SECOND, golden};
use fathom_analysis::machine::{self, MachineRates};
use fathom_model::watch::*;
use fathom_report::calendar::TimeZone;
use fathom_report::top::{self, Page, Paint, Panel, TopSource, TopView, Ui, lines};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

/// Two samples a second apart.
struct Machine {
    before: MachineSample,
    now: MachineSample,
    rates: MachineRates,
    stacks: Vec<Stack>,
    missing: Vec<Unavailable>,
    wiring: Vec<DeviceWiring>,
}

static UTC: TimeZone = TimeZone::UTC;

const END: u64 = 1_795_290_792 * SECOND;

impl Machine {
    fn new(cpus: u32, disks: u64) -> Self {
        let before = MachineSample {
            system: Some(SystemSample {
                cpus: (0..cpus).map(|cpu| CpuSample { cpu, ..CpuSample::default() }).collect(),
                pressure: Some(PressureSample::default()),
                ..SystemSample::default()
            }),
            disks: (0..disks).map(|n| disk(n, DiskKind::Disk, 0)).collect(),
            rings: Some(RingsSample { rings: vec![ring(0)], ..RingsSample::default() }),
            cost: vec![cost(0)],
            ..MachineSample::default()
        };
        let mut machine = Self { now: before.clone(), before, ..Self::empty() };
        machine.now.system = Some(busy_system(cpus));
        machine.now.disks = (0..disks).map(|n| disk(n, DiskKind::Disk, disks - n)).collect();
        machine.add_disk(disks, DiskKind::Partition, vec!["nvme0n1".into()]);
        machine.add_disk(disks + 1, DiskKind::Stacked, vec!["nvme0n1".into(), "nvme1n1".into()]);
        machine.now.threads = Some(threads());
        machine.now.rings = Some(RingsSample {
            rings: vec![ring(120_000)],
            workers: vec![RingWorkers { pid: 4711, threads: 3 }],
            ..RingsSample::default()
        });
        machine.now.cost = vec![cost(4)];
        machine.stacks = stacks();
        let irqs = vec!["45".into()];
        machine.wiring = vec![DeviceWiring { name: "nvme0n1".into(), irqs, ..Default::default() }];
        machine.now.stacks = Some(StacksSample {
            event: "cycles".into(),
            counts: (0..4).map(stack_count).collect(),
            ..StacksSample::default()
        });
        machine.now.blocks = Some(blocks());
        machine.derive();
        machine
    }

    fn empty() -> Self {
        Self {
            before: MachineSample::default(),
            now: MachineSample::default(),
            rates: MachineRates::default(),
            stacks: Vec::new(),
            missing: Vec::new(),
            wiring: Vec::new(),
        }
    }

    fn add_disk(&mut self, number: u64, kind: DiskKind, below: Vec<String>) {
        let with = |busy| DiskCounters { below: below.clone(), ..disk(number, kind, busy) };
        self.before.disks.push(with(0));
        self.now.disks.push(with(1));
    }

    fn derive(&mut self) {
        self.rates = machine::rates(&self.before, &self.now, SECOND);
    }

    fn view(&self) -> TopView<'_> {
        TopView {
            before: &self.before,
            now: &self.now,
            rates: &self.rates,
            elapsed_ns: SECOND,
            unix_ns: END,
            zone: &UTC,
            source: TopSource::Live { interval_ns: SECOND, frozen: None, recording: false },
            stacks: &self.stacks,
            wiring: &self.wiring,
            missing: &self.missing,
            own_ns: Some(4_200_000),
        }
    }
}

fn busy_system(cpus: u32) -> SystemSample {
    let cpu = |cpu: u32| {
        let busy = u64::from(cpu * 37 % 101);
        let (user, softirq) = (busy / 3, busy / 10);
        CpuSample {
            cpu,
            user,
            system: busy - user - softirq,
            softirq,
            iowait: (100 - busy) / 4,
            idle: 100 - busy - (100 - busy) / 4,
            ..CpuSample::default()
        }
    };
    SystemSample {
        cpus: (0..cpus).map(cpu).collect(),
        running: 4,
        blocked: 1,
        context_switches: 123_400,
        interrupts: 98_765,
        forks: 12,
        interrupts_by: vec![InterruptSample {
            irq: "45".into(),
            source: "PCI-MSI 524289-edge nvme0q1".into(),
            counts: vec![(0, 9000), (1, 12_000)],
        }],
        memory: MemorySample {
            total: 64 << 30,
            free: 20 << 30,
            available: 50 << 30,
            buffers: 512 << 20,
            cached: 30 << 30,
            slab_reclaimable: 1 << 30,
            dirty: 300 << 20,
            writeback: 12 << 20,
            ..MemorySample::default()
        },
        paging: PagingSample {
            in_kib: 512_000,
            out_kib: 2048,
            faults: 3210,
            scan_kswapd: 1000,
            scan_direct: 24,
            steal_kswapd: 900,
            ..PagingSample::default()
        },
        pressure: Some(PressureSample {
            cpu: Pressure { some_us: 32_000, full_us: 0 },
            io: Pressure { some_us: 412_000, full_us: 100_000 },
            ..PressureSample::default()
        }),
        ..SystemSample::default()
    }
}

/// A disk that was `busy` tenths of the second.
fn disk(number: u64, kind: DiskKind, busy: u64) -> DiskCounters {
    let name = match kind {
        DiskKind::Partition => "nvme0n1p1".to_string(),
        DiskKind::Stacked => "dm-0".to_string(),
        _ => format!("nvme{number}n1"),
    };
    let alias = if kind == DiskKind::Stacked { "vg-data".into() } else { String::new() };
    DiskCounters {
        name,
        kind,
        alias,
        read: IoCounters {
            ios: busy * 12_345,
            merges: 0,
            sectors: busy * 12_345 * 8,
            ticks_ms: (busy * 1234) as u32,
        },
        write: IoCounters { ios: busy * 70, merges: busy * 7, sectors: busy * 9000, ticks_ms: 45 },
        flush: IoCounters { ios: busy / 2, ticks_ms: 2, ..IoCounters::default() },
        in_flight: busy,
        busy_ms: (busy * 100).min(1000) as u32,
        weighted_ms: (busy * 1300) as u32,
        ..DiskCounters::default()
    }
}

fn threads() -> ThreadsSample {
    let thread = |tid, comm: &str, state, syscall: &str, wchan: &str, count| ThreadCount {
        pid: 4711,
        tid,
        comm: comm.into(),
        state,
        syscall: syscall.into(),
        wchan: wchan.into(),
        count,
        ..ThreadCount::default()
    };
    let wait = ("io_uring_enter", "io_cqring_wait");
    ThreadsSample {
        samples: 20,
        seen: 8240,
        at_once: true,
        active: vec![
            thread(4712, "fathom-w0", 'S', wait.0, wait.1, 13),
            thread(4713, "fathom-w0", 'S', wait.0, wait.1, 12),
            thread(4712, "fathom-w0", 'R', "", "", 7),
            ThreadCount {
                works_for: Some(4712),
                torn: true,
                ..thread(4720, "iou-wrk-4712", 'D', "", "folio_wait_bit_common", 5)
            },
            thread(88, "kswapd0", 'Q', "", "", 1),
        ],
        ..ThreadsSample::default()
    }
}

fn stacks() -> Vec<Stack> {
    let entry = ["entry_SYSCALL_64_after_hwframe", "do_syscall_64"];
    let leaves = ["io_submit_sqes", "native_queued_spin_lock_slowpath", "nvme_queue_rq"];
    let mut stacks = vec![Stack::default()];
    for leaf in leaves {
        let kernel = entry.into_iter().chain(["io_submit_sqes", leaf]).map(String::from);
        stacks.push(Stack { kernel: kernel.collect(), user: Vec::new() });
    }
    stacks
}

fn stack_count(stack: u32) -> StackCount {
    let (comm, count) = ("fathom-w0".into(), 10 * (stack + 1));
    let period = u64::from(count) * 1000;
    StackCount { pid: 4711, tid: 4712, comm, stack, count, period, ..StackCount::default() }
}

fn blocks() -> BlocksSample {
    let mut device = DeviceBlocks {
        name: "nvme0n1".into(),
        queued: 24_700,
        issued: 25_000,
        completed: 24_990,
        merged: 3,
        split: 303,
        sizes: vec![SizeSamples { op: BlockOp::Read, bytes_min: 4096, samples: 250 }],
        splits: vec![SplitSamples { limit: "max_segments".into(), bytes: 1 << 20, samples: 3 }],
        ..DeviceBlocks::default()
    };
    device.driver.record_n(82_000, 249);
    device.driver.record(1_200_000);
    BlocksSample { each_io: true, one_in: 100, devices: vec![device], ..BlocksSample::default() }
}

fn ring(done: u32) -> RingSample {
    RingSample {
        pid: 4711,
        comm: "fathom".into(),
        fd: 7,
        processes: 1,
        queues: Some(RingQueues {
            sq_entries: 256,
            cq_entries: 512,
            sq_ready: 3,
            cq_ready: 5,
            submitted: (u32::MAX - 1000).wrapping_add(done),
            completed: (u32::MAX - 1032).wrapping_add(done),
            buffers: 256,
            ..RingQueues::default()
        }),
        sq_poll: Some(SqPollThread {
            thread: 4721,
            total_us: Some(u64::from(done) * 8),
            work_us: Some(u64::from(done) * 5),
            ..SqPollThread::default()
        }),
        ..RingSample::default()
    }
}

fn cost(milliseconds: u64) -> SamplerCost {
    let cpu_ns = milliseconds * 1_000_000;
    SamplerCost { sampler: "threads".into(), samples: milliseconds * 5, cpu_ns, missed: 0 }
}

/// The screen as text, without trailing spaces.
fn screen(view: &TopView<'_>, ui: &Ui, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let paint = Paint::default();
    terminal.draw(|frame| top::draw(view, ui, paint, frame.area(), frame.buffer_mut())).unwrap();
    let buffer = terminal.backend().buffer();
    assert!(buffer.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    let rows = buffer.content.chunks(width.into());
    let text = rows.map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>());
    text.map(|line| line.trim_end().to_string() + "\n").collect()
}

#[test]
fn small_and_large_screens() {
    let mut machine = Machine::new(2, 2);
    golden("top_80x24.txt", &screen(&machine.view(), &Ui::default(), 80, 24));
    machine.missing = vec![Unavailable {
        source: "stacks".into(),
        reason: "perf_event_open: permission denied".into(),
        remedy: "run as root".into(),
    }];
    golden("top_80x24_missing.txt", &screen(&machine.view(), &Ui::default(), 80, 24));
    let large = Machine::new(192, 40);
    golden("top_200x60.txt", &screen(&large.view(), &Ui::default(), 200, 60));
}

#[test]
fn pages() {
    let mut machine = Machine::new(2, 2);
    machine.missing = vec![Unavailable {
        source: "stacks".into(),
        reason: "perf_event_open: permission denied".into(),
        remedy: "run as root".into(),
    }];
    let page = |page| screen(&machine.view(), &Ui { page, ..Ui::default() }, 80, 24);
    let group = "fathom-w*\tS\tio_uring_enter\tio_cqring_wait";
    let pages = [
        Page::Help,
        Page::Missing,
        Page::Detail(Panel::Disks, "nvme0n1".into()),
        Page::Detail(Panel::Threads, group.into()),
        Page::Detail(Panel::Rings, "4711/7".into()),
        Page::Detail(Panel::Layers, "driver".into()),
        Page::Detail(Panel::Disks, "gone".into()),
    ];
    golden("top_pages.txt", &pages.map(page).join("~~~~\n"));
}

#[test]
fn any_size_can_be_drawn() {
    let machine = Machine::new(300, 7);
    for width in [1, 5, 19, 20, 33, 79, 131, 400] {
        for height in [1, 3, 4, 7, 12, 25, 120] {
            for zoomed in [false, true] {
                screen(&machine.view(), &Ui { zoomed, ..Ui::default() }, width, height);
            }
            let ui = Ui { page: Page::Help, scrolled: 999, ..Ui::default() };
            screen(&machine.view(), &ui, width, height);
        }
    }
    screen(&Machine::empty().view(), &Ui::default(), 80, 24);
}

#[test]
fn the_selected_row_is_on_the_screen_however_many_there_are() {
    let machine = Machine::new(4, 40);
    for selected in ["nvme0n1", "nvme20n1", "nvme39n1"] {
        let mut ui = Ui::default();
        Panel::Disks.of_mut(&mut ui).selected = Some(selected.into());
        let text = screen(&machine.view(), &ui, 80, 24);
        assert!(text.contains(&format!(" {selected} ")), "{selected}\n{text}");
    }
}

#[test]
fn rows_are_sorted_as_chosen() {
    let machine = Machine::new(4, 12);
    let keys = |sort, reversed| {
        let mut ui = Ui::default();
        *Panel::Disks.of_mut(&mut ui) = top::TableUi { sort, reversed, ..top::TableUi::default() };
        let table = top::table(&machine.view(), &ui, Panel::Disks);
        table.keys
    };
    assert_eq!(keys(Some(1), false)[..2], ["nvme0n1", "nvme1n1"]);
    assert_eq!(keys(Some(0), false)[0], "dm-0");
    assert_eq!(keys(Some(1), true)[..2], ["nvme11n1", "dm-0"]);
    assert!(!keys(None, false).contains(&"nvme0n1p1".to_string()));
}

#[test]
fn a_replay_shows_its_position() {
    let machine = Machine::new(2, 2);
    let mut view = machine.view();
    let (first_ns, last_ns) = (END - 60 * SECOND, END + 180 * SECOND);
    view.source = TopSource::Replay { first_ns, last_ns, speed: None };
    let text = screen(&view, &Ui::default(), 80, 24);
    assert!(text.contains("19:53:12 +00:00  REPLAY PAUSED  25%  ends 19:56:12"), "{text}");
    view.source =
        TopSource::Live { interval_ns: SECOND, frozen: Some(5 * SECOND), recording: true };
    let text = screen(&view, &Ui::default(), 80, 24);
    assert!(text.contains("PAUSED 5 s ago  REC"), "{text}");
    let now = MachineSample { intervals_merged: 3, ..machine.now.clone() };
    let text = screen(&TopView { now: &now, ..view }, &Ui::default(), 80, 24);
    assert!(text.contains("REC  3 LATE"), "{text}");
}

#[test]
fn colors_on_request_only() {
    let machine = Machine::new(2, 2);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let draw = |frame: &mut ratatui::Frame<'_>| {
        let paint = Paint { color: true };
        top::draw(&machine.view(), &Ui::default(), paint, frame.area(), frame.buffer_mut());
    };
    terminal.draw(draw).unwrap();
    let colored = terminal.backend().buffer().content.iter().filter(|cell| cell.fg != Color::Reset);
    assert!(colored.count() > 0);
}

#[test]
fn lines_for_programs() {
    let machine = Machine::new(2, 2);
    let view = machine.view();
    let plain = lines::plain_header(&view) + &lines::plain(&view);
    golden("top_plain.txt", &plain);
    let widths: Vec<usize> = plain.lines().map(|line| line.chars().count()).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{plain}");
    golden("top.csv", &(lines::csv_header() + &lines::csv(&view)));
    let line = lines::ndjson(&view).unwrap();
    assert_eq!(line.matches('\n').count(), 1);
    let json: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(json["disks_total"]["read"]["ios"], 37_035.0);
    assert_eq!(json["threads"][0]["active"], 1.25);
    assert_eq!(json["layers"]["samples"], 100);
    assert_eq!(json["time"], "2026-11-21T19:53:12Z");
}

/// Counters of a CPU after one second.
fn counted(cpu: u32, cycles: u64) -> Counted {
    let executed =
        |instructions| Executed { instructions, cycles, enabled_ns: cycles, running_ns: cycles };
    Counted {
        cpu: Some(cpu),
        user: Some(executed(cycles * 2)),
        kernel: Some(executed(cycles / 2)),
        cache: Some(CacheCounts {
            references: cycles / 100,
            misses: cycles / 1000,
            ..CacheCounts::default()
        }),
        ..Counted::default()
    }
}

#[test]
fn hardware_counters_are_printed() {
    let mut machine = Machine::new(2, 2);
    let sample = |cycles| Some(CountersSample { of: vec![counted(0, cycles), counted(1, cycles)] });
    (machine.before.counters, machine.now.counters) = (sample(0), sample(SECOND));
    machine.derive();
    let view = machine.view();
    let plain = lines::plain_header(&view) + &lines::plain(&view);
    let ends: Vec<&str> = plain.lines().filter_map(|line| line.rsplit('|').next()).collect();
    // 4 G cycles in 0.37 s; a miss for each 2500 instructions.
    assert_eq!(ends, ["------pmu-----", " ipc  GHz mpki", "1.25 10.8 0.40"], "{plain}");
    let csv = lines::csv_header() + &lines::csv(&view);
    let columns: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let of = |name: &str| columns[1][columns[0].iter().position(|n| *n == name).unwrap()];
    assert_eq!((of("ipc"), of("ipc_user"), of("cycles_per_s")), ("1.25", "2", "4000000000"));
    assert_eq!((of("cache_misses_per_1000_instructions"), of("counted_pct")), ("0.4", "100"));
    let json: serde_json::Value = serde_json::from_str(&lines::ndjson(&view).unwrap()).unwrap();
    assert_eq!(json["counters"]["of"][1]["ipc"]["kernel"], 0.5);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let draw = |frame: &mut ratatui::Frame<'_>| {
        let paint = Paint { color: false };
        top::draw(&view, &Ui::default(), paint, frame.area(), frame.buffer_mut());
    };
    terminal.draw(draw).unwrap();
    let screen = terminal.backend().to_string();
    assert!(screen.contains("count IPC 1.25 IPC:u 2.00 IPC:k 0.50 GHz 10.8 MPKI 0.40"), "{screen}");
}

#[test]
fn sixty_columns_keep_numbers_with_their_names() {
    let machine = Machine::new(2, 2);
    let east = TimeZone::fixed(jiff::tz::offset(1));
    let view = TopView { zone: &east, ..machine.view() };
    let text = screen(&view, &Ui::default(), 60, 24);
    assert!(text.starts_with(" fathom top  20:53:12 +01:00  every 1 s\n"), "{text}");
    assert!(text.lines().nth(1).is_some_and(|line| line.ends_with("soft  1.5")), "{text}");
    let page = Page::Detail(Panel::Disks, "nvme0n1".into());
    let text = screen(&view, &Ui { page, ..Ui::default() }, 60, 24);
    assert!(text.contains(" requeued ·\n                    25k completed · 0 errors\n"), "{text}");
    golden("top_60x24.txt", &screen(&view, &Ui::default(), 60, 24));
}
