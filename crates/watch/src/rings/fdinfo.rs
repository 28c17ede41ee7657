//! /proc/PID/fdinfo/FD of a ring (io_uring/fdinfo.c of the kernel), parsed by key: kernels add,
//! omit and reorder lines.

use fathom_model::watch::{RingQueues, SqPollThread};
use std::str::FromStr;

/// A ring's fdinfo. What the kernel does not report is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FdInfo {
    /// Absent before Linux 5.14.
    pub inode: Option<u64>,
    /// Absent if the ring was locked, and before Linux 5.16.
    pub queues: Option<RingQueues>,
    /// Absent if there is none, or if an older kernel found the ring locked.
    pub sq_poll: Option<SqPollThread>,
}

/// Parses the text. Lines of entries, files and buffers start with a space or a digit and are
/// skipped.
pub(crate) fn parse(text: &[u8]) -> FdInfo {
    let text = String::from_utf8_lossy(text);
    let mut values = FdinfoValues::default();
    let mut overflowed = 0;
    let mut in_overflows = false;
    for line in text.lines() {
        match line.split_once(':') {
            Some((key, value)) if key.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                in_overflows = key == "CqOverflowList";
                values.set(key, value.trim());
            }
            _ => overflowed += u32::from(in_overflows),
        }
    }
    let inode = values.number("ino");
    FdInfo { inode, queues: queues(&values, overflowed), sq_poll: sq_poll(&values) }
}

#[derive(Default)]
struct FdinfoValues<'a>([Option<&'a str>; KEYS.len()]);

const KEYS: [&str; 15] = [
    "ino",
    "SqMask",
    "SqHead",
    "SqTail",
    "CachedSqHead",
    "CqMask",
    "CqHead",
    "CqTail",
    "CachedCqTail",
    "SqThread",
    "SqThreadCpu",
    "SqTotalTime",
    "SqWorkTime",
    "UserFiles",
    "UserBufs",
];

impl<'a> FdinfoValues<'a> {
    fn set(&mut self, key: &str, value: &'a str) {
        if let Some(index) = KEYS.iter().position(|known| *known == key) {
            self.0[index] = Some(value);
        }
    }

    fn number<T: FromStr>(&self, key: &str) -> Option<T> {
        self.text(key)?.parse().ok()
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.0[KEYS.iter().position(|known| *known == key)?]
    }
}

fn queues(values: &FdinfoValues<'_>, overflowed: u32) -> Option<RingQueues> {
    let number = |key: &str| values.number::<u32>(key);
    let entries = |key: &str| {
        let mask = values.text(key)?.strip_prefix("0x")?;
        Some(u32::from_str_radix(mask, 16).ok()?.wrapping_add(1))
    };
    Some(RingQueues {
        sq_entries: entries("SqMask")?,
        cq_entries: entries("CqMask")?,
        sq_ready: number("SqTail")?.wrapping_sub(number("SqHead")?),
        cq_ready: number("CqTail")?.wrapping_sub(number("CqHead")?),
        submitted: number("CachedSqHead")?,
        completed: number("CachedCqTail")?,
        overflowed,
        files: number("UserFiles").unwrap_or(0),
        buffers: number("UserBufs").unwrap_or(0),
    })
}

