//! Traces, recorded and replayed. How they are read is tested in spec, and in which order they are issued in engine.
#![allow(clippy::unwrap_used)]

use crate::common::{Loop, Place, as_root, says};
use crate::fio::script;

/// What a trace has of each I/O and flush, without times.
fn events(place: &Place, name: &str) -> Vec<String> {
    let text = place.read(name);
    let (first, rest) = text.split_once('\n').unwrap();
    assert_eq!(first, "fio version 3 iolog");
    let lines = rest.lines().filter(|line| line.split(' ').count() == 5);
    lines.map(|line| line.split_once(' ').unwrap().1.to_string()).collect()
}

const RECORDED: [&str; 9] = [
    "--name=a",
    "--filename=data",
    "--rw=randrw",
    "--size=4m",
    "--bsrange=4k-64k",
    "--iodepth=8",
    "--number_ios=200",
    "--fsync=7",
    "--write_iolog=first",
];

#[test]
fn what_was_recorded_is_replayed_in_its_order_by_every_engine() {
    let place = Place::new();
    place.run(&[&RECORDED[..], &["--loops=2"]].concat()).done();
    let first = events(&place, "first");
    let ios = first.iter().filter(|line| !line.contains("sync")).count();
    assert!(ios > 100);
    assert!(first.contains(&"data sync 0 0".to_string()));
    for engine in ["io_uring", "libaio", "posixaio", "psync", "pvsync2", "mmap"] {
        let engine = format!("--ioengine={engine}");
        let args =
            ["--name=r", "--read_iolog=first", "--write_iolog=again", "--iodepth=8", &engine];
        let answer = place.run(&[&args[..], &["--output-format=json"]].concat()).done().json();
        assert_eq!(events(&place, "again"), first, "{engine}");
        let job = &answer["jobs"][0];
        let count = |dir: &str| job[dir]["total_ios"].as_u64().unwrap();
        assert_eq!(count("read") + count("write"), ios as u64);
        let flushes = first.iter().filter(|line| line.contains("sync")).count();
        assert_eq!(count("sync"), flushes as u64, "{engine}");
    }
}

#[test]
fn times_are_kept_and_scaled() {
    let place = Place::new();
    place.data("data", 1 << 20);
    let line = |n: u64| format!("{} data read {} 4096\n", n * 10_000, n * 4096);
    let text: String = (0..30).map(line).collect();
    place.write("trace", format!("fio version 3 iolog\n0 data add\n0 data open\n{text}"));
    let run = |more: &[&str]| {
        let args = [&["--name=r", "--read_iolog=trace", "--output-format=json"], more].concat();
        place.run(&args).done().json()["jobs"][0]["job_runtime"].as_u64().unwrap()
    };
    // 290 ms as recorded; no machine is faster than its clock.
    assert!(run(&[]) >= 290);
    assert!(run(&["--replay_time_scale=50"]) >= 580);
    assert!(run(&["--loops=2"]) >= 580);
    let page = place.run(&["--name=r", "--read_iolog=trace"]).done().stdout;
    says(&page, &["replay of trace 4 KiB", "read response"]);
    let fast = place.run(&["--name=r", "--read_iolog=trace", "--replay_no_stall=1"]).done().stdout;
    assert!(!fast.contains("read response"), "{fast}");
}

#[test]
fn what_another_program_asks_of_a_device_is_recorded() {
    let Some(_root) = as_root("what_another_program_asks_of_a_device_is_recorded") else { return };
    let place = Place::new();
    place.write("image", vec![0; 8 << 20]);
    let device = Loop::on(&place.path("image"));
    let (erase, file) =
        (format!("--erase={}@8388608", device.0), format!("--filename={}", device.0));
    let fathom = env!("CARGO_BIN_EXE_fathom");
    let load = [
        "--name=a",
        &file,
        &erase,
        "--rw=randrw",
        "--bs=8k",
        "--direct=1",
        "--fsync=9",
        "--size=2m",
    ];
    let command = [
        &["record", "--ios", "seen", &device.0, "--", fathom, "run", "--write_iolog=asked"],
        &load[..],
    ];
    let answer = place.ask(&command.concat()).done();
    says(&answer.stderr, &[" flushes of loop", "--read_iolog=seen"]);
    // The file system's name of the device is its kernel's, and a device has no other flush than `sync`.
    // fathom reads a device before it writes to it, and flushes it.
    let own = |line: &String| line.ends_with(" 8192") || line.contains(" sync ");
    let seen: Vec<String> = events(&place, "seen").into_iter().filter(own).collect();
    let first = seen.iter().position(|line| line.ends_with(" 8192")).unwrap();
    assert_eq!(seen[first..], events(&place, "asked"));
    place
        .run(&["--name=r", "--read_iolog=seen", "--direct=1", &erase, "--write_iolog=again"])
        .done();
    assert_eq!(events(&place, "again"), events(&place, "seen"));
    let unknown = place.ask(&["record", "--ios", "new", "no-such-device"]);
    says(&unknown.stderr, &["no-such-device"]);
    assert!(unknown.code == Some(1) && !place.path("new").exists());
}

