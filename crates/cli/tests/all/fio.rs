//! What programs made for fio find: a program of that name, and its logs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{Answer, FATHOM, Place, Running, says};
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn started_as_fio_it_prints_what_fio_prints() {
    let place = Place::new();
    symlink(FATHOM, place.path("fio")).unwrap();
    let fio = |args: &[&str]| {
        Running::start(&mut place.command("./fio", &[&["--eta=never"], args].concat())).wait()
    };
    let answer =
        fio(&["--name=a", "--rw=randrw", "--size=1m", "--bs=4k", "--gtod_reduce=1"]).done();
    says(&answer.stdout, &["a: (groupid=0, jobs=1): err= 0", "  read: IOPS=", "  write: IOPS="]);
    says(&answer.stdout, &["issued rwts: total=", "Run status group 0 (all jobs):"]);
    assert_eq!(answer.stderr, "");
    let deep = ["--name=a", "--rw=read", "--size=1m", "--ioengine=psync", "--iodepth=8"];
    assert_eq!(fio(&deep).done().stderr, "");
    let mut noted = place.command("./fio", &deep);
    let noted = Running::start(noted.env("FATHOM_NOTES", "1")).wait().done();
    says(&noted.stderr, &["fathom: note: job 'a': synchronous engine psync runs at queue depth 1"]);
    let json = fio(&["--name=a", "--rw=read", "--size=1m", "--output-format=json"]).done().json();
    assert_eq!(json["jobs"][0]["read"]["total_ios"], 256);
    assert_eq!(fio(&["--version"]).done().stdout, "fio-3.42\n");
    assert_eq!(fio(&["--parse-only"]).done().stdout, "");
    assert_eq!(fio(&["--parse-only", "--name=a", "--nosuchkey=1"]).code, Some(1));
    says(&fio(&["--enghelp"]).done().stdout, &["io_uring", "libaio", "psync"]);
    let help = fio(&["--enghelp=io_uring"]).done().stdout;
    says(&help, &["hipri", "sqthread_poll"]);
    assert!(!help.contains("\\x09"), "{help}");
    says(&fio(&["--cmdhelp=bs"]).done().stdout, &["blocksize"]);
    assert!(place.home().read_dir().unwrap().next().is_none(), "no record is kept");
}

#[test]
fn several_formats_come_in_fios_order_and_options_are_those_of_the_section() {
    let place = Place::new();
    symlink(FATHOM, place.path("fio")).unwrap();
    let job = "[global]\nbs=4k\nioengine=psync\nsize=64k\nfilename=f\niodepth=1\nnumjobs=1\n\
               steadystate=iops:50%%\nss_dur=9\nruntime=9\n[a]\nrw=write\n";
    place.write("job.fio", job.replace("steadystate=iops:50%%\nss_dur=9\nruntime=9\n", ""));
    place.write("steady.fio", job);
    let fio = |args: &[&str]| Running::start(&mut place.command("./fio", args)).wait();
    fio(&["--parse-only", "steady.fio"]).done();
    let all = fio(&["--output-format=json,normal,terse", "--eta=never", "job.fio"]).done().stdout;
    let at = |text: &str| all.find(text).unwrap_or_else(|| panic!("{text}: {all}"));
    let order = [at("a: (g=0): rw=write"), at("Starting 1 process\n"), at("3;fio-"), at("{\n")];
    assert!(order.is_sorted() && order[3] < at("a: (groupid=0"), "{all}");
    let json: Value = serde_json::from_str(&all[order[3]..=at("\n}\n") + 1]).unwrap();
    assert_eq!(json["jobs"][0]["job options"], serde_json::json!({ "rw": "write" }));
    let alone = fio(&["--output-format=json", "--eta=never", "--name=b", "--size=4k", "--rw=read"]);
    let alone = alone.done().json();
    assert_eq!(alone["jobs"][0]["job options"]["name"], "b");
    assert!(alone.get("global options").is_none(), "{alone}");
    // The trace may come later.
    fio(&["--parse-only", "--name=c", "--read_iolog=not-there"]).done();
}

/// What a shell script prints that executes `fio`.
pub fn script(place: &Place, text: &str) -> Answer {
    let _ = symlink(FATHOM, place.path("fio"));
    let path = format!("{}:/usr/bin:/bin", place.path("").display());
    let mut command = place.command("sh", &["-eu", "-c", text]);
    Running::start(command.env("PATH", path)).wait()
}

