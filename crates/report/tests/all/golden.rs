//! Golden files: complete reports of synthetic records.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::support::{golden, json::Json, troubled, two_groups, uneven};
use fathom_model::plan::{BlockSizes, Engine, Psync, Unified, Uring};
use fathom_model::record::RunRecord;
use fathom_model::watch::{SamplingRecord, Unavailable};
use fathom_report::calendar::TimeZone;
use fathom_report::pages;
use fathom_report::render::{self, Style};
use fathom_report::{fio_json, terse};

fn summary(record: &RunRecord, style: Style) -> String {
    render::text(&pages::run(record, None, false), style)
}

#[test]
fn summaries() {
    let plain = Style::default();
    golden("two_groups.txt", &summary(&two_groups(), plain));
    golden("troubled.txt", &summary(&troubled(), plain));
    golden("uneven.txt", &summary(&uneven(), plain));
    let colored = Style { color: true, width: 60 };
    golden("troubled_color.txt", &summary(&troubled(), colored));
}

#[test]
fn markdown() {
    let page = pages::run(&two_groups(), None, false);
    golden("two_groups.md", &render::markdown(&page));
}

#[test]
fn every_page_begins_with_who_measured_what_where_and_when() {
    let mut record = two_groups();
    record.header.command =
        ["/usr/bin/fathom", "run", "--name=a b", "job.fio"].map(str::to_string).into();
    let zone = TimeZone::fixed(jiff::tz::offset(1));
    let page = pages::run(&record, None, false).in_zone(&zone);
    let wanted = "\
fathom run · build-7 · 2026-11-21 20:53:12 +01:00
Linux 6.12.30 · 2 of 16 CPUs (AMD EPYC 9354P) · fathom 0.0.0-test
xfs on nvme0n1 (SAMSUNG MZQL23T8HCLS, 3.49 TiB)
$ fathom run '--name=a b' job.fio

mixed ";
    let text = render::text(&page, Style::default());
    assert!(text.starts_with(wanted), "{text}");
    let markdown = render::markdown(&page);
    let title = "# fathom run · build-7 · 2026-11-21 20:53:12 +01:00\n\n- Linux 6.12.30 · ";
    assert!(markdown.starts_with(title), "{markdown}");
    assert!(markdown.contains("\n- `fathom run '--name=a b' job.fio`\n\n## mixed\n"), "{markdown}");
    let html = render::html(&page);
    for whole in [
        "<title>fathom run · build-7 · 2026-11-21 20:53:12 +01:00</title>",
        "<h1>fathom run</h1>\n<p class=\"from\">build-7 · 2026-11-21 20:53:12 +01:00</p>",
    ] {
        assert!(html.contains(whole), "{html}");
    }
    assert!(html.contains("<code>fathom run '--name=a b' job.fio</code>"), "{html}");
}

#[test]
fn what_an_old_record_lacks_is_left_out_of_its_heading() {
    let mut record = two_groups();
    record.header.facts.host.hostname.clear();
    (record.header.started_unix_ns, record.header.command) = (0, Vec::new());
    record.header.facts.targets.clear();
    let text = summary(&record, Style::default());
    let wanted =
        "fathom run\nLinux 6.12.30 · 2 of 16 CPUs (AMD EPYC 9354P) · fathom 0.0.0-test\n\nmixed";
    assert!(text.starts_with(wanted), "{text}");
}

#[test]
fn lines_fit_the_terminal() {
    for record in [two_groups(), troubled(), uneven()] {
        for width in [60, 80, 120] {
            let text = summary(&record, Style { color: false, width });
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            let pairs = ["p99 271 µs", "util 93.5%", "aqu-sz 9.68", "max 16", "QD 32"];
            let kept = |pair: &&str| text.contains(pair.split(' ').next().unwrap());
            let lines = |pair: &&str| text.lines().any(|line| line.contains(pair));
            let whole = summary(&record, Style { color: false, width: 4000 });
            let lost: Vec<_> =
                pairs.iter().filter(|p| whole.contains(**p) && kept(p) && !lines(p)).collect();
            assert!(lost.is_empty(), "{width}: {lost:?}\n{text}");
        }
    }
}

