//! Kernel symbols, from /proc/kallsyms, whose more than 100,000 lines a thread reads at idle priority.

use crate::watcher::thread_time;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Maximum length of a kernel function: addresses further from the preceding symbol are unknown.
const LONGEST: u64 = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Kallsyms {
    functions: Vec<KernelSymbol>,
    names: String,
}

/// The symbols last read, with their procfs and when: samplers opened later, such as those of each window of an experiment,
/// do not read them again.
static LAST_READ: Mutex<Option<(PathBuf, Arc<Kallsyms>, Instant)>> = Mutex::new(None);

#[derive(Debug, Clone, Copy)]
struct KernelSymbol {
    start: u64,
    name: u32,
    length: u16,
    /// Of several names for one address, the one with the highest rank is used.
    rank: u16,
}

impl Kallsyms {
    /// Reads `kallsyms` below procfs's mount point. Empty if the kernel hides addresses from this
    /// user (kernel.kptr_restrict).
    pub fn read(proc_root: &Path) -> io::Result<Self> {
        std::fs::read(proc_root.join("kallsyms")).map(|text| Self::parse(&text))
    }

    /// Shares these symbols, read just now, with [`Kallsyms::last`].
    pub fn share(self, proc_root: &Path) -> Arc<Self> {
        let table = Arc::new(self);
        if !table.functions.is_empty() {
            let last = (proc_root.to_path_buf(), Arc::clone(&table), Instant::now());
            *LAST_READ.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
        }
        table
    }

    /// The symbols that this program has last read, and when, if they were of this procfs.
    pub fn last(proc_root: &Path) -> Option<(Arc<Self>, Instant)> {
        let last = LAST_READ.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, table, at) = last.as_ref().filter(|(root, ..)| root == proc_root)?;
        Some((Arc::clone(table), *at))
    }

    /// Whether the file shows addresses to this user: hidden ones are all 0.
    pub fn shown(proc_root: &Path) -> io::Result<bool> {
        let file = BufReader::new(File::open(proc_root.join("kallsyms"))?);
        // The first few symbols may be per-CPU offsets, which start at 0 for everyone.
        for line in file.split(b'\n').take(99) {
            if line?.iter().take_while(|byte| **byte != b' ').any(|byte| *byte != b'0') {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The address of the first function with one of these names; `None` if addresses are hidden.
    pub fn address(proc_root: &Path, names: &[&str]) -> Option<u64> {
        let file = BufReader::new(File::open(proc_root.join("kallsyms")).ok()?);
        file.split(b'\n').map_while(Result::ok).find_map(|line| {
            let function = function(&line)?;
            names.contains(&function.name).then_some(function.start)
        })
    }

    pub(super) fn parse(text: &[u8]) -> Self {
        let mut this = Self::default();
        for line in text.split(|byte| *byte == b'\n') {
            if let Some(function) = function(line) {
                this.add(&function);
            }
        }
        let best_first = |f: &KernelSymbol| (f.start, std::cmp::Reverse(f.rank));
        this.functions.sort_unstable_by_key(best_first);
        this.functions.dedup_by_key(|function| function.start);
        this.functions.shrink_to_fit();
        this
    }

    fn add(&mut self, line: &KallsymsLine<'_>) {
        let name = plain(line.name);
        // As in /proc/kallsyms, with a space instead of a tab.
        let gap = if line.module.is_empty() { "" } else { " " };
        let length = name.len() + gap.len() + line.module.len();
        let (Ok(at), Ok(length)) = (u32::try_from(self.names.len()), u16::try_from(length)) else {
            return;
        };
        let underscores = name.bytes().take_while(|byte| *byte == b'_').count().min(99) as u16;
        // As in perf: global names first, then those with the fewest leading underscores.
        let rank = u16::from(line.global) * 100 + 99 - underscores;
        self.names.extend([name, gap, line.module]);
        self.functions.push(KernelSymbol { start: line.start, name: at, length, rank });
    }

    /// The name of the function at `address`, with its module if any: `nvme_queue_rq [nvme]`.
    pub fn name(&self, address: u64) -> Option<&str> {
        let next = self.functions.partition_point(|function| function.start <= address);
        let function = self.functions[..next].last()?;
        let at = function.name as usize;
        let name = self.names.get(at..at + usize::from(function.length));
        name.filter(|_| address - function.start < LONGEST)
    }
}

/// A line `ffffffff81000000 T _stext` or `ffffffffc0203000 t nvme_queue_rq [nvme]`.
struct KallsymsLine<'a> {
    start: u64,
    global: bool,
    name: &'a str,
    /// Without brackets; empty for the kernel itself.
    module: &'a str,
}

fn function(line: &[u8]) -> Option<KallsymsLine<'_>> {
    let (start, rest) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let (kind, rest) = rest.split_once(' ')?;
    let mut words = rest.split(['\t', ' ']);
    let name = words.next().filter(|name| !name.is_empty())?;
    let module = words.next().unwrap_or_default();
    let start = u64::from_str_radix(start, 16).ok().filter(|start| *start != 0)?;
    let global = matches!(kind, "T");
    // Function prefix padding and section markers are not functions.
    let marks = ["_text", "_stext", "_etext"].contains(&name) || name.starts_with("__pfx_");
    let is_function = !marks && matches!(kind, "t" | "T" | "w" | "W");
    is_function.then_some(KallsymsLine { start, global, name, module })
}

