use super::*;
use fathom_model::watch::{Stack, StackCount, StacksSample};
use proptest::prelude::*;

fn place(stack: &str) -> (Layer, bool) {
    let frames: Vec<&str> = stack.split(';').collect();
    let Attribution { layer, lock } = classify(&frames);
    (layer, lock)
}

#[test]
fn all_is_in_all_once() {
    let mut all = Layer::ALL.to_vec();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, Layer::ALL);
}

#[test]
fn user_mode_is_the_program() {
    assert_eq!(classify::<&str>(&[]), Attribution { layer: Layer::Program, lock: false });
}

#[test]
fn the_innermost_function_decides() {
    assert_eq!(place("do_syscall_64;vfs_read;submit_bio"), (Layer::Block, false));
    assert_eq!(place("do_syscall_64;vfs_read"), (Layer::FileSystem, false));
}

#[test]
fn locks_and_helpers_belong_to_their_caller() {
    assert_eq!(place("do_syscall_64;blk_mq_submit_bio;_raw_spin_lock"), (Layer::Block, true));
    let slow = "dd_insert_requests;_raw_spin_lock;native_queued_spin_lock_slowpath";
    assert_eq!(place(slow), (Layer::IoScheduler, true));
    assert_eq!(place("blk_mq_get_tag;sbitmap_get;_find_next_zero_bit"), (Layer::Block, false));
    // A helper under a lock is time of the lock.
    assert_eq!(place("ext4_map_blocks;down_read;rcu_read_unlock"), (Layer::FileSystem, true));
    // What sleeps on a lock is the scheduler's work.
    assert_eq!(place("ext4_map_blocks;down_read;schedule"), (Layer::Scheduler, false));
}

#[test]
fn what_is_not_known_is_other() {
    assert_eq!(place("do_syscall_64;frobnicate"), (Layer::Other, false));
    assert_eq!(place("[unknown]"), (Layer::Other, false));
    assert_eq!(place("_raw_spin_lock"), (Layer::Other, true));
    // A helper between is passed over, be it known or not.
    assert_eq!(place("submit_bio;frobnicate;_raw_spin_lock"), (Layer::Block, true));
}

#[test]
fn stacks_of_real_kernels_have_their_places() {
    let files = [include_str!("golden/seen.txt"), include_str!("golden/known.txt")];
    for line in files.iter().flat_map(|file| file.lines()).filter(|line| !line.starts_with('#')) {
        let (expected, stack) = line.split_once('\t').unwrap();
        let lock = expected.ends_with(" lock");
        let class = table::class_of(expected.trim_end_matches(" lock"));
        let (layer, found_lock) = place(stack);
        assert_eq!((Some(TableEntry::Layer(layer)), found_lock), (class, lock), "{stack}");
    }
}

#[test]
fn samples_are_added_up() {
    let stack = |text: &str| Stack {
        kernel: text.split(';').filter(|name| !name.is_empty()).map(String::from).collect(),
        user: Vec::new(),
    };
    let stacks = ["", "do_syscall_64;submit_bio", "submit_bio;mutex_lock", "do_idle"].map(stack);
    let count = |pid, stack, count| StackCount {
        pid,
        stack,
        count,
        period: u64::from(count) * 10,
        ..StackCount::default()
    };
    let counts =
        vec![count(1, 0, 4), count(1, 1, 3), count(1, 2, 2), count(2, 3, 50), count(2, 9, 1)];
    let sample = StacksSample { event: "cycles".into(), counts, ..StacksSample::default() };
    let times = LayerTimes::of([&sample, &sample], &stacks, |_| true);
    assert_eq!((times.unit, times.samples, times.kernel_samples), (TimeUnit::Cycles, 20, 12));
    let block = times.layer(Layer::Block).unwrap();
    assert_eq!((block.samples, block.time, block.lock_time), (10, 100, 40));
    assert_eq!(block.top, [("submit_bio".to_string(), 6), ("mutex_lock".to_string(), 4)]);
    // A count whose stack is not known.
    assert_eq!(times.layer(Layer::Other).unwrap().samples, 2);
    assert_eq!(times.classified(), Some(10.0 / 12.0));
    assert_eq!(times.share(Layer::Block), 0.5);
    assert_eq!(times.time(), 200);
    assert_eq!(times.layer(Layer::Idle), None);
    let one = LayerTimes::of([&sample], &stacks, |count| count.pid == 2);
    assert_eq!((one.samples, one.classified()), (1, Some(0.0)));
    let none = LayerTimes::of([&sample], &stacks, |_| false);
    assert_eq!((none.classified(), none.share(Layer::Block)), (None, 0.0));
}

proptest! {
    #[test]
    fn any_text_has_a_place(frames in prop::collection::vec("\\PC{0,20}", 0..8)) {
        prop_assert_eq!(classify(&frames).layer == Layer::Program, frames.is_empty());
    }
}