#[test]
fn settings_of_all_jobs_in_a_group_are_shown() {
    let mut record = two_groups();
    let second = &mut record.plan.jobs[1];
    second.depth = 1;
    second.access.block_sizes = fathom_model::PerDir {
        read: BlockSizes::Fixed(65_536),
        write: BlockSizes::Fixed(65_536),
        trim: BlockSizes::Fixed(65_536),
    };
    let text = summary(&record, Style { color: false, width: 200 });
    let wanted =
        "mixed  random read/write 70% 4 KiB, 64 KiB · io_uring · QD 1, 16 · 2 jobs · direct";
    assert!(text.contains(wanted), "{text}");
    assert!(text.contains("queue depth     1, 16 requested, "), "{text}");
    for extra in 0..4 {
        let plan = fathom_model::JobPlan { depth: 64 << extra, ..record.plan.jobs[1].clone() };
        record.plan.jobs.insert(2, plan);
        record.jobs.insert(2, record.jobs[1].clone());
    }
    let text = summary(&record, Style { color: false, width: 200 });
    assert!(text.contains("QD 1–512 · 6 jobs"), "{text}");
}

#[test]
fn what_was_not_measured_is_one_line() {
    let mut record = troubled();
    for job in &mut record.jobs {
        (job.cost, job.cost_missing) = (None, Some("kernel.perf_event_paranoid is 3".into()));
    }
    let missing =
        |what: &str| Unavailable { source: what.into(), reason: "w".into(), remedy: String::new() };
    let missing = vec![missing("io_uring events"), missing("CPU samples")];
    record.header.sampling = Some(SamplingRecord { missing, ..SamplingRecord::default() });
    let text = summary(&record, Style::default());
    let line = "  not measured  hardware counters, io_uring events, CPU samples; see --verbose\n";
    assert_eq!(text.matches("hardware counters").count(), 1, "{text}");
    assert!(text.ends_with(line), "{text}");
    let all = render::text(&pages::run(&record, None, true), Style::default());
    assert!(all.contains("hardware counters: kernel.perf_event_paranoid is 3\n"), "{all}");
}

#[test]
fn many_jobs_are_told_by_their_extremes() {
    let mut record = uneven();
    for clone in 3..12 {
        let plan = fathom_model::JobPlan { clone, ..record.plan.jobs[0].clone() };
        record.plan.jobs.push(plan);
        record.jobs.push(record.jobs[1].clone());
    }
    let text = summary(&record, Style::default());
    let line = "slowest 50k IOPS (read.0), fastest 150k IOPS (read.2)\n";
    assert!(text.contains("12 jobs") && text.contains(line), "{text}");
}

#[test]
fn groups_that_ran_together_are_summed_up() {
    let mut record = two_groups();
    assert!(!summary(&record, Style::default()).contains("total"));
    record.plan.jobs[2].wave = 0;
    record.jobs[2].started_ns = record.jobs[0].started_ns;
    let text = summary(&record, Style::default());
    assert!(text.contains("total  210k IOPS, 822 MiB/s (mixed + log)\n"), "{text}");
}

