//! On this kernel, the layer table covers nearly all kernel functions that fathom's own work uses.
//! Unknown functions are printed: `cargo test -p fathom --test all layer_table:: -- --nocapture`.

use crate::common::{Loop, MIB, Place, Running, as_root};
use fathom_analysis::layers::{Layer, LayerTimes};
use fathom_model::watch::{MachineSample, Stack, StackCount, StacksSample};
use fathom_report::pages::layers;
use fathom_report::render::{self, Style};
use fathom_watch::{Clock, Sampler, StackSampler, StackSettings};
use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The share of kernel samples whose layer must be known.
const KNOWN: f64 = 0.97;
/// Number of kernel samples to wait for, and the minimum for a meaningful share.
const ENOUGH: u64 = 500;
const FEWEST: u64 = 150;
const PATIENCE: Duration = Duration::from_secs(15);

const DIRECT: &str = "--direct=1 --iodepth=128 --iodepth_batch_submit=32";

/// Work on files: its name, its file, its keys.
const WORK: [(&str, &str, &str); 11] = [
    ("direct reads of a sparse file", "sparse", DIRECT),
    ("the same, nothing tuned", "sparse", "--direct=1 --iodepth=128"),
    ("direct reads through io-wq", "sparse", "--direct=1 --iodepth=32 --force_async=1"),
    ("direct reads with SQPOLL", "sparse", "--direct=1 --iodepth=32 --sqthread_poll"),
    ("direct reads through libaio", "sparse", "--direct=1 --iodepth=128 --ioengine=libaio"),
    ("direct reads with psync", "sparse", "--direct=1 --ioengine=psync"),
    ("direct reads of the disk, depth 1", "data", "--direct=1 --iodepth=1"),
    ("buffered reads", "data", "--iodepth=16"),
    ("buffered reads that start without cache", "data", "--rw=read --bs=128k --ioengine=psync"),
    ("buffered writes", "written", "--rw=randwrite --size=32m --ioengine=psync"),
    ("writes with fsync", "written", "--rw=randwrite --size=8m --fsync=4"),
];

/// Samples of the workers of `running` and of the kernel's threads that work for them, until there are enough. Its
/// samplers read /proc, which is not what is tested here.
fn sampled(sampler: &mut StackSampler, running: &Running) -> LayerTimes {
    let pid = running.id() as i32;
    let kernel = ["kworker", "ksoftirqd", "loop", "kswapd", "jbd2"];
    let wanted = |count: &StackCount| {
        let samples = count.comm.starts_with("fathom");
        (count.pid == pid && !samples)
            || count.pid == 0
            || kernel.iter().any(|name| count.comm.starts_with(name))
    };
    let began = Instant::now();
    let (mut samples, mut stacks): (Vec<StacksSample>, Vec<Stack>) = Default::default();
    loop {
        thread::sleep(Duration::from_millis(100));
        let mut machine = MachineSample::default();
        sampler.take(&mut machine);
        let mut sample = machine.stacks.unwrap();
        stacks.append(&mut sample.new);
        samples.push(sample);
        let times = LayerTimes::of(&samples, &stacks, wanted);
        if times.kernel_samples >= ENOUGH || began.elapsed() > PATIENCE {
            return times;
        }
    }
}

/// A sampler; `None`, with the reason printed, if the kernel does not permit kernel samples.
fn sampler() -> Option<StackSampler> {
    let settings = StackSettings { hz: 999, clock: Clock::Timer, ..StackSettings::default() };
    let sampler = StackSampler::open(&settings, Path::new("/proc"), Path::new("/sys"));
    sampler.inspect_err(|missing| println!("skipped: {missing}")).ok()
}

/// Runs fathom with `args`; returns the share of kernel samples with a known layer.
fn check(place: &Place, title: &str, args: &str) {
    let Some(mut sampler) = sampler() else { return };
    let common =
        "run --eta=never --ioengine=io_uring --rw=randread --time_based --runtime=50 --norandommap";
    let args: Vec<&str> = common.split(' ').chain(args.split(' ')).collect();
    let running = place.start(&args);
    let times = sampled(&mut sampler, &running);
    assert!(running.so_far("stderr").is_empty(), "{title}: {}", running.so_far("stderr"));
    let hidden = |missing: &&_| format!("{missing}").contains("kernel functions");
    if let Some(missing) = sampler.missing().iter().find(hidden) {
        println!("skipped: {title}: {missing}");
        return;
    }
    if times.kernel_samples < FEWEST {
        println!("skipped: {title}: {} samples in the kernel", times.kernel_samples);
        return;
    }
    let text = render::text(&layers(&times, None), Style::default());
    println!("{title}\n{text}");
    assert!(times.classified().unwrap() >= KNOWN, "{title}\n{text}");
    // What a retpoline is about to call is known.
    let other = times.layer(Layer::Other).map_or(&[][..], |row| &row.top);
    assert!(!other.iter().any(|(name, _)| name.contains("x86_indirect")), "{title}\n{text}");
}

#[test]
fn layers_of_work_on_files_are_known() {
    let place = Place::new();
    File::create(place.path("sparse")).unwrap().set_len(4 << 30).unwrap();
    place.data("data", 64 * MIB);
    for (title, file, args) in WORK {
        check(&place, title, &format!("--name=w --filename={file} {args}"));
        // After a run that was killed while it wrote, a file no longer counts as fathom's own.
        let _ = std::fs::remove_file(place.path("written"));
    }
}

#[test]
fn layers_of_rings_that_do_nothing_are_known() {
    check(
        &Place::new(),
        "operations that do nothing",
        "--name=w --ioengine=nop --iodepth=128 --size=1g",
    );
}

#[test]
fn layers_below_an_io_scheduler_are_known() {
    let Some(_alone) = as_root("a loop device") else { return };
    let place = Place::new();
    place.data("image", 64 * MIB);
    let device = Loop::on(&place.path("image"));
    let queue = format!("/sys/block/{}/queue/scheduler", device.0.trim_start_matches("/dev/"));
    for scheduler in ["none", "mq-deadline", "kyber", "bfq"] {
        if let Err(error) = std::fs::write(&queue, scheduler) {
            println!("skipped: {scheduler}: {error}");
            continue;
        }
        let title = format!("direct reads of a loop device, {scheduler}");
        check(&place, &title, &format!("--name=w --filename={} --direct=1 --iodepth=32", device.0));
    }
}
