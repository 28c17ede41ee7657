//! What a thread waits for, by the kernel functions in which it left the CPU.

use fathom_model::watch::ThreadState;

/// What a thread waits for in a function whose name begins so, unless it waits for an I/O.
const CAUSES: [(&[&str], ThreadState); 15] = [
    (&["throttle_cfs_rq"], ThreadState::Throttled),
    (
        &[
            "rwsem_down_",
            "__mutex_lock",
            "mutex_lock",
            "percpu_rwsem_wait",
            "__percpu_down_read",
            "percpu_down_write",
            "__down",
            "rt_mutex_slowlock",
            // Of a file, by another process.
            "flock_lock_inode_wait",
            "posix_lock_inode_wait",
            "locks_lock_inode_wait",
        ],
        ThreadState::KernelLock,
    ),
    (
        &["jbd2_", "wait_transaction", "start_this_handle", "add_transaction_credits"],
        ThreadState::Flush,
    ),
    (&["xlog_", "xfs_log_force", "btrfs_sync_log", "wait_log_commit"], ThreadState::Flush),
    (&["futex_wait", "futex_lock_pi"], ThreadState::Futex),
    (
        &[
            "pipe_",
            "anon_pipe_",
            "fifo_open",
            "wait_for_partner",
            "splice_from_pipe",
            // Message queues, and semaphores, of which only who wakes the thread tells a lock.
            "do_msgrcv",
            "do_msgsnd",
            "wq_sleep",
            "do_semtimedop",
            "__do_semtimedop",
        ],
        ThreadState::Pipe,
    ),
    (&["n_tty_", "tty_"], ThreadState::Terminal),
    (
        &[
            "ep_poll",
            "do_epoll_wait",
            "do_poll",
            "do_sys_poll",
            "do_select",
            "poll_schedule",
            "eventfd_read",
        ],
        ThreadState::Poll,
    ),
    (
        &[
            "sk_wait_",
            "sk_stream_wait",
            "__skb_wait",
            "sock_alloc_send",
            "unix_",
            "inet_",
            "__inet_",
            "tcp_",
            "netlink_",
            "vsock_",
        ],
        ThreadState::Socket,
    ),
    (&["do_nanosleep", "hrtimer_nanosleep", "timerfd_read", "msleep"], ThreadState::Timer),
    (&["do_wait", "kernel_wait", "wait_for_vfork"], ThreadState::Child),
    (
        &[
            "do_sigtimedwait",
            "sigsuspend",
            "__do_sys_pause",
            "__x64_sys_pause",
            "__arm64_sys_pause",
        ],
        ThreadState::Signal,
    ),
    (&["io_cqring_"], ThreadState::IoUring),
    (&["read_events"], ThreadState::Aio),
    (&["io_wq_worker", "io_sq_thread"], ThreadState::KernelThread),
];

/// Parts of the names of functions that wait until data is on the disk.
const FLUSHES: [&str; 8] = [
    "fsync",
    "fdatasync",
    "sync_file",
    "sys_msync",
    "syncfs",
    "ksys_sync",
    "generic_write_sync",
    "issue_flush",
];

/// Functions on the way from a memory access to what brings its page.
const FAULTS: [&str; 4] =
    ["exc_page_fault", "do_user_addr_fault", "do_page_fault", "handle_mm_fault"];

/// The function through which a page comes from swap.
const SWAP_IN: &str = "do_swap_page";

/// Functions in which every wait ends up: they say nothing about it.
const GENERIC: [&str; 16] = [
    "__schedule",
    "schedule",
    "io_schedule",
    "preempt_schedule",
    "__cond_resched",
    "bit_wait",
    "__wait_on_bit",
    "out_of_line_wait_on_bit",
    "wait_for_completion",
    "__wait_for_common",
    "wait_for_common",
    "wait_woken",
    "do_wait_intr",
    "__traceiter_",
    "blk_wait_io",
    "submit_bio_wait",
];

/// States of a task as `sched:sched_switch` reports them (`TASK_*` in include/linux/sched.h).
const UNINTERRUPTIBLE: u64 = 0x02;
const STOPPED_OR_TRACED: u64 = 0x04 | 0x08;
const IDLE: u64 = 0x80;

