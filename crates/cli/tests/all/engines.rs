//! Engines beside io_uring and the plain calls, as a user sees them: which data they touch, and what is reported.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{MIB, Place, checksum, says};
use std::fs;

const OTHERS: [&str; 4] = ["vsync", "mmap", "splice", "posixaio"];

fn engine(name: &str) -> String {
    format!("--ioengine={name}")
}

#[test]
fn no_engine_writes_files_of_others() {
    let place = Place::new();
    place.data("data", MIB);
    let before = checksum(place.path("data"));
    for name in OTHERS {
        for rw in ["write", "randrw", "trim"] {
            place.refuses(&[&engine(name), &format!("--rw={rw}"), "data"], &["--overwrite=data"]);
        }
        place.run(&[&engine(name), "--rw=read", "--bs=64k", "data"]).done();
        assert_eq!(checksum(place.path("data")), before, "{name}");
        let args =
            [&engine(name), "--rw=write", "--bs=64k", "--end_fsync=1", "--overwrite=data", "data"];
        place.run(&args).done();
        assert_eq!(fs::metadata(place.path("data")).unwrap().len(), MIB as u64, "{name}");
        assert_ne!(checksum(place.path("data")), before, "{name}");
        place.data("data", MIB);
    }
}

#[test]
fn a_mapping_that_is_to_be_direct_is_reported() {
    let place = Place::new();
    place.data("data", MIB);
    let answer = place.run(&["--ioengine=mmap", "--rw=read", "--direct=1", "data"]);
    says(&answer.done().stdout, &["requested direct I/O, but used the page cache", "mmap"]);
    let answer = place.run(&["--ioengine=posixaio", "--rw=read", "--iodepth=8", "data"]).done();
    says(&(answer.stdout + &answer.stderr), &["one at a time"]);
}