fn sq_poll(values: &FdinfoValues<'_>) -> Option<SqPollThread> {
    Some(SqPollThread {
        thread: values.number("SqThread").filter(|thread| *thread > 0)?,
        // -1 if it is not pinned.
        cpu: values.number("SqThreadCpu"),
        total_us: values.number("SqTotalTime"),
        work_us: values.number("SqWorkTime"),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Linux 6.1, SQPOLL, with entries, files and overflowed completions.
    pub const V6_1: &str = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t1035\n\
        SqMask:\t0x7\nSqHead:\t4294967290\nSqTail:\t2\nCachedSqHead:\t4294967292\n\
        CqMask:\t0xf\nCqHead:\t100\nCqTail:\t116\nCachedCqTail:\t116\n\
        SQEs:\t8\n    1: opcode:READ, fd:3, flags:0, off:0, addr:0x7f, rw_flags:0x0, \
        buf_index:0 user_data:7\nCQEs:\t16\n    4: user_data:1, res:4096, flag:0\n\
        SqThread:\t321\nSqThreadCpu:\t3\nUserFiles:\t2\n    0: sparse:SqMask\n    1: <none>\n\
        UserBufs:\t1\n    0: 0x7f0000000000/131072\nPollList:\n  op=6, task_works=0\n\
        CqOverflowList:\n  user_data=5, res=4096, flags=0\n  user_data=6, res=4096, flags=0\n";

    /// Linux 6.12, without SQPOLL.
    pub const V6_12: &str = "pos:\t0\nflags:\t02000002\nmnt_id:\t16\nino:\t2070\n\
        SqMask:\t0x1f\nSqHead:\t64\nSqTail:\t64\nCachedSqHead:\t64\n\
        CqMask:\t0x3f\nCqHead:\t32\nCqTail:\t33\nCachedCqTail:\t40\nSQEs:\t0\nCQEs:\t1\n\
        \x20  32: user_data:31, res:4096, flag:0\n\
        SqThread:\t-1\nSqThreadCpu:\t-1\nSqTotalTime:\t0\nSqWorkTime:\t0\nUserFiles:\t0\n\
        UserBufs:\t0\nPollList:\nCqOverflowList:\nNAPI:\tdisabled\n";

    /// Linux 6.18, SQPOLL.
    pub const V6_18: &str = "pos:\t0\nflags:\t02000002\nmnt_id:\t17\nino:\t993794\n\
        SqMask:\t0x7\nSqHead:\t9\nSqTail:\t9\nCachedSqHead:\t9\nCqMask:\t0xf\nCqHead:\t9\n\
        CqTail:\t9\nCachedCqTail:\t9\nSQEs:\t0\nCQEs:\t0\nSqThread:\t1973\nSqThreadCpu:\t-1\n\
        SqTotalTime:\t5000\nSqWorkTime:\t1250\nUserFiles:\t1\n    0: /tmp/a\\040file\n\
        UserBufs:\t0\nPollList:\nCqOverflowList:\nNAPI:\tdisabled\n";

    /// Linux 6.18, while the ring is locked.
    pub const LOCKED: &str = "pos:\t0\nflags:\t02000002\nmnt_id:\t17\nino:\t993794\n";

    #[test]
    fn kernel_6_1() {
        let info = parse(V6_1.as_bytes());
        assert_eq!(info.inode, Some(1035));
        let queues = info.queues.unwrap();
        assert_eq!((queues.sq_entries, queues.cq_entries), (8, 16));
        // The counters wrap.
        assert_eq!((queues.sq_ready, queues.cq_ready), (8, 16));
        assert_eq!((queues.submitted, queues.completed), (4_294_967_292, 116));
        assert_eq!((queues.overflowed, queues.files, queues.buffers), (2, 2, 1));
        let sq_poll = SqPollThread { thread: 321, cpu: Some(3), total_us: None, work_us: None };
        assert_eq!(info.sq_poll, Some(sq_poll));
    }

    #[test]
    fn kernel_6_12() {
        let info = parse(V6_12.as_bytes());
        let queues = info.queues.unwrap();
        assert_eq!((queues.submitted, queues.completed, queues.cq_ready), (64, 40, 1));
        assert_eq!(queues.overflowed, 0);
        assert_eq!(info.sq_poll, None);
    }

    #[test]
    fn kernel_6_18() {
        let info = parse(V6_18.as_bytes());
        let sq_poll =
            SqPollThread { thread: 1973, cpu: None, total_us: Some(5000), work_us: Some(1250) };
        assert_eq!(info.sq_poll, Some(sq_poll));
        assert_eq!(info.queues.unwrap().files, 1);
        let locked = FdInfo { inode: Some(993_794), ..FdInfo::default() };
        assert_eq!(parse(LOCKED.as_bytes()), locked);
    }

    #[test]
    fn malformed_text_gives_nothing() {
        for text in
            ["", ":", "SqMask:\t0xZ\n", "SqMask:\nCqMask:\n", "\u{fffd}:1", "SqThread:\t0\n"]
        {
            assert_eq!(parse(text.as_bytes()), FdInfo::default(), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}
