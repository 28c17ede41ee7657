//! What must hold for any contents of the files that fathom reads: run directories, procfs and sysfs, and what is on
//! a device. Shared by the fuzzers and by a test that derives inputs from their corpus.

use fathom_analysis::rules::judge;
use fathom_analysis::watch::Observed;
use fathom_machine::guard::{self, Permissions};
use fathom_machine::{Lookup, Roots, device, host, signature};
use fathom_model::outcome::RecordKind;
use fathom_model::plan::{Fallocate, Target};
use fathom_model::{Plan, Record};
use fathom_report::pages;
use fathom_report::render::{self, Style};
use fathom_store::{Reader, read_record};
use fathom_watch::cpus::CpuSampler;
use fathom_watch::disks::DiskSampler;
use fathom_watch::system::SystemSampler;
use fathom_watch::threads::{ThreadOptions, ThreadSampler};
use fathom_watch::{ProcessSampler, Sampler, Scope};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

/// The files of a run directory, separated by NUL.
const RUN: [&str; 3] = ["record.json", "samples.ndjson", "stacks.ndjson"];
/// The files of a procfs with one thread, separated by NUL.
const PROC: [&str; 19] = [
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
    "self/mountinfo",
    "10/stat",
    "10/io",
    "10/schedstat",
];
/// The files of a sysfs with a cgroup, separated by NUL after those of procfs.
const CGROUP: [&str; 6] = [
    "fs/cgroup/cpu.max",
    "fs/cgroup/cpu.stat",
    "fs/cgroup/io.max",
    "fs/cgroup/memory.max",
    "fs/cgroup/memory.current",
    "fs/cgroup/memory.events",
];
/// The files of a machine with a disk, a partition and three devices with a backing store, separated by NUL.
const MACHINE: [&str; 31] = [
    "proc/self/mountinfo",
    "proc/swaps",
    "proc/filesystems",
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/self/cgroup",
    "proc/10/comm",
    "proc/10/fdinfo/3",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/perf_event_paranoid",
    "sys/block/sda/dev",
    "sys/block/sda/size",
    "sys/block/sda/ro",
    "sys/block/sda/device/model",
    "sys/block/sda/queue/rotational",
    "sys/block/sda/queue/logical_block_size",
    "sys/block/sda/queue/scheduler",
    "sys/block/sda/queue/nr_requests",
    "sys/block/sda/queue/max_sectors_kb",
    "sys/block/sda/sda1/dev",
    "sys/block/sda/sda1/partition",
    "sys/block/sda/sda1/start",
    "sys/block/sda/sda1/size",
    "sys/block/loop0/dev",
    "sys/block/loop0/size",
    "sys/block/loop0/loop/backing_file",
    "sys/block/loop0/loop/sizelimit",
    "sys/block/zram0/dev",
    "sys/block/zram0/backing_dev",
    "sys/block/nbd0/dev",
    "sys/block/nbd0/pid",
];

/// Fills `root` with `files`, whose contents are in `bytes`; gives the rest.
fn fill<'a>(root: &Path, files: &[&str], bytes: &'a [u8]) -> &'a [u8] {
    let mut rest = bytes;
    for name in files {
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("names are relative")).expect("directories");
        fs::write(path, &rest[..end]).expect("files");
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    rest
}

/// A directory in memory.
fn tree() -> TempDir {
    tempfile::tempdir_in("/dev/shm").expect("/dev/shm is writable")
}

/// A run directory: a record that is read is written and read back unchanged, a cursor visits the same samples in
/// both directions, and the record can be printed.
pub fn run_dir(bytes: &[u8]) {
    let tree = tree();
    fill(tree.path(), &RUN, bytes);
    let record = read_record(tree.path());
    if let Ok(record) = &record {
        let text = serde_json::to_string(record).expect("a record is written");
        let again = match record {
            Record::Run(_) => serde_json::from_str(&text).map(Record::Run),
            Record::Limit(_) => serde_json::from_str(&text).map(Record::Limit),
            Record::Experiment(_) => serde_json::from_str(&text).map(Record::Experiment),
        };
        let again = again.expect("a written record is read");
        assert_eq!(serde_json::to_string(&again).expect("a record is written"), text);
    }
    let Ok(mut reader) = Reader::open(tree.path()) else { return };
    let mut forward = Vec::new();
    let mut observed = Observed::default();
    while let Ok(Some(timed)) = reader.forward() {
        forward.push(timed.unix_ns);
        observed.add(&timed.sample);
    }
    let _ = reader.span();
    observed.known_stacks = reader.stacks().map(<[_]>::to_vec).unwrap_or_default();
    for unix_ns in &forward {
        let _ = reader.seek(*unix_ns);
        let _ = reader.back();
    }
    if let Ok(record) = record {
        print(record, &observed);
    }
}

