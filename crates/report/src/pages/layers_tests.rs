use super::*;
use crate::render::{self, Style, assert_fits};
use fathom_model::watch::{Stack, StackCount, StacksSample};

fn rendered(times: &LayerTimes, per_io: Option<IoCost>) -> String {
    render::text(&layers(times, per_io), Style::default())
}

fn cost(sampled_ns: Option<f64>) -> Option<IoCost> {
    Some(IoCost { cpu_ns: 2000.0, sampled_ns })
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
    let counts = [200, 120, 40, 40].into_iter().enumerate();
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
    let text = rendered(&times("cpu-clock"), cost(None));
    let expected = "\
layer        CPU time      95% CI  per I/O  locks  top functions
user space      50.0%  45.1–54.9%     1 µs
block layer     40.0%  35.3–44.9%   800 ns  10.0%  blk_mq_submit_bio, _raw_spin_lock
other           10.0%   7.4–13.3%   200 ns         frobnicate (40)
all              100%                 2 µs

400 samples, 80.0% of kernel time assigned to a layer
";
    assert_eq!(text, expected);
    assert_fits(&layers(&times("cycles"), cost(None)));
}

#[test]
fn the_time_of_an_io_need_not_be_known() {
    let text = rendered(&times("cycles"), None);
    assert!(!text.contains("I/O") && text.contains("50.0%"), "{text}");
}

#[test]
fn few_samples_make_no_table() {
    assert_eq!(rendered(&LayerTimes::default(), cost(None)), "");
    let few = LayerTimes { samples: 199, ..times("cpu-clock") };
    let text = rendered(&few, None);
    assert_eq!(text, "CPU time by layer needs 200 samples (only 199 taken); sample for longer\n");
}

#[test]
fn the_sum_of_the_samples_is_compared_with_the_cpu_time_of_an_io() {
    for (sampled_ns, why) in [
        (2100.0, "The samples sum to 2.1 µs per I/O (±9.80%), CPU per I/O is 2 µs: equal within"),
        (2500.0, "include fathom's other threads and interrupts"),
        (1500.0, "code that ran before sampling began"),
    ] {
        let text = rendered(&times("cpu-clock"), cost(Some(sampled_ns)));
        let text = text.replace(['\u{a0}', '\n'], " ");
        assert!(text.contains(why), "{text}");
    }
}
