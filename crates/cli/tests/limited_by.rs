//! "Limited by:" of `fathom watch -- fio` and `fathom run`, on bottlenecks created on purpose. As root only: most need a cgroup or a
//! device.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{FATHOM, Loop, MIB, Place, Running, Tmpfs, Zram, as_root, says, tool};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A cgroup of version 1 with one limit.
struct Cgroup(PathBuf);

impl Cgroup {
    /// `None` where there is no such hierarchy.
    fn new(controller: &str, file: &str, limit: &str) -> Option<Self> {
        let name = format!("fathom-test-{}", std::process::id());
        let dir = Path::new("/sys/fs/cgroup").join(controller).join(name);
        if let Err(error) = fs::create_dir(&dir) {
            println!("skipped: {}: {error}", dir.display());
            return None;
        }
        let this = Self(dir);
        fs::write(this.0.join(file), limit).unwrap();
        Some(this)
    }

    /// What a shell does first to be in it.
    fn enter(&self) -> String {
        format!("echo $$ >{}/cgroup.procs; ", self.0.display())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A workload whose limiter is to be named.
#[derive(Clone, Copy)]
enum Load<'a> {
    /// These options, by fio under `fathom watch`.
    Fio(&'a [&'a str]),
    /// The same by `fathom run`, which reports on itself.
    Run(&'a [&'a str]),
    /// A program under `fathom watch`.
    Program(&'a [&'a str]),
}

/// Two seconds of reads that nothing but a test's own options limits.
const READS: [&str; 5] = ["--name=a", "--rw=randread", "--bs=4k", "--time_based", "--runtime=2"];
const WATCH: [&str; 6] = [FATHOM, "watch", "--no-record", "-i", "500ms", "--"];

/// The block of a load, after the shell ran `first`.
fn limited_by(place: &Place, first: &str, load: Load<'_>) -> String {
    let script = format!("{first}exec \"$@\"");
    let shell = ["sh", "-c", &script, "sh"];
    let command: Vec<&str> = match load {
        Load::Fio(options) => {
            // fio writes to any device that it is given.
            let options = options.iter().filter(|option| !option.starts_with("--erase="));
            let fio = [&WATCH[..], &shell, &["fio", "--output=fio.log"], &READS].concat();
            fio.into_iter().chain(options.copied()).collect()
        }
        Load::Run(options) => {
            let run = [FATHOM, "run", "--no-record", "--eta=never"];
            [&shell[..], &run, &READS, options].concat()
        }
        Load::Program(program) => [&WATCH[..], &shell, program].concat(),
    };
    let answer = Running::start(&mut place.command(command[0], &command[1..])).wait();
    let all = [answer.stdout, answer.stderr].concat().replace("\n      ", " ");
    let (_, block) = all.split_once("Limited by:").unwrap_or_else(|| panic!("no block: {all}"));
    block.to_string()
}

/// Whether a block is inconclusive, or names other programs that use the CPUs: on a busy machine that is correct.
fn tells_nothing(block: &str) -> bool {
    let busy = ["inconclusive", " CPUs, ", " CPUs were "];
    busy.iter().any(|words| block.lines().nth(1).is_some_and(|first| first.contains(words)))
}

/// Checks that one of three blocks names a cause in these words: what else the machine does in these seconds may
/// weigh more.
fn names(place: &Place, first: &str, load: Load<'_>, words: &[&str]) {
    let mut block = String::new();
    for _ in 0..3 {
        block = limited_by(place, first, load);
        if words.iter().all(|words| block.contains(words)) {
            return;
        }
        println!("repeated, because it reports:{block}");
    }
    if tells_nothing(&block) {
        println!("skipped: other programs use this machine's CPUs");
        return;
    }
    says(&block, words);
}

