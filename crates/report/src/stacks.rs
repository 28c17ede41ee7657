//! CPU samples as folded stacks, as a flame graph; [`crate::pages::stacks`] renders them as a page.

mod flame;

pub use flame::flame_graph;
pub(crate) use flame::{FLAME_SCRIPT, flame_part};

use fathom_analysis::layers::LayerTimes;
use fathom_model::escape;
use fathom_model::watch::{Stack, StackCount, StacksSample};
use std::collections::BTreeMap;

/// The frame of a thread in user mode if user stacks were not requested.
const USER_MODE: &str = "[user mode]";

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampled {
    /// The end of each interval, in nanoseconds since the start, with its samples.
    pub intervals: Vec<(u64, StacksSample)>,
    pub stacks: Vec<Stack>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Frame<'a> {
    pub name: &'a str,
    pub kernel: bool,
}

#[derive(Default)]
pub(crate) struct ProcessStacks<'a> {
    pub comm: &'a str,
    pub user: u64,
    pub kernel: u64,
}

impl Sampled {
    pub(crate) fn counts(&self) -> impl Iterator<Item = &StackCount> {
        self.intervals.iter().flat_map(|(_, sample)| &sample.counts)
    }

    pub(crate) fn frames(&self, stack: u32) -> impl Iterator<Item = Frame<'_>> {
        let stack = self.stacks.get(stack as usize);
        let (kernel, user) = stack.map_or((&[][..], &[][..]), |s| (&s.kernel[..], &s.user[..]));
        let nothing = (kernel.is_empty() && user.is_empty()).then_some(USER_MODE);
        let user = user.iter().map(String::as_str).chain(nothing);
        let user = user.map(|name| Frame { name, kernel: false });
        user.chain(kernel.iter().map(|name| Frame { name, kernel: true }))
    }

    pub(crate) fn sum(&self, get: fn(&StacksSample) -> u64) -> u64 {
        self.intervals.iter().map(|(_, sample)| get(sample)).sum()
    }

    /// Functions that were running, and whether in the kernel, most samples first; those in user mode by thread name.
    pub(crate) fn functions(&self) -> Vec<((String, bool), u64)> {
        let mut sums: BTreeMap<(String, bool), u64> = BTreeMap::new();
        for count in self.counts() {
            let Some(leaf) = self.frames(count.stack).last() else { continue };
            let name = match leaf.kernel {
                true => leaf.name.to_string(),
                false => format!("{} {}", comm(count), leaf.name),
            };
            *sums.entry((name, leaf.kernel)).or_default() += u64::from(count.count);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        sums
    }

    pub(crate) fn processes(&self) -> Vec<(i32, ProcessStacks<'_>)> {
        let mut sums: BTreeMap<i32, ProcessStacks<'_>> = BTreeMap::new();
        for count in self.counts() {
            let process = sums.entry(count.pid).or_default();
            // Older records have only threads' names: the main thread's is the process's.
            let is_known = count.pid == count.tid || !count.process.is_empty();
            if process.comm.is_empty() || is_known {
                process.comm = process_name(count);
            }
            let in_kernel = self.frames(count.stack).last().is_some_and(|leaf| leaf.kernel);
            let part = if in_kernel { &mut process.kernel } else { &mut process.user };
            *part += u64::from(count.count);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(_, process)| std::cmp::Reverse(process.user + process.kernel));
        sums
    }

    pub(crate) fn layers(&self) -> LayerTimes {
        let samples = self.intervals.iter().map(|(_, sample)| sample);
        LayerTimes::of(samples, &self.stacks, |_| true)
    }

    fn by_name(&self) -> BTreeMap<(&str, Vec<Frame<'_>>), u64> {
        let mut sums = BTreeMap::new();
        for count in self.counts() {
            let key = (comm(count), self.frames(count.stack).collect());
            *sums.entry(key).or_default() += u64::from(count.count);
        }
        sums
    }
}

pub(crate) fn comm(count: &StackCount) -> &str {
    if count.comm.is_empty() { "[ended]" } else { &count.comm }
}

pub(crate) fn process_name(count: &StackCount) -> &str {
    if count.process.is_empty() { comm(count) } else { &count.process }
}

/// Folded stacks, as flamegraph.pl, inferno and speedscope read them: a line for each thread's name and
/// stack, `fio;entry_SYSCALL_64;do_syscall_64 17`, sorted.
pub fn folded(sampled: &Sampled) -> String {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for ((comm, frames), count) in sampled.by_name() {
        let names = std::iter::once(comm).chain(frames.iter().map(|frame| frame.name));
        let names: Vec<String> =
            names.map(|name| escape::text(&name.replace([';', '\n'], ":")).into_owned()).collect();
        *lines.entry(names.join(";")).or_default() += count;
    }
    lines.iter().map(|(stack, count)| format!("{stack} {count}\n")).collect()
}

#[cfg(test)]
mod tests;
