//! Reading any file ends without a panic: the fuzzers' checks, on their corpus
//! and on inputs derived from it.

#[path = "../../../../fuzz/src/driver.rs"]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
mod driver;
#[path = "../../../../fuzz/src/files.rs"]
#[allow(clippy::expect_used, reason = "a test fails by panicking")]
mod files;

use driver::fuzz;

#[test]
fn run_directories() {
    fuzz("run_dir", 400, files::run_dir);
}

#[test]
fn procfs_and_cgroups() {
    fuzz("proc", 400, files::proc);
}

#[test]
fn machines() {
    fuzz("machine", 300, files::machine);
}

#[test]
fn signatures() {
    fuzz("signature", 1000, files::signatures);
}
