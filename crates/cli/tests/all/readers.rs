//! Other programs read what fathom writes. Ignored by default, so that `cargo test` needs nothing but Rust. To run them:
//!
//! ```sh
//! apt-get install fio python3-venv util-linux-extra
//! cargo test -p fathom --test all -- --ignored readers::
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{Place, Running};
use crate::fio::{LOGS, script};
use crate::io_logs::{self, Entry, agrees, entries};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Debian's version expects the four fields that fio's logs had once; fio's newer one takes the first two.
const PARSER: &str = "gunzip -c /usr/share/doc/fio/fiologparser.py.gz | sed \"s/rsplit(', ')$/&[:4]/\" \
                      >parser.py && python3 parser.py";
const FIO_PLOT: &str = "fio-plot==1.1.21";

/// What a job logs of each I/O in fio and in fathom.
#[test]
#[ignore = "needs fio: apt-get install fio"]
fn fio_logs_the_same_ios() {
    let (ours, fios) = (Place::new(), Place::new());
    let job =
        ["--name=a", "--filename=data", "--rw=randread", "--bssplit=4k/50:8k/50", "--size=2m"];
    let more = ["--ioengine=libaio", "--iodepth=4", "--output-format=json", "--randrepeat=1"];
    let args = [&job[..], &io_logs::LOGS, &more].concat();
    let result = ours.run(&args).done().json();
    let answer = Running::start(&mut fios.command("fio", &args)).wait().done();
    let covered = |entries: &[Entry]| {
        assert!(entries.iter().all(|e| e[2] == 0 && [4096, 8192].contains(&e[3]) && e[5] == 0));
        entries.iter().map(|entry| entry[3]).sum::<u64>()
    };
    for kind in ["slat", "clat", "lat", "bw", "iops"] {
        let (our, fio) = (entries(&ours, kind), entries(&fios, kind));
        assert_eq!((covered(&our), covered(&fio)), (2 << 20, 2 << 20), "{kind}");
        if kind.ends_with("lat") {
            agrees(&result, kind, &our);
            agrees(&answer.json(), kind, &fio);
        }
    }
    let shape =
        |line: &str| line.split(", ").map(|field| field.starts_with("0x")).collect::<Vec<_>>();
    let columns = |place: &Place, kind: &str| {
        shape(place.read(&format!("x_{kind}.1.log")).lines().next().unwrap())
    };
    for kind in ["slat", "clat", "lat", "bw", "iops"] {
        assert_eq!(columns(&ours, kind), columns(&fios, kind), "{kind}");
    }
}

/// Before fio 3.41, headers were shorter.
#[test]
#[ignore = "needs fio: apt-get install fio"]
fn what_the_installed_fio_wrote_is_right() {
    let place = Place::new();
    for method in ["md5", "crc64", "crc32", "crc32c", "crc16", "crc7", "sha1", "sha256", "xxhash"] {
        for engine in ["psync", "libaio", "mmap", "io_uring"] {
            let (verify, engine) = (format!("--verify={method}"), format!("--ioengine={engine}"));
            let file = format!("--filename={method}");
            let job = ["--name=a", &file, "--bs=8k", "--size=64k", &engine, &verify];
            let job = [&job[..], &["--verify_interval=4k"]].concat();
            let writes = [&job[..], &["--rw=randwrite"]].concat();
            Running::start(&mut place.command("fio", &writes)).wait().done();
            let page = place.run(&[&job[..], &["--rw=randread"]].concat()).done();
            assert!(page.stdout.contains("16 blocks (64 KiB), all right"), "{}", page.stdout);
        }
    }
}

/// The directory of fio-plot's programs, which several tests use: the first installs them.
fn fio_plot(place: &Place) -> String {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let bin = Path::new(env!("CARGO_TARGET_TMPDIR")).join(FIO_PLOT).join("bin");
    if !bin.join("fio-plot").exists() {
        let venv = bin.parent().unwrap().to_str().unwrap();
        script(
            place,
            &format!("python3 -m venv {venv} && {venv}/bin/pip --quiet install {FIO_PLOT}"),
        )
        .done();
    }
    bin.to_str().unwrap().to_string()
}

/// bench-fio takes a line on standard error for a failure.
#[test]
#[ignore = "fetches fio-plot from PyPI: apt-get install python3-venv"]
fn bench_fio_runs_its_jobs_and_fio_plot_draws_the_results() {
    let place = Place::new();
    let bin = fio_plot(&place);
    let text = format!(
        "mkdir target
         export PYTHONIOENCODING=utf-8
         {bin}/bench-fio --target target --type directory --size 2M --runtime 1 --destructive --quiet \
             --mode randread randwrite --iodepth 1 8 --numjobs 1 2 --output results >&2
         {bin}/fio-plot -i results/target/4k -o picture.png -l -r randread -f read -d 1 8 -n 1 -T fathom"
    );
    script(&place, &text).done();
    let results = std::fs::read_dir(place.path("results/target/4k")).unwrap();
    let names = results.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.ends_with(".json")).count(), 8);
    assert!(std::fs::metadata(place.path("picture.png")).unwrap().len() > 10_000);
}