/// The name without the suffixes of partial or cloned functions: `.cold`, `.isra.0`,
/// `.constprop.0`, `.part.0`, `.llvm.123`. C identifiers have no dots.
fn plain(name: &str) -> &str {
    match name.find('.') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    }
}

/// A thread that reads the symbols under SCHED_IDLE.
#[derive(Debug)]
pub(super) struct KallsymsReader {
    thread: JoinHandle<(io::Result<Kallsyms>, u64)>,
    pub tid: i32,
    pub began: Instant,
}

impl KallsymsReader {
    pub fn start(proc_root: &Path) -> io::Result<Self> {
        let proc_root = proc_root.to_path_buf();
        let (tid_sender, tid_receiver) = mpsc::channel();
        let body = move || {
            // Without SCHED_IDLE it reads at normal priority.
            let _ = tid_sender.send(rustix::thread::gettid().as_raw_nonzero().get());
            schedule(0, libc::SCHED_IDLE);
            let table = Kallsyms::read(&proc_root);
            (table, thread_time())
        };
        let thread = thread::Builder::new().name("fathom-names".into()).spawn(body)?;
        Ok(Self { thread, tid: tid_receiver.recv().unwrap_or_default(), began: Instant::now() })
    }

    pub fn is_done(&self) -> bool {
        self.thread.is_finished()
    }

    /// Restores normal priority and waits for the thread. Returns the symbols and the CPU time
    /// used, in nanoseconds.
    pub fn finish(self) -> (io::Result<Kallsyms>, u64) {
        schedule(self.tid, libc::SCHED_OTHER);
        self.thread.join().unwrap_or_else(|_| (Err(io::ErrorKind::Other.into()), 0))
    }
}

fn schedule(tid: i32, policy: i32) {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure outlives the call, which only reads it.
    unsafe { libc::sched_setscheduler(tid, policy, &raw const param) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
ffffffff81000000 T _stext
ffffffff81000000 t start_here
ffffffff81000100 t blk_mq_try_issue_list_directly.isra.0
ffffffff81000240 T __se_sys_read
ffffffff81000240 t read_local
ffffffff81000240 T sys_read
ffffffff81000240 W sys_read_weak_and_long
ffffffff81000400 t __pfx_after
ffffffff81000410 T after
ffffffff81000500 D data
ffffffffc0203000 t nvme_queue_rq\t[nvme]
ffffffffc0001000 t ext4_map_blocks.cold\t[ext4]
nonsense
zzzz T x
ffffffff81000700 T
0000000000000000 A fixed_percpu_data
";

    #[test]
    fn addresses_are_resolved() {
        let table = Kallsyms::parse(TEXT.as_bytes());
        let expected = [
            (0xffff_ffff_8000_0000, None),
            (0xffff_ffff_8100_0000, Some("start_here")),
            (0xffff_ffff_8100_0100, Some("blk_mq_try_issue_list_directly")),
            (0xffff_ffff_8100_023f, Some("blk_mq_try_issue_list_directly")),
            (0xffff_ffff_8100_0240, Some("sys_read")),
            (0xffff_ffff_8100_0408, Some("sys_read")),
            (0xffff_ffff_8100_0500, Some("after")),
            (0xffff_ffff_8200_0000, None),
            (0xffff_ffff_c000_1004, Some("ext4_map_blocks [ext4]")),
            (0xffff_ffff_c020_3001, Some("nvme_queue_rq [nvme]")),
            (0xffff_ffff_c020_3000 + LONGEST, None),
            (u64::MAX, None),
        ];
        for (address, name) in expected {
            assert_eq!(table.name(address), name, "{address:x}");
        }
    }

    #[test]
    fn hidden_addresses_are_not_functions() {
        let text = "0000000000000000 T _stext\n0000000000000000 T vfs_read\n";
        let table = Kallsyms::parse(text.as_bytes());
        assert!(table.functions.is_empty());
        assert_eq!(table.name(0), None);
    }

    #[test]
    fn the_running_kernels_functions() {
        let table = Kallsyms::read(Path::new("/proc")).unwrap();
        if table.functions.is_empty() {
            eprintln!("skipped: /proc/kallsyms shows no addresses to this user");
            return;
        }
        let text = std::fs::read_to_string("/proc/kallsyms").unwrap();
        let line = text.lines().find(|line| line.ends_with(" T vfs_read")).unwrap();
        let address = u64::from_str_radix(&line[..16], 16).unwrap();
        assert_eq!(table.name(address + 5), Some("vfs_read"));
    }
}
