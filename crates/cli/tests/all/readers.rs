//! Other programs read what fathom writes. Ignored by default, so that `cargo test` needs nothing but Rust. To run them:
//!
//! ```sh
//! apt-get install fio util-linux-extra
//! cargo test -p fathom --test all -- --ignored readers::
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::Place;
use crate::fio::{LOGS, script};

/// The programs that Debian's package of fio has for its logs.
#[test]
#[ignore = "needs fio: apt-get install fio"]
fn fio_s_own_tools_read_the_logs() {
    let place = Place::new();
    let more = ["--runtime=2", "--rate_iops=1000", "--numjobs=2"];
    place.run(&[&LOGS[..], &more].concat()).done();
    let read = |text: &str| script(&place, text).done().stdout;
    // Debian's version expects the four fields that fio's logs had once; fio's newer one takes the first two.
    let parser = "gunzip -c /usr/share/doc/fio/fiologparser.py.gz | sed \"s/rsplit(', ')$/&[:4]/\" \
                  >parser.py && python3 parser.py -i 500";
    for averages in
        [read(&format!("{parser} -a x_bw.1.log")), read(&format!("{parser} -a x_bw.2.log"))]
    {
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
    let cached = || script(&place, "sync data; fincore -bno PAGES data").done().stdout;
    assert_eq!(cached().trim(), "1024");
    let keys = ["--name=a", "--filename=data", "--rw=randread", "--offset=1m", "--size=1m"];
    place.run(&[&keys[..], &["--ioengine=psync", "--io_size=4k"]].concat()).done();
    assert_eq!(cached().trim(), "769", "all but the region, of which one page was read again");
}
