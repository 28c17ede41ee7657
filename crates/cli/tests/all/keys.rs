//! What single keys do.
#![allow(clippy::unwrap_used)]

use crate::common::{Place, is_root, says};
use crate::fio::script;
use crate::io_logs::entries;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;

fn job(place: &Place, args: &[&str]) -> serde_json::Value {
    let format = ["--name=a", "--output-format=json"];
    place.run(&[&format[..], args].concat()).done().json()["jobs"][0].clone()
}

#[test]
fn ranges_are_synced_after_writes() {
    let place = Place::new();
    let args = [
        "--filename=f",
        "--rw=write",
        "--size=64k",
        "--bs=4k",
        "--sync_file_range=wait_before,write:4",
    ];
    for engine in ["--ioengine=psync", "--ioengine=io_uring", "--ioengine=libaio"] {
        let job = job(&place, &[&args[..], &[engine, "--iodepth=4", "--overwrite=f"]].concat());
        assert_eq!((&job["sync"]["total_ios"], &job["error"]), (&4.into(), &0.into()), "{engine}");
    }
    place.refuses(
        &["--rw=write", "--sync_file_range=all:4", "f"],
        &["valid values are wait_before, write, wait_after"],
    );
}

#[test]
fn all_files_of_a_directory_are_used() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("d/e")).unwrap();
    for name in ["d/b:c", "d/a", "d/e/c"] {
        place.data(name, 8192);
    }
    std::os::unix::fs::symlink("a", place.path("d/link")).unwrap();
    let read = job(&place, &["--opendir=d", "--rw=read", "--bs=4k"]);
    assert_eq!(read["read"]["io_bytes"], 3 * 8192);
    // As in fio, without a size there is nothing in an empty file to read.
    place.write("d/empty", "");
    let read = job(&place, &["--opendir=d", "--rw=read", "--bs=4k"]);
    assert_eq!(read["read"]["io_bytes"], 3 * 8192);
    std::fs::create_dir(place.path("nothing")).unwrap();
    place.write("nothing/empty", "");
    place.refuses(&["--rw=read", "--opendir=nothing"], &["in nothing, or only empty ones"]);
    place.refuses(&["--rw=read", "--opendir=none"], &["opendir: cannot read none"]);
    std::fs::create_dir(place.path("empty")).unwrap();
    place.refuses(&["--rw=read", "--opendir=empty"], &["there are no files in empty"]);
}

#[test]
fn any_number_of_bytes() {
    let place = Place::new();
    place.data("data", 1 << 20);
    let log = ["--write_lat_log=x", "--log_offset=1", "--log_prio=1"];
    let read =
        ["--filename=data", "--rw=read", "--bsrange=1-300", "--bs_unaligned=1", "--size=64k"];
    assert_eq!(job(&place, &[&read[..], &log].concat())["read"]["io_bytes"], 64 << 10);
    let lengths: BTreeSet<u64> = entries(&place, "clat").iter().map(|entry| entry[3]).collect();
    assert!(
        lengths.len() > 100 && lengths.iter().all(|len| (1..=300).contains(len)),
        "{lengths:?}"
    );
    let direct = [&read[..], &["--direct=1"]].concat();
    place.refuses(&direct, &["bs_unaligned", "multiples of", "direct=0"]);
}

#[test]
fn times_of_issue_are_logged() {
    let place = Place::new();
    let args = [
        "--ioengine=null",
        "--size=64k",
        "--rw=read",
        "--write_lat_log=x",
        "--log_offset=1",
        "--log_issue_time=1",
    ];
    job(&place, &args);
    for (kind, has) in [("clat", true), ("slat", true), ("lat", false)] {
        let text = place.read(&format!("x_{kind}.1.log"));
        assert_eq!(text.lines().count(), 16);
        for line in text.lines() {
            let fields: Vec<u64> = line.split(", ").map(|field| field.parse().unwrap()).collect();
            assert_eq!(fields.len(), 7, "{line}");
            // The time of the entry is in milliseconds.
            assert_eq!(fields[6] > 0 && fields[6] / 1_000_000 <= fields[0], has, "{kind}: {line}");
        }
    }
}

#[test]
fn compressed_logs_are_those_of_other_runs() {
    let place = Place::new();
    let args = [
        "--ioengine=null",
        "--size=1m",
        "--rw=write",
        "--write_bw_log=x",
        "--log_offset=1",
        "--log_store_compressed=1",
    ];
    job(&place, &args);
    let text = place.ask(&["run", "--inflate-log=x_bw.1.log.fz"]).done().stdout;
    let offsets: Vec<u64> =
        text.lines().map(|line| line.split(", ").nth(4).unwrap().parse().unwrap()).collect();
    assert!(offsets.into_iter().eq((0..256).map(|block| block * 4096)));
    place.write("text", "1, 2, 3\n");
    let answer = place.ask(&["run", "--inflate-log=text"]);
    assert_eq!(answer.code, Some(1));
    says(&answer.stderr, &["cannot read the compressed log text"]);
}