/// The loads with these options.
fn loads<'a>(options: &'a [&'a str]) -> Vec<Load<'a>> {
    let mut loads = vec![Load::Run(options)];
    if Command::new("fio").arg("--version").output().is_ok() {
        loads.push(Load::Fio(options));
    } else {
        println!("skipped: no fio to watch");
    }
    loads
}

/// Checks that fio and `run` are limited by what these words say.
fn both_name(place: &Place, first: &str, options: &[&str], words: &[&str]) {
    loads(options).into_iter().for_each(|load| names(place, first, load, words));
}

/// Checks that for neither these words are used.
fn neither_names(place: &Place, first: &str, options: &[&str], words: &[&str]) {
    for load in loads(options) {
        let block = limited_by(place, first, load);
        assert!(!words.iter().any(|words| block.contains(words)), "{block}");
    }
}

/// Direct reads of a file, one at a time and sixteen.
const ONE: [&str; 4] = ["--filename=data", "--size=64m", "--direct=1", "--ioengine=psync"];
const SIXTEEN: [&str; 5] =
    ["--filename=data", "--size=64m", "--direct=1", "--ioengine=io_uring", "--iodepth=16"];
/// No I/O at all.
const NONE: [&str; 2] = ["--ioengine=null", "--size=1g"];

/// A file that was written to its end.
fn place_with_data() -> Place {
    let place = Place::new();
    place.data("data", 64 * MIB);
    fs::File::open(place.path("data")).unwrap().sync_all().unwrap();
    place
}

/// `major:minor` of the disk that holds the place; `None` if it is not on a disk.
fn disk_of(place: &Place) -> Option<String> {
    let dev = fs::metadata(place.path("data")).unwrap().dev();
    let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
    let dir = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let disk = if dir.join("partition").exists() { dir.parent()?.to_path_buf() } else { dir };
    Some(fs::read_to_string(disk.join("dev")).ok()?.trim().to_string())
}

fn has_python() -> bool {
    let has = Command::new("python3").arg("-V").output().is_ok();
    if !has {
        println!("skipped: no python3");
    }
    has
}

#[test]
fn an_io_limit_and_one_that_is_not_reached() {
    let Some(_alone) = as_root("cgroups") else { return };
    let place = place_with_data();
    let Some(disk) = disk_of(&place) else { return };
    let file = "blkio.throttle.read_iops_device";
    let Some(cgroup) = Cgroup::new("blkio", file, &format!("{disk} 1000")) else { return };
    let words = ["allows 1,000 reads/s on ", "(blkio.throttle.read_iops_device)"];
    both_name(&place, &cgroup.enter(), &SIXTEEN, &words);
    fs::write(cgroup.0.join(file), format!("{disk} 90000000")).unwrap();
    neither_names(&place, &cgroup.enter(), &SIXTEEN, &["allows"]);
}

#[test]
fn a_cpu_quota() {
    let Some(_alone) = as_root("cgroups") else { return };
    let place = Place::new();
    let Some(cgroup) = Cgroup::new("cpu", "cpu.cfs_quota_us", "20000") else { return };
    let words = ["is limited to 0.20 CPUs; it was throttled for"];
    both_name(&place, &cgroup.enter(), &NONE, &words);
    fs::write(cgroup.0.join("cpu.cfs_quota_us"), "400000").unwrap();
    neither_names(&place, &cgroup.enter(), &NONE, &["throttled"]);
}

#[test]
fn a_memory_limit() {
    let Some(_alone) = as_root("cgroups") else { return };
    let place = place_with_data();
    let Some(cgroup) = Cgroup::new("memory", "memory.limit_in_bytes", "24M") else { return };
    // The pages written here are another cgroup's; those dropped between passes would never be needed again.
    let data = format!("of={}", place.path("data").display());
    tool("dd", &[&data, "oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"]);
    let load = ["--filename=data", "--size=64m", "--ioengine=psync", "--invalidate=0"];
    both_name(&place, &cgroup.enter(), &load, &["The cgroup is limited to 24 MiB of memory"]);
}

#[test]
fn other_programs_on_all_cpus() {
    let Some(_alone) = as_root("a busy machine") else { return };
    let place = Place::new();
    let cpus = std::thread::available_parallelism().unwrap().get();
    let spin = ["-c", "while :; do :; done"];
    let _others: Vec<Running> =
        (0..2 * cpus).map(|_| Running::start(&mut place.command("sh", &spin))).collect();
    let used = format!("sh ({} processes) used", 2 * cpus);
    both_name(&place, "", &NONE, &[&used, "waited for a CPU"]);
}

#[test]
fn other_programs_on_the_disk() {
    let Some(_alone) = as_root("an idle disk") else { return };
    let place = place_with_data();
    if disk_of(&place).is_none() {
        return;
    }
    place.data("other", 64 * MIB);
    let hog =
        ["run", "--no-record", "--name=hog", "--filename=other", "--rw=randread", "--bs=256k"];
    let hog = [&hog[..], &["--direct=1", "--iodepth=8", "--time_based", "--runtime=60"]].concat();
    let _hog = place.start(&hog);
    both_name(&place, "", &ONE, &["% of the bytes on the disks; fathom (pid "]);
}

/// A device to swap to.
struct Swap(Zram);

impl Swap {
    fn new() -> Option<Self> {
        let zram = Zram::new("256M").map_err(|error| println!("skipped: {error}")).ok()?;
        let swap = Self(zram);
        let run = |tool: &str| {
            let done = Command::new(tool).arg(swap.0.device()).output();
            done.is_ok_and(|output| output.status.success())
        };
        (run("mkswap") && run("swapon")).then_some(swap)
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(self.0.device()).output();
    }
}

#[test]
fn memory_that_is_swapped() {
    let Some(_alone) = as_root("swap on zram") else { return };
    if !has_python() {
        return;
    }
    let place = Place::new();
    let Some(cgroup) = Cgroup::new("memory", "memory.limit_in_bytes", "48M") else { return };
    let Some(_swap) = Swap::new() else {
        println!("skipped: no swap on zram");
        return;
    };
    // Its buffer does not fit, and it touches each page again and again; their contents cannot be compressed.
    let touch = "import os, time\n\
        pages = os.urandom(96 << 20)\nend = time.time() + 3\n\
        while time.time() < end: pages[::4096]";
    let words = ["Memory ran short", "read from swap on zram"];
    names(&place, &cgroup.enter(), Load::Program(&["python3", "-c", touch]), &words);
}

#[test]
fn syncs_and_their_journal() {
    let Some(_alone) = as_root("an idle disk") else { return };
    let place = place_with_data();
    if disk_of(&place).is_none() {
        return;
    }
    // Large writes, so that most of the time is the disk's and not the CPU's.
    let load = ["--filename=own", "--size=64m", "--rw=randwrite", "--bs=256k", "--fsync=1"];
    let load = [&load[..], &["--ioengine=psync"]].concat();
    both_name(&place, "", &load, &["waited for fsync and the journal"]);
}

#[test]
fn one_read_at_a_time_and_sixteen() {
    let Some(_alone) = as_root("an idle disk") else { return };
    let place = place_with_data();
    if disk_of(&place).is_none() {
        return;
    }
    let words = ["issued one read at a time", "Latency, not throughput"];
    both_name(&place, "", &ONE, &words);
    neither_names(&place, "", &SIXTEEN, &["one read at a time"]);
}

#[test]
fn a_lock_that_threads_share() {
    let Some(_alone) = as_root("a busy machine") else { return };
    if !has_python() {
        return;
    }
    // Python's own lock lets one of its threads run at a time.
    let threads = "import threading, time\n\
        def work(end):\n  while time.time() < end: sum(range(1000))\n\
        all = [threading.Thread(target=work, args=(time.time() + 2,)) for _ in range(8)]\n\
        [t.start() for t in all]; [t.join() for t in all]";
    let words = ["Threads of python", "waited for each other", "futex(2)"];
    names(&Place::new(), "", Load::Program(&["python3", "-c", threads]), &words);
}

#[test]
fn a_lock_of_the_file() {
    let Some(_alone) = as_root("an idle disk") else { return };
    let place = Place::new();
    // In memory, so that the writers wait for nothing else.
    let _tmpfs = Tmpfs::new(&place, "memory", 80);
    let load = ["--rw=write", "--bs=1m", "--size=8m", "--ioengine=psync", "--numjobs=8"];
    let load = [&load[..], &["--directory=memory", "--group_reporting"]].concat();
    let same = [&load[..], &["--filename=same"]].concat();
    both_name(&place, "", &same, &["waited for a kernel lock", "Use one file per job"]);
    neither_names(&place, "", &load, &["kernel lock"]);
}

#[test]
fn worker_threads_of_io_uring() {
    let Some(_alone) = as_root("an idle disk") else { return };
    let place = place_with_data();
    if disk_of(&place).is_none() {
        return;
    }
    let load = ["--filename=own", "--size=64m", "--rw=write", "--bs=64k", "--iodepth=16"];
    let load = [&load[..], &["--ioengine=io_uring"]].concat();
    both_name(&place, "", &load, &["worker threads (io-wq)"]);
}

#[test]
fn few_requests_and_a_scheduler() {
    let Some(_alone) = as_root("a loop device") else { return };
    let place = place_with_data();
    let device = Loop::on(&place.path("data"));
    let queue = device.queue();
    let filename = format!("--filename={}", device.0);
    let load = [&filename, "--direct=1", "--iodepth=64", "--ioengine=io_uring"];
    let set = |file: &str, value: &str| fs::write(queue.join(file), value).unwrap();
    set("scheduler", "none");
    let waits = "has 4 requests per hardware queue (nr_requests";
    set("nr_requests", "4");
    both_name(&place, "", &load, &[waits]);
    set("nr_requests", "128");
    neither_names(&place, "", &load, &[waits, "I/O scheduler"]);
    let schedulers = fs::read_to_string(queue.join("scheduler")).unwrap();
    if schedulers.contains("bfq") {
        set("scheduler", "bfq");
        let load = [&load[..], &["--numjobs=2", "--runtime=4"]].concat();
        both_name(&place, "", &load, &["The I/O scheduler bfq of"]);
    }
}

#[test]
fn a_machine_whose_cpus_are_busy() {
    let Some(_alone) = as_root("a busy machine") else { return };
    let place = Place::new();
    let cpus = std::thread::available_parallelism().unwrap().get();
    let spin = ["-c", "while :; do :; done"];
    let _others: Vec<Running> =
        (0..2 * cpus).map(|_| Running::start(&mut place.command("sh", &spin))).collect();
    let answer = place.ask(&["watch", "--no-record", "-i", "500ms", "-t", "2"]);
    says(&answer.stdout, &["CPUs were ", "% busy; sh ("]);
    assert!(!answer.stdout.contains("I/O scheduler"), "{}", answer.stdout);
}

#[test]
fn a_command_is_not_stopped_before_it_begins() {
    let answer = Place::new().ask(&["watch", "--no-record", "-i", "500ms", "--", "sleep", "1"]);
    assert!(!answer.stderr.contains(" stopped"), "{}", answer.stderr);
}

#[test]
fn what_never_reaches_a_disk() {
    let Some(_alone) = as_root("tmpfs") else { return };
    let place = place_with_data();
    let psync = |file: &str, words: &str| {
        let file = format!("--filename={file}");
        let load = [&file, "--size=64m", "--ioengine=psync", "--invalidate=0"];
        both_name(&place, "", &load, &[words]);
    };
    fs::read(place.path("data")).unwrap();
    psync("data", "from the page cache");
    fs::File::create(place.path("sparse")).unwrap().set_len(64 * MIB as u64).unwrap();
    psync("sparse", "sparse is sparse");
    let _tmpfs = Tmpfs::new(&place, "memory", 80);
    place.data("memory/file", 64 * MIB);
    psync("memory/file", "tmpfs");
}

#[test]
fn requests_that_are_split() {
    let Some(_alone) = as_root("a loop device") else { return };
    let place = place_with_data();
    let device = Loop::on(&place.path("data"));
    let queue = device.queue();
    let filename = format!("--filename={}", device.0);
    let load = [&filename, "--direct=1", "--bs=1m", "--iodepth=4", "--ioengine=io_uring"];
    fs::write(queue.join("max_sectors_kb"), "64").unwrap();
    both_name(&place, "", &load, &["were split at 64 KiB by max_sectors_kb"]);
    fs::write(queue.join("max_sectors_kb"), "1024").unwrap();
    neither_names(&place, "", &load, &["max_sectors_kb"]);
}

#[test]
fn writeback_that_is_throttled() {
    let Some(_alone) = as_root("a loop device") else { return };
    let place = place_with_data();
    let device = Loop::on(&place.path("data"));
    let queue = device.queue();
    if fs::write(queue.join("wbt_lat_usec"), "1").is_err() {
        println!("skipped: a kernel without writeback throttling");
        return;
    }
    // More requests than may be in flight.
    fs::write(queue.join("max_sectors_kb"), "16").unwrap();
    let (filename, erase) =
        (format!("--filename={}", device.0), format!("--erase={}@{}", device.0, 64 * MIB));
    let load = [&filename, &erase, "--rw=write", "--bs=1m", "--fsync=16", "--ioengine=psync"];
    both_name(&place, "", &load, &["waited for writeback throttling on loop"]);
    fs::write(queue.join("wbt_lat_usec"), "0").unwrap();
    neither_names(&place, "", &load, &["writeback throttling"]);
}