/// A run of dbench and of those made after it, with its filters for the results.
#[test]
fn scripts_find_iops_bandwidth_and_latency_with_grep() {
    let place = Place::new();
    let common = "--randrepeat=0 --verify=0 --ioengine=libaio --direct=0 --filename=fiotest --size=2M \
                  --time_based --ramp_time=100ms --runtime=300ms";
    let text = format!(
        "out=$(fio {common} --gtod_reduce=1 --name=iops --bs=4K --iodepth=64 --readwrite=randrw)
         for dir in read write; do
             echo \"$out\" | grep -E \"$dir ?:\" | grep -Eoi 'IOPS=[0-9k.]+' | cut -d= -f2
             echo \"$out\" | grep -E \"$dir ?:\" | grep -Eoi 'BW=[0-9GMKiBs/.]+' | cut -d= -f2
         done
         out=$(fio {common} --name=latency --bs=4K --iodepth=4 --readwrite=randread)
         echo \"$out\" | grep ' lat.*avg' | grep -Eoi 'avg=[0-9.]+' | cut -d= -f2"
    );
    let answer = script(&place, &text).done();
    // bench-fio and others take any line there for an error.
    assert_eq!(answer.stderr, "");
    let found: Vec<&str> = answer.stdout.lines().collect();
    assert_eq!(found.len(), 5, "{found:?}");
    for iops in [found[0], found[2]] {
        assert!(iops.trim_end_matches('k').parse::<f64>().unwrap() > 0.0, "{found:?}");
    }
    assert!(found[1].ends_with("B/s") && found[3].ends_with("B/s"), "{found:?}");
    assert!(found[4].parse::<f64>().unwrap() > 0.0, "{found:?}");
}

#[test]
fn an_interrupted_run_ends_as_fio_does() {
    let place = Place::new();
    let text = "fio --name=a --ioengine=null --size=1g --rate_iops=100 --output=o &
         sleep 1; kill -INT $!; wait $! || echo $?; grep -c 'err= 0: pid=' o";
    let answer = script(&place, text).done();
    assert_eq!(answer.stdout, "128\n1\n");
}