/// A trace of blktrace with reads of 4 KiB, at these times and sectors.
fn block_trace(ios: &[(u64, u64)]) -> Vec<u8> {
    let record = |(at_ns, sector): &(u64, u64)| {
        let mut bytes = [0x6561_7407_u32, 0].map(u32::to_ne_bytes).concat();
        bytes.extend([*at_ns, *sector].map(u64::to_ne_bytes).concat());
        bytes.extend([4096, 1 << 16 | 1, 1, 7 << 20, 0, 0].map(u32::to_ne_bytes).concat());
        bytes
    };
    ios.iter().flat_map(record).collect()
}

#[test]
fn a_merged_trace_is_written_and_replayed() {
    let place = Place::new();
    place.data("data", 1 << 20);
    place.write("s", block_trace(&[(0, 8), (2000, 16)]));
    place.write("t", block_trace(&[(1000, 24)]));
    let to = "--replay_redirect=data";
    let merge = ["--name=r", "--read_iolog=s:t", to, "--merge_blktrace_file=m"];
    place.run(&[&merge[..], &["--merge-blktrace-only"]].concat()).done();
    let merged = || std::fs::read(place.path("m")).unwrap();
    assert_eq!(merged(), block_trace(&[(0, 8), (1000, 24), (2000, 16)]));
    place.run(&[&merge[..], &["--write_iolog=order"]].concat()).done();
    let at = |offset: u64| format!("data read {offset} 4096");
    assert_eq!(events(&place, "order"), [4096, 12288, 8192].map(at));
    // A job file replaces only what fathom wrote.
    place.write("job", "[r]\nread_iolog=s:t\nreplay_redirect=data\nmerge_blktrace_file=m\n");
    place.run(&["job"]).done();
    place.write("m", "mine");
    place.refuses(&["job"], &["m exists and was not written by fathom"]);
    assert_eq!(merged(), b"mine");
    let none = ["--name=r", "--read_iolog=s", to, "--merge-blktrace-only"];
    place.refuses(&none, &["set merge_blktrace_file"]);
}

#[test]
fn a_trace_permits_no_writes() {
    let place = Place::new();
    place.write("precious", [7; 8192]);
    place.write(
        "trace",
        "fio version 3 iolog\n0 precious read 0 4096\n9 precious write 4096 4096\n",
    );
    let replay = ["--name=r", "--read_iolog=trace"];
    place.refuses(&replay, &["precious exists and was not created by fathom"]);
    place.refuses(
        &[&replay[..], &["--overwrite=precious", "--direct=1", "--replay_scale=3"]].concat(),
        &["trace has an I/O of 4096 bytes at 1365", "replay_align="],
    );
    let answer = place.run(&[&replay[..], &["--readonly"]].concat()).done();
    says(&answer.stderr, &["--readonly: 1 writes and trims of trace are not replayed"]);
    let skipping = place.run(&[&replay[..], &["--replay_skip=write"]].concat()).done();
    says(&skipping.stdout, &["replay of trace"]);
    assert_eq!(place.read("precious"), "\u{7}".repeat(8192));
    place.run(&[&replay[..], &["--overwrite=precious"]].concat()).done();
    assert_ne!(std::fs::read(place.path("precious")).unwrap()[4096..], [7; 4096]);
    // Only the file that is written needs the permission.
    place.write("read", [7; 8192]);
    place.write("two", "fio version 3 iolog\n0 read read 0 4096\n9 new write 4096 4096\n");
    place.run(&["--name=r", "--read_iolog=two"]).done();
}

#[test]
fn the_trace_of_a_job_never_replaces_a_file_that_is_not_its_own() {
    let place = Place::new();
    place.write("mine", "text");
    place.write("job.fio", "[a]\nrw=write\nsize=64k\nwrite_iolog=mine\n");
    place.refuses(&["job.fio"], &["the log mine exists and was not written by fathom"]);
    assert_eq!(place.read("mine"), "text");
    place.refuses(
        &["--name=a", "--rw=write", "--size=64k", "--filename=f", "--write_iolog=f"],
        &["f"],
    );
}

#[test]
fn a_mapped_trace_may_read_one_file_and_write_another() {
    let place = Place::new();
    place.data("in", 8192);
    let before = std::fs::read(place.path("in")).unwrap();
    place.write("trace", "fio version 3 iolog\n0 in add\n0 out add\n0 in open\n0 out open\n0 in read 0 4096\n1 out write 4096 4096\n");
    let args = ["--name=a", "--read_iolog=trace", "--ioengine=mmap", "--output-format=json"];
    let job = &place.run(&args).done().json()["jobs"][0];
    assert_eq!((&job["read"]["io_bytes"], &job["write"]["io_bytes"]), (&4096.into(), &4096.into()));
    assert_eq!(std::fs::read(place.path("in")).unwrap(), before);
}

#[test]
fn a_trace_may_be_a_pipe_that_is_written_to() {
    let place = Place::new();
    place.data("data", 8192);
    place.write("trace", "fio version 3 iolog\n0 data add\n0 data open\n0 data read 4096 4096\n");
    let answer = script(
        &place,
        "mkfifo pipe; (sleep 1; cat trace >pipe) & fio --name=a --read_iolog=pipe --output-format=json",
    );
    assert_eq!(answer.json()["jobs"][0]["read"]["io_bytes"], 4096, "{}", answer.stderr);
}
