//! "Limited by:" of `fathom watch -- fio` and `fathom run`, on bottlenecks created on purpose. As root only: most need a cgroup or a
//! device.
//!
//! Whether a load comes out as meant depends on the machine and on what else it does, so these are ignored unless
//! `cargo test -p fathom --test all limited_by:: -- --ignored` asks for them, on an idle machine. With `FATHOM_BLESS=1` the records of the
//! loads become those in tests/limiters, which tests/all/limiters.rs judges each time.

use crate::common::{
    self, Cgroup, FATHOM, Loop, MIB, Place, Running, Tmpfs, Zram, as_root, block, says, tool,
};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

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

/// The block of a load, after the shell ran `first`; its record is in `record`.
fn limited_by(place: &Place, first: &str, load: Load<'_>) -> String {
    let script = format!("{first}exec \"$@\"");
    let shell = ["sh", "-c", &script, "sh"];
    let watch = [FATHOM, "watch", "--record=record", "-i", "1s", "--"];
    let command: Vec<&str> = match load {
        Load::Fio(options) => {
            // fio writes to any device that it is given.
            let options = options.iter().filter(|option| !option.starts_with("--erase="));
            let fio = [&watch[..], &shell, &["fio", "--output=fio.log"], &READS].concat();
            fio.into_iter().chain(options.copied()).collect()
        }
        Load::Run(options) => {
            let run = [FATHOM, "run", "--record=record", "--eta=never"];
            [&shell[..], &run, &READS, options].concat()
        }
        Load::Program(program) => [&watch[..], &shell, program].concat(),
    };
    let _ = fs::remove_dir_all(place.path("record"));
    let answer = Running::start(&mut place.command(command[0], &command[1..])).wait();
    block(&[answer.stdout, answer.stderr].concat())
}

/// Checks that one of three blocks names a cause in these words: what else the machine does in these seconds may
/// weigh more.
fn names(place: &Place, first: &str, load: Load<'_>, words: &[&str]) {
    let mut block = String::new();
    for _ in 0..3 {
        block = limited_by(place, first, load);
        if words.iter().all(|words| block.contains(words)) {
            return keep(place, load, "+", words);
        }
        println!("repeated, because it reports:{block}");
    }
    says(&block, words);
}

