//! Block layer events on the running kernel: compares I/O done by the test with the events
//! reported. Skipped, with the reason printed, without root or a suitable device.

#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic)]

use fathom_model::watch::{BlockOp, BlocksSample, DeviceBlocks, MachineSample};
use fathom_watch::blocks::{BlockSampler, BlocksOptions, Devices};
use fathom_watch::rings::RingSampler;
use fathom_watch::{Sampler, Scope, TraceCoverage};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

const PAGE: usize = 4096;

/// Events of `device` during rounds of `work`, with a sample after each; `None`, with the reason
/// printed, if they are not available.
fn seen(device: &str, one_in: u32, rounds: usize, work: impl Fn(usize)) -> Option<BlocksSample> {
    let options = BlocksOptions {
        devices: Devices::Named(vec![device.into()]),
        one_in,
        each_io: TraceCoverage::Full,
    };
    seen_with(&options, rounds, work)
}

fn seen_with(options: &BlocksOptions, rounds: usize, work: impl Fn(usize)) -> Option<BlocksSample> {
    let mut sampler = match BlockSampler::open(Path::new("/proc"), Path::new("/sys"), options) {
        Ok(sampler) => sampler,
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    assert!(sampler.missing().is_empty(), "{:?}", sampler.missing());
    for round in 0..rounds {
        work(round);
        sampler.sample();
    }
    let mut sample = MachineSample::default();
    sampler.take(&mut sample);
    sample.blocks
}

/// Page-aligned memory for direct I/O.
struct Pages(*mut libc::c_void, usize);

impl Pages {
    fn new(pages: usize) -> Self {
        let length = pages * PAGE;
        // SAFETY: a new mapping at an address chosen by the kernel.
        let at = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), length, prot, flags, -1, 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        // SAFETY: the mapping was just created. Touching all pages first keeps every other page
        // from being physically contiguous.
        unsafe {
            libc::madvise(at, length, libc::MADV_NOHUGEPAGE);
            at.write_bytes(1, length);
        }
        Self(at, length)
    }

    fn page(&self, index: usize) -> *mut libc::c_void {
        self.0.wrapping_byte_add(index * PAGE % self.1)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length.
        unsafe { libc::munmap(self.0, self.1) };
    }
}

fn direct(path: &Path) -> Option<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path);
    file.map_err(|error| println!("skipped: {}: direct I/O: {error}", path.display())).ok()
}

/// Reads one page at each of `offsets`.
fn read_each(file: &File, offsets: impl Iterator<Item = usize>) {
    let pages = Pages::new(1);
    for offset in offsets {
        // SAFETY: the page is mapped, and nothing else uses it.
        let n = unsafe { libc::pread(file.as_raw_fd(), pages.0, PAGE, offset as i64) };
        assert_eq!(n, PAGE as isize, "{}", std::io::Error::last_os_error());
    }
}

/// A zram device, removed when dropped.
struct Zram(u32);

impl Zram {
    fn new() -> Option<Self> {
        let made = fs::read_to_string("/sys/class/zram-control/hot_add");
        let number = made.map_err(|error| println!("skipped: zram: {error}")).ok()?;
        let this = Self(number.trim().parse().unwrap());
        fs::write(format!("/sys/block/{}/disksize", this.name()), "16M").unwrap();
        Some(this)
    }

    fn name(&self) -> String {
        format!("zram{}", self.0)
    }

    /// Reads completed by the device.
    fn reads(&self) -> u64 {
        let stat = fs::read_to_string(format!("/sys/block/{}/stat", self.name())).unwrap();
        stat.split_whitespace().next().unwrap().parse().unwrap()
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = fs::write("/sys/class/zram-control/hot_remove", self.0.to_string());
    }
}

