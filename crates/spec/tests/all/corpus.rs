//! The fuzzers' corpus, through the same checks, without a fuzzer.

use std::path::Path;

#[path = "../../../../fuzz/src/jobs.rs"]
mod check;

fn each(folder: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(folder);
    let mut files = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        check(&std::fs::read(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files >= 10, "{} holds {files} files", folder.display());
}

#[test]
fn job_files() {
    each("job_file", check::job_file);
}

#[test]
fn experiments() {
    each("experiment", check::experiment);
}

#[test]
fn command_lines() {
    each("command_line", check::command_line);
}