#[test]
fn polling_that_nothing_did_is_not_called_polled() {
    let mut record = uneven();
    for job in &mut record.plan.jobs {
        job.engine = Engine::IoUring(Uring { iopoll: true, ..Uring::default() });
    }
    let text = |record: &RunRecord| {
        let lines = summary(record, Style::default());
        lines.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(text(&record).contains("not in effect polled completions"), "{}", text(&record));
    record.jobs.iter_mut().for_each(|job| job.granted.polled = true);
    assert!(text(&record).contains(" · polled completions"), "{}", text(&record));
    // Granted by the kernel, but the device has no polled queues.
    for target in &mut record.header.facts.targets {
        target.device.get_or_insert_default().io_poll = Some(false);
    }
    let text = text(&record);
    assert!(
        text.contains("not in effect polled completions") && !text.contains("· polled completions"),
        "{text}"
    );
}

#[test]
fn json() {
    golden("two_groups.json", &fio_json::render(&two_groups(), None, false));
    golden("two_groups_plus.json", &fio_json::render(&two_groups(), None, true));
    golden("troubled.json", &fio_json::render(&troubled(), None, false));
}

#[test]
fn terse_lines() {
    for number in [2, 3, 4, 5] {
        let version = terse::TerseVersion::from_number(number).unwrap();
        golden(&format!("two_groups.terse{number}"), &terse::render(&two_groups(), version));
    }
    golden("troubled.terse3", &terse::render(&troubled(), terse::TerseVersion::V3));
    assert_eq!(terse::TerseVersion::from_number(1), None);
}

#[test]
fn colors_change_no_letter() {
    let of = |color| summary(&troubled(), Style { color, width: 80 });
    let mut stripped = of(true);
    for code in ["\x1b[1;31m", "\x1b[1;33m", "\x1b[1m", "\x1b[2m", "\x1b[0m"] {
        stripped = stripped.replace(code, "");
    }
    assert_eq!(stripped, of(false));
}

#[test]
fn directions_together() {
    let mut record = two_groups();
    record.plan.jobs.iter_mut().for_each(|job| job.show.unified = Unified::Mixed);
    let json = Json::parse(&fio_json::render(&record, None, true));
    let job = json.get("jobs").and_then(|jobs| jobs.get("0")).unwrap();
    assert!(job.get("mixed").is_some() && job.get("read").is_none());
    record.plan.jobs.iter_mut().for_each(|job| job.show.unified = Unified::Both);
    let json = Json::parse(&fio_json::render(&record, None, true));
    let job = json.get("jobs").and_then(|jobs| jobs.get("0")).unwrap();
    assert!(job.get("mixed").is_some() && job.get("read").is_some());
    assert!(summary(&record, Style::default()).contains("mixed"));
}

#[test]
fn latencies_that_are_switched_off_are_zero() {
    let mut record = two_groups();
    for job in &mut record.plan.jobs {
        (job.show.slat, job.show.clat) = (false, false);
    }
    let value: serde_json::Value =
        serde_json::from_str(&fio_json::render(&record, None, true)).unwrap();
    let read = &value["jobs"][0]["read"];
    assert_eq!((&read["slat_ns"]["N"], &read["clat_ns"]["N"]), (&0.into(), &0.into()));
    assert!(read["clat_ns"].get("percentile").is_none());
    assert!(read["bw_samples"].as_u64() > Some(0), "fio, too, reports them then");
    assert_eq!(read["lat_ns"]["N"], 300_000);
    // As in fio, a synchronous engine has no submission latency.
    let submitted = |engine: Engine| {
        let mut record = two_groups();
        record.plan.jobs.iter_mut().for_each(|job| job.engine = engine.clone());
        let json = fio_json::render(&record, None, true);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        value["jobs"][0]["read"]["slat_ns"]["N"].as_u64()
    };
    assert_eq!(submitted(Engine::IoUring(Uring::default())), Some(300_000));
    assert_eq!(submitted(Engine::Psync(Psync::Plain)), Some(0));
}

#[test]
fn empty_and_unfinished_records_are_valid() {
    let mut unfinished = two_groups();
    unfinished.jobs.truncate(1);
    let style = Style { color: true, width: 0 };
    for (record, jobs) in [(RunRecord::default(), 0), (unfinished, 1)] {
        let json = Json::parse(&fio_json::render(&record, None, true));
        let Some(Json::List(entries)) = json.get("jobs") else { panic!("no jobs") };
        assert_eq!(entries.len(), jobs);
        assert_eq!(terse::render(&record, terse::TerseVersion::V5).lines().count(), jobs);
        assert_eq!(summary(&record, style).is_empty(), jobs == 0);
    }
}

#[test]
fn a_record_survives_being_stored() {
    for record in [two_groups(), troubled(), RunRecord::default()] {
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<RunRecord>(&text).unwrap(), record);
    }
}