#[test]
fn each_io_of_a_bio_based_device_is_counted() {
    let Some(zram) = Zram::new() else { return };
    let path = format!("/dev/{}", zram.name());
    let Some(file) = direct(Path::new(&path)) else { return };
    let before = zram.reads();
    let (rounds, each) = (30, 100);
    let all = rounds * each;
    let work = |round| read_each(&file, (0..each).map(|i| (round * each + i) * 7 % 4096 * PAGE));
    let Some(blocks) = seen(&path, 1, rounds, work) else { return };
    let device = &blocks.devices[0];
    assert_eq!(device.name, zram.name());
    assert!(device.bio_based);
    assert_eq!((device.queued, device.completed), (all as u64, all as u64));
    assert_eq!(zram.reads() - before, device.completed);
    assert_eq!((device.issued, device.errors, device.split), (0, 0, 0));
    assert_eq!(blocks.lost, 0);
    // Every event is sampled.
    let [sizes] = &device.sizes[..] else { panic!("{:?}", device.sizes) };
    assert_eq!((sizes.op, sizes.bytes_min, sizes.samples), (BlockOp::Read, 4096, all as u64));
    assert_eq!((device.queue.count(), device.driver.count()), (0, all as u64));
}

#[test]
fn without_sampling_events_are_only_counted() {
    let Some(zram) = Zram::new() else { return };
    let Some(file) = direct(Path::new(&format!("/dev/{}", zram.name()))) else { return };
    let work = |_| read_each(&file, (0..100).map(|i| i * PAGE));
    let Some(blocks) = seen(&zram.name(), 0, 1, work) else { return };
    assert_eq!((blocks.devices[0].queued, blocks.one_in), (100, 0));
    assert!(blocks.devices[0].sizes.is_empty() && blocks.tasks.is_empty());
}

#[test]
fn each_io_never_omits_per_io_events() {
    let Some(zram) = Zram::new() else { return };
    let Some(file) = direct(Path::new(&format!("/dev/{}", zram.name()))) else { return };
    let options = BlocksOptions {
        devices: Devices::Named(vec![zram.name()]),
        one_in: 1,
        each_io: TraceCoverage::Off,
    };
    let work = |_| read_each(&file, (0..100).map(|i| i * PAGE));
    let Some(blocks) = seen_with(&options, 1, work) else { return };
    let device = &blocks.devices[0];
    assert_eq!((device.queued, device.completed, device.driver.count()), (0, 0, 0));
    assert!(zram.reads() >= 100 && blocks.one_in == 1);
    // Plug flushes may be as frequent as I/Os.
    assert!(blocks.seen_ns.is_none() && blocks.unplugs_seen_ns.is_some());
}

#[test]
fn windows_sample_each_io() {
    let Some(zram) = Zram::new() else { return };
    let Some(file) = direct(Path::new(&format!("/dev/{}", zram.name()))) else { return };
    let each_io = TraceCoverage::DutyCycle;
    let options = BlocksOptions { devices: Devices::Named(vec![zram.name()]), one_in: 1, each_io };
    let read = |_| read_each(&file, (0..100).map(|i| i * PAGE));
    // The first sample starts a window, the second ends it; the next one starts 23 samples later.
    let Some(blocks) = seen_with(&options, 20, read) else { return };
    let device = &blocks.devices[0];
    assert_eq!((device.queued, device.completed, device.driver.count()), (0, 0, 100));
    assert_eq!(device.sizes.iter().map(|size| size.samples).sum::<u64>(), 100);
    assert!(blocks.seen_ns.is_some_and(|ns| ns > 0) && !blocks.each_io);
    assert_eq!(blocks.seen_ns, blocks.unplugs_seen_ns);
    let Some(blocks) = seen_with(&options, 25, read) else { return };
    assert_eq!(blocks.devices[0].driver.count(), 200);
}

/// A file on a request-based disk, and the disk's name.
fn file_on_disk(mib: usize) -> Option<(tempfile::NamedTempFile, File, String)> {
    let mut file = tempfile::Builder::new().tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dev = file.as_file().metadata().unwrap().dev();
    let (major, minor) = (libc::major(dev), libc::minor(dev));
    let Ok(link) = fs::read_link(format!("/sys/dev/block/{major}:{minor}")) else {
        println!("skipped: the tests' file system is not on a single block device");
        return None;
    };
    let name = link.file_name().unwrap().to_str().unwrap().to_string();
    let chunk = vec![0xa5; 1 << 20];
    (0..mib).for_each(|_| file.write_all(&chunk).unwrap());
    file.as_file().sync_all().unwrap();
    let direct = direct(file.path())?;
    Some((file, direct, name))
}