/// A job beside those that are measured, in all formats.
#[test]
fn jobs_without_stats_are_not_reported() {
    let place = Place::new();
    let jobs = "--size=1m --rw=write --name=beside --stats=0 --name=measured --stats=1";
    let json = script(&place, &format!("fio --output-format=json {jobs}")).done().json();
    assert_eq!(json["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(json["jobs"][0]["jobname"], "measured");
    for format in ["normal", "terse", "text"] {
        let text = script(&place, &format!("fio --output-format={format} {jobs}")).done().stdout;
        // As in fio, it is announced.
        let results = text.split("Starting 2 processes\n").last().unwrap();
        assert!(!results.contains("beside") && results.contains("measured"), "{text}");
        if format == "normal" {
            says(&text, &["WRITE: bw=", "io=1024KiB (1049kB)"]);
            says(
                &text,
                &["beside: (g=0): rw=write, bs=(R) 4096B-4096B, (W) 4096B-", "ioengine=psync"],
            );
            says(
                &text,
                &[
                    "\nfio-3.42\nStarting 2 processes\n\nmeasured: (groupid=0, jobs=1): err= 0: pid=",
                ],
            );
        }
    }
    for format in ["normal", "terse", "text", "json"] {
        script(&place, &format!("fio --output-format={format} --name=a --size=1m --stats=0"))
            .done();
    }
}

/// KDiskMark's commands: a file is prepared, and read and written by others.
#[test]
fn programs_prepare_a_file_and_read_json() {
    let place = Place::new();
    let file = "--filename=kdiskmark.tmp --size=2m --output-format=json";
    let prepared = script(&place, &format!("fio {file} --create_only=1 --name=p --rw=read"));
    assert_eq!(prepared.done().json()["jobs"][0]["error"], 0);
    let common = "--ioengine=libaio --direct=0 --randrepeat=0 --refill_buffers --end_fsync=1 \
                  --rwmixread=70 --zero_buffers=0 --bs=128k --runtime=5 --iodepth=8 --numjobs=2";
    let of = |rw: &str| {
        script(&place, &format!("fio {file} {common} --name=rw --rw={rw}")).done().json()
    };
    let (read, mixed) = (of("read"), of("randrw"));
    assert_eq!(read["jobs"].as_array().unwrap().len(), 2);
    assert_eq!(read["jobs"][1]["read"]["io_bytes"], 2 << 20);
    for (json, dir) in [(&read, "read"), (&mixed, "read"), (&mixed, "write")] {
        let of = &json["jobs"][0][dir];
        assert!(of["bw"].as_u64() > Some(0) && of["iops"].as_f64() > Some(0.0), "{dir}: {of}");
        assert!(of["lat_ns"]["mean"].as_f64() > Some(0.0), "{dir}: {of}");
    }
}

#[test]
fn probes_and_refusals_have_fio_s_exit_status() {
    let place = Place::new();
    let is_ok = |text: &str| script(&place, text).code == Some(0);
    // As blktests asks.
    assert!(is_ok("fio --version | grep -q '^fio-3'"));
    assert!(is_ok("fio --parse-only --terse-version=4"));
    assert!(is_ok("fio --parse-only --name=test --ioengine=io_uring --hipri=1 --direct=1"));
    assert!(is_ok("fio --enghelp | grep -q io_uring && fio --enghelp=libaio >/dev/null"));
    assert!(is_ok("fio --cmdhelp=iodepth | grep -q iodepth && fio --cmdhelp=all >/dev/null"));
    assert!(is_ok("fio --parse-only --name=test --zonemode=zbd"));
    assert!(!is_ok("fio --parse-only --name=test --lockfile=exclusive"));
    assert!(!is_ok("fio --enghelp=nosuch") && !is_ok("fio --cmdhelp=nosuch"));
    let refused = script(&place, "fio --crctest");
    assert_eq!(refused.code, Some(1));
    says(&refused.stderr, &["--crctest is refused", "tests fio itself"]);
    let shown = script(
        &place,
        "fio --showcmd --name='a b' --rw=read --size=4k --description='it\\'\"'\"'s'",
    );
    let shown = shown.stdout;
    assert_eq!(shown.lines().count(), 1, "{shown}");
    assert!(shown.starts_with("fio '--name=a b' --rw=read "), "{shown}");
    assert!(is_ok(&format!("{} --parse-only", shown.trim_end())));
}

/// The documents on standard output, or in a file.
fn documents(text: &str) -> Vec<Value> {
    serde_json::Deserializer::from_str(text).into_iter().map(Result::unwrap).collect()
}

#[test]
fn interim_results_are_json_documents() {
    let place = Place::new();
    let run = ["run", "--no-record", "--name=a", "--rw=read", "--ioengine=null", "--size=1g"];
    let long = ["--time_based", "--runtime=2", "--rate_iops=1000", "--eta=never"];
    let status = ["--status-interval=300ms", "--output-format=json"];
    let all = [&run[..], &long, &status].concat();
    let printed = place.ask(&all).done();
    assert_eq!(printed.stderr, "");
    place.ask(&[&all[..], &["--output=file"]].concat()).done();
    for text in [printed.stdout, place.read("file")] {
        let documents = documents(&text);
        assert!((3..=20).contains(&documents.len()), "{}", documents.len());
        let ios = |json: &Value| json["jobs"][0]["read"]["total_ios"].as_u64().unwrap();
        // The last interval may end with the job.
        assert!(documents.windows(2).all(|pair| ios(&pair[0]) <= ios(&pair[1])), "they grow");
        assert!(ios(&documents[0]) < ios(&documents[documents.len() - 1]));
        assert!(ios(&documents[0]) > 50, "a third of a second");
        assert!(documents[0]["jobs"][0]["read"]["lat_ns"]["mean"].as_f64() > Some(0.0));
    }
}

#[test]
fn the_bandwidth_of_all_jobs_is_logged() {
    let place = Place::new();
    let more = ["--runtime=2", "--numjobs=2", "--rate=10m", "--bandwidth-log"];
    place
        .run(
            &[
                &["--name=a", "--rw=read", "--ioengine=null", "--size=1g", "--time_based"],
                &more[..],
            ]
            .concat(),
        )
        .done();
    let read = entries(&place.read("agg-read_bw.log"));
    assert!((2..=5).contains(&read.len()), "{read:?}");
    assert!(read[1].1.abs_diff(20 * 1024) < 2048, "{read:?}");
    let write = entries(&place.read("agg-write_bw.log"));
    assert!(write.len() == read.len() && write.iter().all(|entry| entry.1 == 0), "{write:?}");
    assert!(place.path("agg-trim_bw.log").exists());
}

pub const LOGS: [&str; 9] = [
    "--name=a",
    "--rw=read",
    "--ioengine=null",
    "--size=1g",
    "--time_based",
    "--log_avg_msec=100",
    "--write_bw_log=x",
    "--write_lat_log",
    "--write_iops_log=x",
];

/// Times, values and directions of a log.
fn entries(text: &str) -> Vec<(u64, u64, u64)> {
    let entry = |line: &str| {
        let fields: Vec<u64> = line.split(", ").map(|field| field.parse().unwrap()).collect();
        assert_eq!(fields.len(), 5, "{line}");
        (fields[0], fields[1], fields[2])
    };
    text.lines().map(entry).collect()
}

#[test]
fn logs_have_an_entry_for_each_interval() {
    let place = Place::new();
    place.write("x_bw.1.log", "an older log\n");
    let more = ["--runtime=1", "--write_hist_log=x", "--log_hist_msec=300", "--numjobs=2"];
    place.run(&[&LOGS[..], &more].concat()).done();
    for name in ["x_bw.1", "x_bw.2", "x_iops.1", "a_slat.1", "a_clat.2", "a_lat.1"] {
        let entries = entries(&place.read(&format!("{name}.log")));
        // A busy disk does nothing in some of the ten.
        assert!((1..=12).contains(&entries.len()), "{name}: {entries:?}");
        assert!(entries.windows(2).all(|pair| pair[0].0 < pair[1].0), "{name}: {entries:?}");
        assert!(entries.iter().all(|entry| entry.2 == 0), "{name}: {entries:?}");
    }
    let iops = entries(&place.read("x_iops.1.log"));
    let bw = entries(&place.read("x_bw.1.log"));
    assert!(iops.iter().zip(&bw).all(|(iops, bw)| bw.1.abs_diff(iops.1 * 4) <= 4), "4 KiB each");
    let histogram = place.read("x_clat_hist.1.log");
    assert_eq!(histogram.lines().next().unwrap().split(", ").count(), 3 + 1856);
}

#[test]
fn a_killed_run_keeps_its_log_and_a_target_is_no_log() {
    let place = Place::new();
    let run = ["run", "--no-record", "--eta=never", "--runtime=60"];
    let running = place.start(&[&run[..], &LOGS].concat());
    let until = Instant::now() + Duration::from_secs(20);
    while std::fs::read_to_string(place.path("x_bw.1.log")).unwrap_or_default().lines().count() < 3
    {
        assert!(Instant::now() < until);
        thread::sleep(Duration::from_millis(20));
    }
    running.signal(Signal::KILL);
    running.wait();
    assert!(entries(&place.read("x_bw.1.log")).len() >= 3);
    place.data("x_bw.1.log", 4096);
    let used = ["--name=a", "--rw=read", "--filename=x_bw.1.log", "--write_bw_log=x"];
    place.refuses(&used, &["x_bw.1.log", "which the run uses"]);
}

#[test]
fn a_latency_target_sets_the_queue_depth() {
    let place = Place::new();
    let job = ["--name=a", "--ioengine=null", "--size=1g", "--iodepth=24", "--latency_window=5ms"];
    let with = |more: &[&str]| place.run(&[&job[..], more].concat()).done();
    let json =
        |more: &[&str]| with(&[more, &["--output-format=json"]].concat()).json()["jobs"][0].clone();
    let met = json(&["--latency_target=100s"]);
    let fields = ["depth", "target", "target_ns", "window", "window_us"]
        .map(|field| met[format!("latency_{field}")].as_u64().unwrap());
    assert_eq!(fields, [24, 100_000_000_000, 100_000_000_000, 5000, 5000]);
    assert!(met["read"]["total_ios"].as_u64().unwrap() > 0);
    assert_eq!(met["latency_percentile"], 100.0);
    // No machine copies a mebibyte in a microsecond.
    let missed =
        ["--latency_target=1us", "--ioengine=io_uring", "--rw=write", "--bs=1m", "--size=16m"];
    assert_eq!(json(&missed)["latency_depth"], 1);
    let runs = [
        "--latency_target=100s",
        "--latency_run=1",
        "--number_ios=5000",
        "--latency_percentile=99.9",
    ];
    let run = json(&runs);
    assert_eq!(
        (run["read"]["total_ios"].as_u64(), run["latency_percentile"].as_f64()),
        (Some(5000), Some(99.9))
    );
    let page = |more: &[&str]| with(more).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    says(&page(&missed), &["Latency target missed: all I/Os within 1 µs, at QD 1."]);
    let met = page(&["--latency_target=100s", "--latency_percentile=99"]);
    says(&met, &["Latency target met, 99% of I/Os within 100 s, up to the highest depth: QD 24."]);
}
