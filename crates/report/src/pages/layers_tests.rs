use super::*;
use crate::render::{self, Style, assert_fits};
use fathom_model::watch::{Stack, StackCount, StacksSample};

fn rendered(times: &LayerTimes, ios: Option<u64>) -> String {
    render::text(&layers(times, ios), Style::default())
}

fn times(event: &str) -> LayerTimes {
    let stack = |kernel: &[&str]| Stack {
        kernel: kernel.iter().map(|name| (*name).into()).collect(),
        user: Vec::new(),
    };
    let stacks = [
        stack(&[]),
        stack(&["do_syscall_64", "blk_mq_submit_bio"]),
        stack(&["do_syscall_64", "blk_mq_submit_bio", "_raw_spin_lock"]),
        stack(&["do_syscall_64", "frobnicate"]),
    ];
    let counts = [100, 60, 20, 20].into_iter().enumerate();
    let count = |(stack, count): (usize, u32)| StackCount {
        stack: stack as u32,
        count,
        period: u64::from(count) * 1_000_000,
        ..StackCount::default()
    };
    let counts = counts.map(count).collect();
    let sample = StacksSample { event: event.into(), counts, ..StacksSample::default() };
    LayerTimes::of([&sample], &stacks, |_| true)
}

#[test]
fn shares_and_time_of_an_io() {
    let text = rendered(&times("cpu-clock"), Some(100_000));
    let expected = "\
layer          CPU  per I/O  locks  top functions
program      50.0%     1 µs
block layer  40.0%   800 ns  10.0%  blk_mq_submit_bio, _raw_spin_lock
other        10.0%   200 ns         frobnicate 20
all           100%     2 µs

80.0% of 100 kernel samples assigned to a layer
";
    assert_eq!(text, expected);
    assert_fits(&layers(&times("cycles"), Some(100_000)));
}

#[test]
fn cycles_are_called_so_and_ios_need_not_be_known() {
    let text = rendered(&times("cycles"), Some(100_000));
    assert!(text.contains("1k cycles"), "{text}");
    let text = rendered(&times("cycles"), None);
    assert!(!text.contains("I/O") && text.contains("50.0%"), "{text}");
}

#[test]
fn no_samples_no_table() {
    assert_eq!(rendered(&LayerTimes::default(), Some(1)), "");
}
