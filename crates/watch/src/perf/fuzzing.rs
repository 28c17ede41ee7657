//! Entry point of the fuzzer of perf data; not part of the program.

use super::{PerfRing, Tracepoint, bindings};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// A ring of one page that holds `bytes`, the first two of which say where the oldest record
/// starts, and a tracepoint whose format file they are.
///
/// # Panics
/// If a part of the ring is read twice or never, or memory is not available.
#[allow(clippy::unwrap_used, reason = "a fuzzer fails by panicking")]
pub fn perf(bytes: &[u8]) {
    let Some((start, records)) = bytes.split_first_chunk() else { return };
    let page = rustix::param::page_size();
    let records = &records[..records.len().min(page)];
    let memory = File::from(memfd_create("ring", MemfdFlags::CLOEXEC).unwrap());
    memory.set_len(2 * page as u64).unwrap();
    let tail = u64::from(u16::from_ne_bytes(*start));
    let at = tail as usize % page;
    let (first, wrapped) = records.split_at(records.len().min(page - at));
    memory.write_all_at(first, (page + at) as u64).unwrap();
    memory.write_all_at(wrapped, page as u64).unwrap();
    let head = tail + records.len() as u64;
    let head_at = offset_of!(bindings::perf_event_mmap_page, data_head) as u64;
    memory.write_all_at(&head.to_ne_bytes(), head_at).unwrap();
    let tail_at = offset_of!(bindings::perf_event_mmap_page, data_tail) as u64;
    memory.write_all_at(&tail.to_ne_bytes(), tail_at).unwrap();

    let format = String::from_utf8_lossy(records);
    let tracepoint = Tracepoint::parse("fuzz:fuzz".into(), &format);
    let mut ring = PerfRing::of(memory.as_fd(), page).unwrap();
    let mut drained = 0;
    ring.drain(|record| {
        drained += size_of::<bindings::perf_event_header>() + record.body.len();
        for at in [0, 8, record.body.len(), usize::MAX] {
            let _ = (record.u32_at(at), record.u64_at(at), record.text_at(at));
        }
    });
    assert!(drained <= records.len());
    let mut again = false;
    ring.drain(|_| again = true);
    assert!(!again, "records are drained once");
    for field in tracepoint.iter().flat_map(|found| found.field("x").or(found.field(""))) {
        let _ = (field.number(records), field.text(records));
    }
}
