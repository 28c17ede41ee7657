use super::*;
use crate::pages;
use crate::render::{self, Style, assert_fits};

fn stack(kernel: &[&str], user: &[&str]) -> Stack {
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
    Stack { kernel: own(kernel), user: own(user) }
}

fn count(comm: &str, pid: i32, tid: i32, stack: u32, count: u32) -> StackCount {
    let period = u64::from(count) * 10_101_010;
    StackCount { pid, tid, comm: comm.into(), stack, count, period, ..StackCount::default() }
}

fn sampled() -> Sampled {
    let sample = |counts| StacksSample {
        event: "cpu-clock".into(),
        hz: 99,
        idle: 30,
        counts,
        ..StacksSample::default()
    };
    let first = vec![count("fio", 10, 10, 0, 60), count("fio", 10, 11, 1, 5)];
    let second = vec![count("fio", 10, 10, 2, 25), count("a;b<c>", 20, 20, 1, 10)];
    Sampled {
        intervals: vec![(500_000_000, sample(first)), (1_000_000_000, sample(second))],
        stacks: vec![
            stack(&["do_syscall_64", "vfs_read"], &["main", "std::vec<int>::at"]),
            stack(&[], &[]),
            stack(&["do_syscall_64"], &["main"]),
        ],
    }
}

#[test]
fn folded_stacks_are_sorted_and_added_up() {
    let expected = "\
a:b<c>;[user mode] 10
fio;[user mode] 5
fio;main;do_syscall_64 25
fio;main;std::vec<int>::at;do_syscall_64;vfs_read 60
";
    assert_eq!(folded(&sampled()), expected);
    assert_eq!(folded(&Sampled::default()), "");
}

#[test]
fn the_page_says_what_how_much_and_of_whom() {
    let mut sampled = sampled();
    sampled.intervals[1].1.lost = 7;
    let text = render::text(&pages::stacks(&sampled, 20), Style::default());
    let expected = "\
160 samples: 100 on busy CPUs (62.5%), 60 on idle CPUs (37.5%) · cpu-clock at 99 Hz for 1 s

7 records lost: buffers were full

function (self)     share  samples  mode
vfs_read            60.0%       60  kernel
do_syscall_64       25.0%       25  kernel
a;b<c> [user mode]  10.0%       10  user
fio [user mode]     5.00%        5  user

process  PID  share   user  kernel
fio       10  90.0%  5.00%   85.0%
a;b<c>    20  10.0%  10.0%      0%

";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("needs 200 samples (only 100 taken)"), "{text}");
    assert_fits(&pages::stacks(&sampled, 20));
    // Only a thread with another name ran.
    sampled.intervals[1]
        .1
        .counts
        .push(StackCount { process: "rustc".into(), ..count("lto a.1", 30, 33, 0, 100) });
    let text = render::text(&pages::stacks(&sampled, 20), Style::default());
    assert!(text.contains("\nrustc     30  50.0%"), "{text}");
    let empty = render::text(&pages::stacks(&Sampled::default(), 20), Style::default());
    assert_eq!(empty.lines().count(), 1, "{empty}");
}

#[test]
fn a_flame_graph_holds_each_frame_once_above_its_caller() {
    let svg = flame_graph(&sampled(), "a <title> & more");
    assert!(svg.contains("a &lt;title&gt; &amp; more") && !svg.contains("std::vec<int>"));
    let frames: Vec<&str> = svg.lines().filter(|line| line.starts_with("<g class=\"f\"")).collect();
    // Two threads' names, user mode of each, main, vector, two system calls, read.
    assert_eq!(frames.len(), 9);
    let attribute = |line: &str, name: &str| -> u64 {
        let rest = line.split(&format!("{name}=\"")).nth(1).unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    };
    for frame in &frames {
        let [x, w, d] = ["data-x", "data-w", "data-d"].map(|name| attribute(frame, name));
        let is_caller = |other: &&&str| {
            let [ox, ow, od] = ["data-x", "data-w", "data-d"].map(|name| attribute(other, name));
            od + 1 == d && ox <= x && ox + ow >= x + w
        };
        assert!(
            x + w <= 100 && (d == 0 || frames.iter().filter(is_caller).count() == 1),
            "{frame}"
        );
    }
    let main = frames.iter().find(|frame| frame.contains("<title>main ")).unwrap();
    assert!(main.contains("<title>main (85 samples, 85.00%)</title>"), "{main}");
    assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
    assert!(flame_graph(&Sampled::default(), "").ends_with("</svg>\n"));
}