/// What a thread that left the CPU in `state`, other than runnable, waits for, and the function in which it does.
/// `functions` are innermost first.
pub(super) fn cause<'a>(state: u64, functions: &[&'a str]) -> (ThreadState, &'a str) {
    let is_any = |parts: &[&str], name: &str| parts.iter().any(|part| name.contains(part));
    let begins = |parts: &[&str], name: &str| parts.iter().any(|part| name.starts_with(part));
    let telling = functions.iter().find(|name| !begins(&GENERIC, name)).copied().unwrap_or("");
    if state & STOPPED_OR_TRACED != 0 {
        return (ThreadState::Stopped, telling);
    }
    let mut waits = functions.iter().take_while(|name| begins(&GENERIC, name));
    let is_io = waits.any(|name| name.starts_with("io_schedule") || name.ends_with("_io"));
    let known = || {
        // Its lock is one of the kernel's, but what is waited for is the program's.
        if let Some(name) = functions.iter().find(|name| name.starts_with("futex_lock_pi")) {
            return Some((ThreadState::Futex, *name));
        }
        functions.iter().filter(|name| !begins(&GENERIC, name)).find_map(|name| {
            let (_, cause) = CAUSES.iter().find(|(parts, _)| begins(parts, name))?;
            Some((*cause, *name))
        })
    };
    let (found, function) = match known() {
        _ if is_io => (ThreadState::Disk, telling),
        Some(known) => known,
        None if state & UNINTERRUPTIBLE != 0 && state & IDLE == 0 => (ThreadState::Disk, telling),
        None if functions.is_empty() => (ThreadState::Unknown, ""),
        None => (ThreadState::Other, telling),
    };
    // Whether a page comes from swap or from a file decides what limits the program.
    let swap = functions.iter().find(|name| name.starts_with(SWAP_IN)).copied();
    let passes = |parts: &[&str]| functions.iter().any(|name| is_any(parts, name));
    match found {
        ThreadState::Disk if passes(&FLUSHES) => (ThreadState::Flush, function),
        // Writers of mapped files wait there for writeback, not for a page.
        ThreadState::Disk if passes(&["balance_dirty_pages"]) => (ThreadState::Disk, function),
        ThreadState::Disk if passes(&FAULTS) => (ThreadState::PageFault, swap.unwrap_or(function)),
        found => (found, function),
    }
}

/// What has come when an interrupt wakes a thread through a function whose name begins so.
const INTERRUPTS: [(&[&str], ThreadState); 4] = [
    (
        &[
            "hrtimer_wakeup",
            "process_timeout",
            "timerfd_",
            "alarmtimer_",
            "alarm_handle_timer",
            "it_real_fn",
            "posix_timer_fn",
        ],
        ThreadState::Timer,
    ),
    (&["aio_complete", "iocb_put"], ThreadState::Aio),
    (&["io_complete_rw", "io_req_", "__io_req_", "io_eventfd", "io_cqring_"], ThreadState::IoUring),
    (&["bio_endio", "blk_", "__blk_"], ThreadState::Disk),
];

/// Functions through which an interrupt is entered: what was interrupted follows.
const ENTRIES: [&str; 8] = [
    "asm_",
    "sysvec_",
    "__sysvec_",
    "common_interrupt",
    "el1h_64_irq",
    "el1_interrupt",
    "el0_interrupt",
    "handle_softirqs",
];

