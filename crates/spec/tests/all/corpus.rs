//! The fuzzers' checks on any input, on their corpus and on inputs derived from it.

#[path = "../../../../fuzz/src/jobs.rs"]
mod check;
#[path = "../../../../fuzz/src/driver.rs"]
mod driver;

use driver::fuzz;

#[test]
fn job_files() {
    fuzz("job_file", 5000, check::job_file);
}

#[test]
fn experiments() {
    fuzz("experiment", 2000, check::experiment);
}

#[test]
fn command_lines() {
    fuzz("command_line", 5000, check::command_line);
}

#[test]
fn traces() {
    fuzz("trace", 2000, check::trace);
}
