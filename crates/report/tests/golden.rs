//! What reports look like, whole, for records made by hand.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use fathom_model::plan::{Engine, Unified, Uring};
use fathom_model::record::RunRecord;
use fathom_report::{fio_json, summary, terse};
use support::{golden, json::Json, troubled, two_groups, uneven};

#[test]
fn summaries() {
    let plain = summary::Style::default();
    golden("two_groups.txt", &summary::render(&two_groups(), plain));
    golden("troubled.txt", &summary::render(&troubled(), plain));
    golden("uneven.txt", &summary::render(&uneven(), plain));
    let colored = summary::Style { color: true, width: 60 };
    golden("troubled_color.txt", &summary::render(&troubled(), colored));
}

#[test]
fn many_jobs_are_told_by_their_extremes() {
    let mut record = uneven();
    for clone in 3..12 {
        let plan = fathom_model::JobPlan { clone, ..record.plan.jobs[0].clone() };
        record.plan.jobs.push(plan);
        record.jobs.push(record.jobs[1].clone());
    }
    let text = summary::render(&record, summary::Style::default());
    let line = "  jobs     from 50k IOPS (read.0) to 150k IOPS (read.2)\n";
    assert!(text.contains("12 jobs") && text.contains(line), "{text}");
}

#[test]
fn groups_that_ran_together_are_summed_up() {
    let mut record = two_groups();
    assert!(!summary::render(&record, summary::Style::default()).contains("together"));
    record.plan.jobs[2].wave = 0;
    record.jobs[2].started_ns = record.jobs[0].started_ns;
    let text = summary::render(&record, summary::Style::default());
    assert!(text.contains("together  210k IOPS, 822 MiB/s (mixed + log)\n"), "{text}");
}

#[test]
fn polling_that_nothing_did_is_not_called_polled() {
    let mut record = uneven();
    for job in &mut record.plan.jobs {
        job.engine = Engine::IoUring(Uring { iopoll: true, ..Uring::default() });
    }
    let text = |record: &RunRecord| {
        let lines = summary::render(record, summary::Style::default());
        lines.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(text(&record).contains("NOT polled, though asked"), "{}", text(&record));
    record.jobs.iter_mut().for_each(|job| job.granted.polled = true);
    assert!(text(&record).contains(" · polled"), "{}", text(&record));
    // Granted by the kernel, but the device has no polled queues.
    for target in &mut record.facts.targets {
        target.device.get_or_insert_default().io_poll = Some(false);
    }
    let text = text(&record);
    assert!(text.contains("NOT polled, though asked") && !text.contains("· polled"), "{text}");
}

#[test]
fn json() {
    golden("two_groups.json", &fio_json::render(&two_groups(), false));
    golden("two_groups_plus.json", &fio_json::render(&two_groups(), true));
    golden("troubled.json", &fio_json::render(&troubled(), false));
}

#[test]
fn terse_lines() {
    for number in [2, 3, 4, 5] {
        let version = terse::Version::from_number(number).unwrap();
        golden(&format!("two_groups.terse{number}"), &terse::render(&two_groups(), version));
    }
    golden("troubled.terse3", &terse::render(&troubled(), terse::Version::V3));
    assert_eq!(terse::Version::from_number(1), None);
}

#[test]
fn colours_change_no_letter() {
    let of = |color| summary::render(&troubled(), summary::Style { color, width: 80 });
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
    let json = Json::parse(&fio_json::render(&record, true));
    let job = json.get("jobs").and_then(|jobs| jobs.get("0")).unwrap();
    assert!(job.get("mixed").is_some() && job.get("read").is_none());
    record.plan.jobs.iter_mut().for_each(|job| job.show.unified = Unified::Both);
    let json = Json::parse(&fio_json::render(&record, true));
    let job = json.get("jobs").and_then(|jobs| jobs.get("0")).unwrap();
    assert!(job.get("mixed").is_some() && job.get("read").is_some());
    assert!(summary::render(&record, summary::Style::default()).contains("mixed"));
}

#[test]
fn latencies_that_are_switched_off_are_zero() {
    let mut record = two_groups();
    for job in &mut record.plan.jobs {
        (job.show.slat, job.show.clat, job.show.bw) = (false, false, false);
    }
    let value: serde_json::Value = serde_json::from_str(&fio_json::render(&record, true)).unwrap();
    let read = &value["jobs"][0]["read"];
    assert_eq!((&read["slat_ns"]["N"], &read["clat_ns"]["N"]), (&0.into(), &0.into()));
    assert!(read["clat_ns"].get("percentile").is_none());
    assert_eq!(read["bw_samples"], 0);
    assert_eq!(read["lat_ns"]["N"], 300_000);
}

#[test]
fn empty_and_unfinished_records_are_valid() {
    let mut unfinished = two_groups();
    unfinished.jobs.truncate(1);
    let style = summary::Style { color: true, width: 0 };
    for (record, jobs) in [(RunRecord::default(), 0), (unfinished, 1)] {
        let json = Json::parse(&fio_json::render(&record, true));
        let Some(Json::List(entries)) = json.get("jobs") else { panic!("no jobs") };
        assert_eq!(entries.len(), jobs);
        assert_eq!(terse::render(&record, terse::Version::V5).lines().count(), jobs);
        assert_eq!(summary::render(&record, style).is_empty(), jobs == 0);
    }
}
