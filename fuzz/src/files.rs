//! What must hold for any contents of the files that fathom reads: run directories and procfs.

use fathom_model::RunRecord;
use fathom_store::{Reader, StoredRecord};
use fathom_watch::cpus::CpuSampler;
use fathom_watch::disks::DiskSampler;
use fathom_watch::system::SystemSampler;
use fathom_watch::threads::{ThreadOptions, ThreadSampler};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The files of a run directory, separated by NUL.
const RUN: [&str; 3] = ["record.json", "samples.ndjson", "stacks.ndjson"];
/// The files of a procfs with one thread, separated by NUL.
const PROC: [&str; 15] = [
    "stat",
    "diskstats",
    "interrupts",
    "softirqs",
    "meminfo",
    "vmstat",
    "pressure/cpu",
    "pressure/memory",
    "pressure/io",
    "self/cgroup",
    "10/task/10/stat",
    "10/task/10/schedstat",
    "10/task/10/syscall",
    "10/task/10/wchan",
    "10/cmdline",
];

/// A directory in memory with `files`, whose contents are in `bytes`.
fn tree(files: &[&str], bytes: &[u8]) -> TempDir {
    let tree = tempfile::tempdir_in("/dev/shm").expect("/dev/shm is writable");
    for (name, contents) in files.iter().zip(bytes.split(|byte| *byte == 0)) {
        let path = tree.path().join(name);
        fs::create_dir_all(path.parent().expect("names are relative")).expect("directories");
        fs::write(path, contents).expect("files");
    }
    tree
}

/// A run directory: a record that is read is written and read back unchanged, and a cursor visits
/// the same samples in both directions.
pub fn run_dir(bytes: &[u8]) {
    let tree = tree(&RUN, bytes);
    if let Ok(stored) = StoredRecord::open(tree.path())
        && let Ok(record) = stored.parse::<RunRecord>()
    {
        let text = serde_json::to_string(&record).expect("a record is written");
        let again: RunRecord = serde_json::from_str(&text).expect("a written record is read");
        assert_eq!(serde_json::to_string(&again).expect("a record is written"), text);
    }
    let Ok(mut reader) = Reader::open(tree.path()) else { return };
    let mut forward = Vec::new();
    while let Ok(Some(sample)) = reader.forward() {
        forward.push(sample.unix_ns);
    }
    let _ = (reader.span(), reader.stacks().map(<[_]>::len));
    for unix_ns in &forward {
        let _ = reader.seek(*unix_ns);
        let _ = reader.back();
    }
}

/// A procfs: samplers read it or report an error.
pub fn proc(bytes: &[u8]) {
    let tree = tree(&PROC, bytes);
    let (proc, sys) = (tree.path(), Path::new("/nonexistent"));
    let _ = DiskSampler::open(proc, sys).map(|mut sampler| sampler.read());
    let _ = SystemSampler::open(proc, sys, None).map(|mut sampler| sampler.read());
    let _ = CpuSampler::new(proc, &[0, 1]).snapshot();
    let options = ThreadOptions { proc_root: proc.into(), urgent: false, one_by_one: true, ..ThreadOptions::default() };
    // Opening takes a sample.
    let _ = ThreadSampler::open(options);
}