/// If asked to, keeps the record of a load whose block was right, with the words that it holds (`+`) or does not (`-`).
fn keep(place: &Place, load: Load<'_>, sign: &str, words: &[&str]) {
    if std::env::var_os("FATHOM_BLESS").is_none() {
        return;
    }
    let by = match load {
        Load::Fio(_) => "fio",
        Load::Run(_) => "run",
        Load::Program(_) => "program",
    };
    let thread = std::thread::current();
    let test = thread.name().unwrap().rsplit("::").next().unwrap();
    let first_word: String =
        words[0].chars().filter(|c| c.is_ascii_alphanumeric()).take(12).collect();
    let name = format!("{test}-{by}-{first_word}{}", if sign == "-" { "-not" } else { "" });
    let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/limiters").join(name);
    fs::create_dir_all(&to).unwrap();
    for entry in fs::read_dir(place.path("record")).unwrap().flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    let words: String = words.iter().map(|words| format!("{sign}{words}\n")).collect();
    fs::write(to.join("words"), words).unwrap();
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
        keep(place, load, "-", words);
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

/// So many shells for each CPU that use all of its time.
fn spinning(place: &Place, for_each_cpu: usize) -> Vec<Running> {
    let all = for_each_cpu * std::thread::available_parallelism().unwrap().get();
    let spin = ["-c", "while :; do :; done"];
    (0..all).map(|_| Running::start(&mut place.command("sh", &spin))).collect()
}

fn has_python() -> bool {
    let has = Command::new("python3").arg("-V").output().is_ok();
    if !has {
        println!("skipped: no python3");
    }
    has
}

#[test]
#[ignore = "needs an idle machine"]
fn an_io_limit_and_one_that_is_not_reached() {
    let Some(_alone) = as_root("cgroups") else { return };
    let place = place_with_data();
    let Some(disk) = disk_of(&place) else { return };
    let file = "blkio.throttle.read_iops_device";
    let Some(cgroup) = Cgroup::new("blkio", file, &format!("{disk} 1000")) else { return };
    let words = ["allows 1,000 reads/s on ", "(blkio.throttle.read_iops_device)"];
    both_name(&place, &cgroup.enter(), &SIXTEEN, &words);
    fs::write(cgroup.path().join(file), format!("{disk} 90000000")).unwrap();
    neither_names(&place, &cgroup.enter(), &SIXTEEN, &["allows"]);
}

#[test]
#[ignore = "needs an idle machine"]
fn a_cpu_quota() {
    let Some(_alone) = as_root("cgroups") else { return };
    let place = Place::new();
    let Some(cgroup) = Cgroup::new("cpu", "cpu.cfs_quota_us", "20000") else { return };
    let words = ["is limited to 0.20 CPUs; it was throttled for"];
    both_name(&place, &cgroup.enter(), &NONE, &words);
    fs::write(cgroup.path().join("cpu.cfs_quota_us"), "400000").unwrap();
    neither_names(&place, &cgroup.enter(), &NONE, &["throttled"]);
}

#[test]
#[ignore = "needs an idle machine"]
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
#[ignore = "needs an idle machine"]
fn other_programs_on_all_cpus() {
    let Some(_alone) = as_root("a busy machine") else { return };
    let place = Place::new();
    let others = spinning(&place, 2);
    let used = format!("sh ({} processes) used", others.len());
    both_name(&place, "", &NONE, &[&used, "were runnable but off-CPU"]);
}

#[test]
#[ignore = "needs an idle machine"]
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
    both_name(&place, "", &ONE, &["of other programs, another fathom (pid "]);
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
#[ignore = "needs an idle machine"]
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
    let words = ["Memory ran short", "pages from swap on zram"];
    names(&place, &cgroup.enter(), Load::Program(&["python3", "-c", touch]), &words);
}

#[test]
#[ignore = "needs an idle machine"]
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
#[ignore = "needs an idle machine"]
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
#[ignore = "needs an idle machine"]
fn throughput_that_another_program_lowers() {
    let Some(_alone) = as_root("an idle disk") else { return };
    let place = place_with_data();
    if disk_of(&place).is_none() {
        return;
    }
    place.data("other", 64 * MIB);
    let other = format!(
        "(sleep 5; exec {FATHOM} run --no-record --name=hog --filename=other --rw=randread --bs=256k --direct=1 \
         --iodepth=16 --numjobs=2 --time_based --runtime=6 --eta=never >/dev/null) & "
    );
    let load = [&ONE[..], &["--runtime=10", "--bs=64k"]].concat();
    names(&place, &other, Load::Run(&load), &["throughput fell from", "began to use the disks"]);
    let block = limited_by(&place, "", Load::Run(&load));
    assert!(!block.contains("throughput fell"), "{block}");
    keep(&place, Load::Run(&load), "-", &["throughput fell"]);
}

#[test]
#[ignore = "needs an idle machine"]
fn a_generator_that_computes() {
    let Some(_alone) = as_root("an idle machine") else { return };
    let place = place_with_data();
    both_name(&place, "", &NONE, &["itself limited its load"]);
    neither_names(&place, "", &SIXTEEN, &["itself limited its load"]);
}