#[test]
#[ignore = "fetches fio-plot from PyPI: apt-get install python3-venv"]
fn fio_plot_draws_the_logs() {
    let place = Place::new();
    let bin = fio_plot(&place);
    // It finds logs by their names.
    let name = "randread-iodepth-4-numjobs-1";
    let job = "--name=a --rw=randread --ioengine=null --iodepth=4 --size=1g --time_based --runtime=1 --rate_iops=2000";
    let text = format!(
        "fio --eta=never {job} --write_lat_log={name} --write_iops_log={name} --write_bw_log={name} >&2
         {bin}/fio-plot -i . -o picture.png -g -r randread -f read -t lat iops bw -d 4 -n 1 -T fathom"
    );
    script(&place, &text).done();
    assert!(std::fs::metadata(place.path("picture.png")).unwrap().len() > 10_000);
}

/// The same programs, and the logs of single I/Os.
#[test]
#[ignore = "needs fio: apt-get install fio"]
fn fio_s_own_tools_read_entries_of_single_ios() {
    let place = Place::new();
    let job =
        "--name=a --rw=read --ioengine=null --size=1g --time_based --runtime=2 --rate_iops=1000";
    script(&place, &format!("fio --eta=never {job} --write_lat_log=x")).done();
    let read = |text: &str| script(&place, text).done().stdout;
    let averages = read(&format!("{PARSER} -i 500 -a x_clat.1.log"));
    let values =
        averages.lines().map(|line| line.split_once(", ").unwrap().1.parse::<f64>().unwrap());
    let text = place.read("x_clat.1.log");
    let latencies =
        text.lines().map(|line| line.split(", ").nth(1).unwrap().parse::<f64>().unwrap());
    let max = latencies.fold(0.0, f64::max);
    let values: Vec<f64> = values.collect();
    assert!(values.len() >= 3 && values.iter().all(|value| *value <= max), "{averages}");
}

/// The programs that Debian's package of fio has for its logs.
#[test]
#[ignore = "needs fio: apt-get install fio"]
fn fio_s_own_tools_read_the_logs() {
    let place = Place::new();
    let more = ["--runtime=2", "--rate_iops=1000", "--numjobs=2"];
    place.run(&[&LOGS[..], &more].concat()).done();
    let read = |text: &str| script(&place, text).done().stdout;
    for averages in [
        read(&format!("{PARSER} -i 500 -a x_bw.1.log")),
        read(&format!("{PARSER} -i 500 -a x_bw.2.log")),
    ] {
        let lines: Vec<(&str, &str)> =
            averages.lines().map(|line| line.split_once(", ").unwrap()).collect();
        assert!(lines.len() >= 3, "{averages}");
        // 1000 I/Os of 4 KiB a second.
        for (_, value) in &lines[..3] {
            assert!((3600.0..4400.0).contains(&value.parse::<f64>().unwrap()), "{averages}");
        }
    }
    let averages = read("fio2gnuplot -i -p '*_iops*.log' >&2 && cat _iops.average");
    let values = averages.lines().skip(1).map(|line| line.split(' ').next_back().unwrap());
    let values: Vec<f64> = values.filter_map(|value| value.parse().ok()).collect();
    assert!(
        values.len() == 2 && values.iter().all(|iops| (900.0..1100.0).contains(iops)),
        "{averages}"
    );
}

#[test]
#[ignore = "needs fincore: apt-get install util-linux-extra"]
fn the_page_cache_is_dropped_for_what_the_job_uses_only() {
    let place = Place::new();
    // Page by page: the cache has no larger units then, which are dropped as a whole or not at all.
    script(&place, "dd if=/dev/zero of=data bs=4k count=1024").done();
    let cached = || {
        let pages = script(&place, "sync data; fincore -bno PAGES data").done().stdout;
        pages.trim().parse::<u32>().unwrap()
    };
    let before = cached();
    assert!(before > 1000, "{before}");
    let keys = ["--name=a", "--filename=data", "--rw=randread", "--offset=1m", "--size=1m"];
    place.run(&[&keys[..], &["--ioengine=psync", "--io_size=4k"]].concat()).done();
    // All but the region, of which one page was read again; the kernel may reclaim others at any time.
    let after = cached();
    assert!((before - 280..=769).contains(&after), "{before} pages, then {after}");
}