fn of_requests(blocks: BlocksSample) -> Option<(BlocksSample, DeviceBlocks)> {
    let device = blocks.devices[0].clone();
    if device.bio_based {
        println!("skipped: {} is bio-based", device.name);
        return None;
    }
    Some((blocks, device))
}

/// A system call of the AIO interface; the addresses must be valid during the call.
fn aio(number: i64, a: u64, b: u64, c: u64, d: u64) -> usize {
    // SAFETY: callers pass addresses of memory that they own and keep until the I/O completes.
    let done = unsafe { libc::syscall(number, a, b, c, d, 0_u64) };
    assert!(done >= 0, "{}", std::io::Error::last_os_error());
    done as usize
}

/// Submits `batches` of `size` reads each through io_submit(2), which plugs the queue around each
/// call.
fn submit(file: &File, batches: usize, size: usize) {
    let (pages, mut context) = (Pages::new(size), 0_u64);
    aio(libc::SYS_io_setup, size as u64, &raw mut context as u64, 0, 0);
    for batch in 0..batches {
        // Gaps between the reads of a batch prevent merging.
        let offset = |i: usize| ((batch + i * 61) * 16 * PAGE) % (32 << 20);
        // struct iocb of <linux/aio_abi.h>; IOCB_CMD_PREAD is 0.
        let iocbs: Vec<[u64; 8]> = (0..size)
            .map(|i| {
                let fd = (file.as_raw_fd() as u64) << 32;
                [0, 0, fd, pages.page(i) as u64, PAGE as u64, offset(i) as u64, 0, 0]
            })
            .collect();
        let list: Vec<*const [u64; 8]> = iocbs.iter().map(|iocb| &raw const *iocb).collect();
        let taken = aio(libc::SYS_io_submit, context, size as u64, list.as_ptr() as u64, 0);
        assert_eq!(taken, size);
        let mut events = vec![[0_u64; 4]; size];
        let (n, at) = (size as u64, events.as_mut_ptr() as u64);
        assert_eq!(aio(libc::SYS_io_getevents, context, n, n, at), size);
        assert!(events.iter().all(|event| event[2] == PAGE as u64), "{events:?}");
    }
    aio(libc::SYS_io_destroy, context, 0, 0, 0);
}

#[test]
#[cfg(all(target_pointer_width = "64", target_endian = "little"))]
fn batches_of_7_and_of_32_are_told_apart() {
    let Some((_kept, file, disk)) = file_on_disk(32) else { return };
    let rounds = 100;
    let count = |size: usize| {
        let blocks = seen(&disk, 1, 10, |_| submit(&file, rounds / 10, size))?;
        let (blocks, device) = of_requests(blocks)?;
        assert!(device.completed >= (rounds * size) as u64 / 2, "{device:?}");
        // Some kernels do not sample events on an idle CPU, such as completions.
        assert!(!device.queue.is_empty(), "{device:?}");
        let of = |first: u32| blocks.unplugs.iter().find(|(least, _)| *least == first).unwrap().1;
        Some((of(5), of(32)))
    };
    let (Some(small), Some(large)) = (count(7), count(32)) else { return };
    println!(
        "unplugs of 5 to 8 and of 32: {small:?} for batches of 7, {large:?} for batches of 32"
    );
    // Other programs use the disk too, and a thread that blocks flushes its plug early.
    let most = rounds as u64 * 3 / 4;
    assert!(small.0 >= most && small.1 < most, "{small:?}");
    assert!(large.1 >= most && large.0 < most, "{large:?}");
}