/// What a thread that an interrupt woke has waited for, if that is known; `functions` are innermost first.
pub(super) fn interrupt(functions: &[&str]) -> Option<ThreadState> {
    let begins = |parts: &[&str], name: &str| parts.iter().any(|part| name.starts_with(part));
    let of_interrupt = functions.iter().take_while(|name| !begins(&ENTRIES, name));
    let found = |name: &&str| INTERRUPTS.iter().find(|(parts, _)| begins(parts, name));
    of_interrupt.filter_map(found).map(|(_, state)| *state).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state of a thread, its kernel stack, what it waits for, and the function that shows it.
    const WAITS: [(u64, &str, ThreadState, &str); 25] = [
        (
            1,
            "__schedule schedule __do_semtimedop do_semtimedop __x64_sys_semop do_syscall_64",
            ThreadState::Pipe,
            "__do_semtimedop",
        ),
        (
            1,
            "__schedule schedule schedule_hrtimeout_range_clock wq_sleep.constprop.0 do_mq_timedreceive",
            ThreadState::Pipe,
            "wq_sleep.constprop.0",
        ),
        (
            2,
            "__schedule schedule io_schedule blk_mq_get_tag __blk_mq_alloc_requests submit_bio __x64_sys_pread64",
            ThreadState::Disk,
            "blk_mq_get_tag",
        ),
        (
            2,
            "__schedule schedule io_schedule folio_wait_bit_common filemap_fault __do_fault handle_mm_fault \
             do_user_addr_fault exc_page_fault asm_exc_page_fault",
            ThreadState::PageFault,
            "folio_wait_bit_common",
        ),
        (
            2,
            "__schedule schedule io_schedule folio_wait_bit_common __folio_lock_or_retry do_swap_page handle_mm_fault \
             do_user_addr_fault exc_page_fault asm_exc_page_fault",
            ThreadState::PageFault,
            "do_swap_page",
        ),
        (
            2,
            "__schedule schedule jbd2_log_wait_commit jbd2_complete_transaction ext4_fsync_journal ext4_sync_file \
             do_fsync __x64_sys_fdatasync",
            ThreadState::Flush,
            "jbd2_log_wait_commit",
        ),
        (
            2,
            "__schedule schedule io_schedule folio_wait_bit_common folio_wait_writeback __filemap_fdatawait_range \
             file_write_and_wait_range ext4_sync_file vfs_fsync_range",
            ThreadState::Flush,
            "folio_wait_bit_common",
        ),
        (
            2,
            "__schedule schedule schedule_preempt_disabled rwsem_down_write_slowpath down_write ext4_buffered_write_iter",
            ThreadState::KernelLock,
            "rwsem_down_write_slowpath",
        ),
        (
            1,
            "__schedule schedule futex_wait_queue __futex_wait futex_wait do_futex",
            ThreadState::Futex,
            "futex_wait_queue",
        ),
        (
            1,
            "__schedule schedule schedule_hrtimeout_range ep_poll do_epoll_wait",
            ThreadState::Poll,
            "ep_poll",
        ),
        (
            1,
            "__schedule schedule schedule_timeout unix_stream_read_generic unix_stream_recvmsg",
            ThreadState::Socket,
            "unix_stream_read_generic",
        ),
        (1, "__schedule schedule pipe_read vfs_read ksys_read", ThreadState::Pipe, "pipe_read"),
        (
            1,
            "__schedule schedule schedule_timeout wait_woken n_tty_read tty_read",
            ThreadState::Terminal,
            "n_tty_read",
        ),
        (
            1,
            "__schedule schedule do_nanosleep hrtimer_nanosleep",
            ThreadState::Timer,
            "do_nanosleep",
        ),
        (
            1,
            "__schedule schedule io_cqring_wait __do_sys_io_uring_enter",
            ThreadState::IoUring,
            "io_cqring_wait",
        ),
        (
            4,
            "__schedule schedule do_signal_stop get_signal",
            ThreadState::Stopped,
            "do_signal_stop",
        ),
        (
            1,
            "__schedule schedule some_driver_read vfs_read",
            ThreadState::Other,
            "some_driver_read",
        ),
        (
            2,
            "__schedule schedule request_wait_answer fuse_simple_request",
            ThreadState::Disk,
            "request_wait_answer",
        ),
        (
            2,
            "__schedule schedule io_schedule blk_wait_io submit_bio_wait blkdev_issue_discard ext4_free_blocks \
             ext4_evict_inode do_unlinkat",
            ThreadState::Disk,
            "blkdev_issue_discard",
        ),
        // A polling thread that submits I/Os for others.
        (
            2,
            "__schedule schedule io_schedule blk_mq_get_tag io_submit_sqes io_sq_thread",
            ThreadState::Disk,
            "blk_mq_get_tag",
        ),
        (
            1,
            "__schedule schedule io_sq_thread ret_from_fork",
            ThreadState::KernelThread,
            "io_sq_thread",
        ),
        (1, "", ThreadState::Unknown, ""),
        (
            1,
            "__schedule schedule do_wait_intr_irq timerfd_read vfs_read",
            ThreadState::Timer,
            "timerfd_read",
        ),
        (
            1,
            "__schedule schedule do_wait kernel_wait4 __do_sys_wait4",
            ThreadState::Child,
            "do_wait",
        ),
        (
            1,
            "__schedule schedule rt_mutex_slowlock_block futex_lock_pi do_futex",
            ThreadState::Futex,
            "futex_lock_pi",
        ),
    ];

    #[test]
    fn waits_are_told_apart_by_their_functions() {
        for (state, stack, wanted, function) in WAITS {
            let functions: Vec<&str> = stack.split_whitespace().collect();
            assert_eq!(cause(state, &functions), (wanted, function), "{stack}");
        }
    }

    #[test]
    fn interrupts_are_told_apart_by_their_functions() {
        let check = |stack: &str, wanted: Option<ThreadState>| {
            let functions: Vec<&str> = stack.split_whitespace().collect();
            assert_eq!(interrupt(&functions), wanted, "{stack}");
        };
        check(
            "try_to_wake_up hrtimer_wakeup __hrtimer_run_queues hrtimer_interrupt __sysvec_apic_timer_interrupt",
            Some(ThreadState::Timer),
        );
        check(
            "try_to_wake_up pollwake __wake_up_common_lock eventfd_signal_mask aio_complete aio_complete_rw \
             blkdev_bio_end_io_async blk_update_request blk_mq_end_request virtblk_done vring_interrupt \
             __handle_irq_event_percpu common_interrupt asm_common_interrupt",
            Some(ThreadState::Aio),
        );
        // It interrupted the end of a request, which has nothing to do with it.
        check(
            "try_to_wake_up ep_poll_callback __wake_up_common input_event asm_common_interrupt blk_update_request",
            None,
        );
        check("", None);
    }
}