#[test]
#[ignore = "needs an idle machine"]
fn a_polling_thread_on_the_only_cpu() {
    let Some(_alone) = as_root("an idle disk") else { return };
    let place = place_with_data();
    if disk_of(&place).is_none() {
        return;
    }
    let on_one = "taskset -p -c 0 $$ >/dev/null; ";
    let load = [&SIXTEEN[..], &["--iodepth=1"]].concat();
    let polls = [&load[..], &["--sqthread_poll=1"]].concat();
    names(&place, on_one, Load::Run(&polls), &["The SQPOLL thread of fathom used"]);
    let block = limited_by(&place, on_one, Load::Run(&load));
    assert!(!block.contains("SQPOLL"), "{block}");
    keep(&place, Load::Run(&load), "-", &["SQPOLL"]);
}

#[test]
#[ignore = "needs an idle machine"]
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
#[ignore = "needs an idle machine"]
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
#[ignore = "needs an idle machine"]
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
#[ignore = "needs an idle machine"]
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
#[ignore = "needs an idle machine"]
fn a_machine_whose_cpus_are_busy() {
    let Some(_alone) = as_root("a busy machine") else { return };
    let place = Place::new();
    let _others = spinning(&place, 2);
    let answer = place.ask(&["watch", "--no-record", "-i", "500ms", "-t", "2"]);
    says(&answer.stdout, &["CPUs were ", "% busy; sh ("]);
    assert!(!answer.stdout.contains("I/O scheduler"), "{}", answer.stdout);
}

/// What other programs' use of the CPUs does not limit.
#[test]
#[ignore = "needs an idle machine"]
fn programs_that_wait_for_something_else_on_a_busy_machine() {
    let Some(_alone) = as_root("a busy machine") else { return };
    if !has_python() {
        return;
    }
    let place = Place::new();
    let _others = spinning(&place, 1);
    let timer = "import time\nfor _ in range(100): time.sleep(.02)";
    let mutex = "import threading, time\nlock = threading.Lock()\n\
        def work(end):\n  while time.time() < end:\n    with lock: sum(range(9000))\n\
        all = [threading.Thread(target=work, args=(time.time() + 2,)) for _ in range(4)]\n\
        [t.start() for t in all]; [t.join() for t in all]";
    let programs: [&[&str]; 3] =
        [&["sleep", "2"], &["python3", "-c", timer], &["python3", "-c", mutex]];
    for program in programs {
        let load = Load::Program(program);
        let block = limited_by(&place, "", load);
        assert!(!block.contains("off-CPU") && !block.contains("CPUs were"), "{program:?}: {block}");
        keep(&place, load, "-", &["off-CPU"]);
    }
}

/// A client whose server uses the CPUs.
#[test]
#[ignore = "needs an idle machine"]
fn the_server_of_a_client_is_not_to_be_stopped() {
    let Some(_alone) = as_root("a busy machine") else { return };
    if !has_python() {
        return;
    }
    let place = Place::new();
    let server = "import socket, time\nlistener = socket.socket(socket.AF_UNIX)\n\
        listener.bind('socket'); listener.listen()\nimport os\n\
        while True:\n  one, _ = listener.accept()\n  if os.fork() == 0:\n    \
        while one.recv(1): sum(range(20000)); one.send(b'x')\n    os._exit(0)";
    let _server = Running::start(&mut place.command("python3", &["-c", server]));
    common::until("the server listens", || place.path("socket").exists());
    let client = "import socket, threading, time\n\
        def work(end):\n  one = socket.socket(socket.AF_UNIX); one.connect('socket')\n  \
        while time.time() < end: one.send(b'x'); one.recv(1)\n\
        all = [threading.Thread(target=work, args=(time.time() + 2.5,)) for _ in range(8)]\n\
        [t.start() for t in all]; [t.join() for t in all]";
    let load = Load::Program(&["python3", "-c", client]);
    let block = limited_by(&place, "", load);
    assert!(!block.contains("off-CPU"), "{block}");
    keep(&place, load, "-", &["off-CPU"]);
}

#[test]
#[ignore = "needs an idle machine"]
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
#[ignore = "needs an idle machine"]
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
#[ignore = "needs an idle machine"]
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