#[test]
fn a_load_uses_cpu_time_and_no_storage() {
    let place = Place::new();
    let load =
        job(&place, &["--ioengine=cpuio", "--cpuload=50", "--cpuchunks=2000", "--number_ios=20"]);
    assert_eq!((&load["read"]["total_ios"], &load["read"]["io_bytes"]), (&20.into(), &0.into()));
    assert!(load["read"]["clat_ns"]["min"].as_u64().unwrap() >= 2_000_000);
    let sorts = ["--ioengine=cpuio", "--cpuload=100", "--cpumode=qsort", "--cpuchunks=20000"];
    let sorts = job(&place, &[&sorts[..], &["--runtime=1"]].concat());
    assert!(sorts["usr_cpu"].as_f64().unwrap() > 1.0, "{sorts}");
    let jobs = "[load]\nioengine=cpuio\ncpuload=10\ncpuchunks=1000\nexit_on_io_done=1\n\
        [io]\nfilename=f\nrw=write\nsize=64k\n";
    let answer = place.run_stdin(jobs, &["-", "--output-format=json"]).done();
    assert_eq!(answer.json()["jobs"][1]["write"]["io_bytes"], 64 << 10);
}

#[test]
fn think_time_after_time_of_io() {
    let place = Place::new();
    // Without any think time in between, the null engine is done with all of it at once.
    let think = ["--thinktime=5ms", "--thinktime_iotime=1ms", "--runtime=1", "--time_based"];
    let paused = job(
        &place,
        &[&["--ioengine=null", "--size=4k", "--rw=read", "--iodepth=4"][..], &think].concat(),
    );
    // A sixth of the time or less, in more than single I/Os between pauses of which there is room for at most 200.
    assert!(paused["read"]["total_ios"].as_u64().unwrap() > 200 * 10, "{paused}");
    let used = ["usr_cpu", "sys_cpu"].map(|cpu| paused[cpu].as_f64().unwrap());
    assert!(used[0] + used[1] < 50.0, "{used:?}");
}

#[test]
fn idle_time_of_the_cpus_in_the_output_of_fio() {
    let place = Place::new();
    let answer = script(
        &place,
        "fio --name=a --ioengine=null --rw=read --size=4k --runtime=2 --time_based --idle-prof=percpu --output-format=normal,json",
    );
    says(&answer.stdout, &["\nCPU idleness:\n  system: ", "%\n  percpu: ", "  unit work: mean="]);
    let json = answer.stdout.split_once("\n{").unwrap().1.rsplit_once('}').unwrap().0;
    let json: serde_json::Value = serde_json::from_str(&format!("{{{json}}}")).unwrap();
    let idle = &json["cpu_idleness"];
    let each: Vec<f64> = idle
        .as_object()
        .unwrap()
        .iter()
        .filter(|(key, _)| key.starts_with("cpu-"))
        .map(|(_, v)| v.as_f64().unwrap())
        .collect();
    assert!(
        !each.is_empty() && each.iter().all(|percent| (0.0..=100.0).contains(percent)),
        "{idle}"
    );
    let mean = each.iter().sum::<f64>() / each.len() as f64;
    assert!((idle["system"].as_f64().unwrap() - mean).abs() < 0.01);
    let short = "fio --name=a --ioengine=null --rw=read --size=4k --idle-prof=percpu --output-format=normal,json";
    let answer = script(&place, short);
    says(&answer.stdout, &["\nCPU idleness:\n  system: ", "%\n  percpu: ", "\"cpu_idleness\""]);
}

#[test]
fn another_user_creates_the_files() {
    if !is_root("another_user_creates_the_files") {
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.path("d")).unwrap();
    std::os::unix::fs::chown(place.path("d"), Some(65534), Some(65534)).unwrap();
    let args = [
        "--ioengine=filecreate",
        "--directory=d",
        "--nrfiles=3",
        "--rw=write",
        "--uid=65534",
        "--gid=65534",
    ];
    job(&place, &args);
    let owners = std::fs::read_dir(place.path("d")).unwrap().map(|file| {
        let about = file.unwrap().metadata().unwrap();
        (about.uid(), about.gid())
    });
    assert_eq!(owners.collect::<Vec<_>>(), [(65534, 65534); 3]);
}