/// Judges a record and prints it in every form.
fn print(record: Record, observed: &Observed) {
    let page = match record {
        Record::Limit(record) => pages::limit(&record, true),
        Record::Experiment(record) => pages::experiment(&record, true),
        Record::Run(mut record) => {
            record.header.findings = judge(&record, observed);
            match record.header.kind {
                RecordKind::Watch => pages::watch(observed, &record, true),
                _ => pages::run(&record, Some(observed), true),
            }
        }
    };
    let _ = (render::text(&page, Style::default()), render::markdown(&page));
}

/// A procfs and the cgroups of a sysfs: samplers read them or report an error.
pub fn proc(bytes: &[u8]) {
    let tree = tree();
    let (proc, sys) = (&tree.path().join("proc"), &tree.path().join("sys"));
    let rest = fill(proc, &PROC, bytes);
    fill(sys, &CGROUP, rest);
    let _ = DiskSampler::open(proc, sys).map(|mut sampler| sampler.read());
    let _ = SystemSampler::open(proc, sys, None).map(|mut sampler| sampler.read());
    let _ = CpuSampler::new(proc, &[0, 1]).snapshot();
    let _ = ProcessSampler::open(proc, Scope::Machine).map(|mut sampler| sampler.sample());
    let options = ThreadOptions {
        proc_root: proc.into(),
        urgent: false,
        one_by_one: true,
        ..ThreadOptions::default()
    };
    // Opening takes a sample.
    let _ = ThreadSampler::open(options);
}

/// A machine: its facts are read, and the guard decides on a file of it.
pub fn machine(bytes: &[u8]) {
    let tree = tree();
    let at = |name: &str| tree.path().join(name);
    fill(tree.path(), &MACHINE, bytes);
    fs::create_dir_all(at("proc/self/ns")).expect("directories");
    symlink("mnt:[1]", at("proc/self/ns/mnt")).expect("links");
    fs::create_dir_all(at("sys/dev/block")).expect("directories");
    for (number, dir) in [("8:0", "sda"), ("8:1", "sda/sda1"), ("7:0", "loop0")] {
        let to = at("sys/block").join(dir);
        symlink(to, at("sys/dev/block").join(number)).expect("links");
    }
    fs::write(at("data"), [0; 4096]).expect("files");
    let roots = Roots { proc: at("proc"), sys: at("sys") };
    let _ = (host(&roots), device::disks(&roots), device::device(&roots, (8, 1)));
    let path = at("data").to_str().expect("UTF-8").to_string();
    let _ = Lookup::new(&roots).target(&path);
    let permitted = Permissions { overwrite: vec![path.clone()], ..Permissions::default() };
    let plan = Plan { targets: vec![written(path)], ..Plan::default() };
    let _ = guard::open_all(&roots, &plan, &permitted, &|| false);
}

/// An existing file that is to be written.
fn written(path: String) -> Target {
    Target {
        path,
        within: None,
        create_size: None,
        fallocate: Fallocate::None,
        fill: false,
        create_on_open: false,
        unlink: false,
        invalidate: false,
        written: true,
        trimmed: false,
    }
}

/// What is on a device: names of file systems and partition tables, or nothing.
pub fn signatures(bytes: &[u8]) {
    let mut file = tempfile::tempfile_in("/dev/shm").expect("/dev/shm is writable");
    std::io::Write::write_all(&mut file, bytes).expect("memory");
    for block in [512, 4096] {
        let _ = signature::find(&file, bytes.len() as u64, block);
    }
}