#[test]
#[cfg(all(target_pointer_width = "64", target_endian = "little"))]
fn windows_estimate_plug_flushes_by_size() {
    let Some((_kept, file, disk)) = file_on_disk(32) else { return };
    let options = BlocksOptions {
        devices: Devices::Named(vec![disk.clone()]),
        one_in: 61,
        each_io: TraceCoverage::Off,
    };
    let batches = 400;
    // The first sample opens a window.
    let work = |round| (0..round).for_each(|_| submit(&file, batches, 7));
    let Some(blocks) = seen_with(&options, 2, work) else { return };
    if blocks.devices[0].bio_based {
        return println!("skipped: {disk} is bio-based");
    }
    let of = |first: u32| blocks.unplugs.iter().find(|(least, _)| *least == first).unwrap().1;
    // Other programs use the disk too, and a thread that blocks flushes its plug early.
    let most = batches as u64 * 3 / 4;
    assert!(of(5) >= most && of(32) < most, "{:?}", blocks.unplugs);
}

#[test]
fn splits_are_reported_with_their_limit() {
    let Some((_kept, file, disk)) = file_on_disk(8) else { return };
    let path = format!("/sys/class/block/{disk}/queue/max_segments");
    let segments = fs::read_to_string(&path).ok().and_then(|s| s.trim().parse::<usize>().ok());
    let Some(segments) = segments.filter(|n| *n < 256) else {
        return println!("skipped: {disk} has no limit on segments: {segments:?}");
    };
    // Every other page of a larger area, so none are contiguous.
    let pages = Pages::new(2 * 512);
    let parts: Vec<libc::iovec> =
        (0..512).map(|i| libc::iovec { iov_base: pages.page(2 * i), iov_len: PAGE }).collect();
    let work = |_| {
        // SAFETY: the pages are mapped, and nothing else uses them.
        let n = unsafe { libc::preadv(file.as_raw_fd(), parts.as_ptr(), 512, 0) };
        assert_eq!(n, 512 * PAGE as isize, "{}", std::io::Error::last_os_error());
    };
    let Some((_, device)) = seen(&disk, 1, 20, work).and_then(of_requests) else { return };
    println!("{device:?}");
    assert!(device.split >= 20, "{device:?}");
    let mut by_segments = device.splits.iter().filter(|split| split.limit == "max_segments");
    assert!(by_segments.any(|split| split.bytes >= ((segments - 2) * PAGE) as u64), "{device:?}");
}

/// Set in the process that runs without tracefs mounted.
const WITHOUT_TRACEFS: &str = "FATHOM_TEST_WITHOUT_TRACEFS";

#[test]
fn tracefs_need_not_be_mounted() {
    let mounts = || ["1", "self"].map(|pid| fs::read(format!("/proc/{pid}/mountinfo")).unwrap());
    if std::env::var_os(WITHOUT_TRACEFS).is_none() {
        let before = fs::read("/proc/self/mountinfo").unwrap();
        let test = "umount -a -t tracefs,debugfs; exec \"$0\" --exact tracefs_need_not_be_mounted --nocapture";
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", test]);
        match command.arg(std::env::current_exe().unwrap()).env(WITHOUT_TRACEFS, "1").status() {
            Ok(status) if status.success() => {}
            // The test's own failure; others are those of unshare(1), as without root.
            Ok(status) if status.code() == Some(101) => panic!("{status}"),
            other => println!("skipped: cannot create a mount namespace: {other:?}"),
        }
        assert_eq!(fs::read("/proc/self/mountinfo").unwrap(), before);
        return;
    }
    assert!(!fs::read_to_string("/proc/mounts").unwrap().contains(" tracefs "));
    let before = mounts();
    let devices = Devices::Busiest { first: Vec::new() };
    let options = BlocksOptions { devices, one_in: 61, each_io: TraceCoverage::Full };
    match BlockSampler::open(Path::new("/proc"), Path::new("/sys"), &options) {
        Ok(sampler) => assert!(sampler.missing().is_empty(), "{:?}", sampler.missing()),
        Err(error) if error.to_string().contains("tracefs") => panic!("{error}"),
        Err(error) => println!("skipped: {error}"),
    }
    let rings = RingSampler::open(Path::new("/proc"), Scope::Machine).unwrap();
    let rings = rings.with_events(Path::new("/sys"), TraceCoverage::Full);
    assert!(!format!("{:?}", rings.missing()).contains("tracefs"), "{:?}", rings.missing());
    assert_eq!(mounts(), before);
}
