use super::*;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

const KIND: u32 = bindings::PERF_RECORD_SAMPLE;

/// A synthetic ring with one page of records, and the offset after its last record.
struct Kernel {
    ring: PerfRing,
    at: u64,
}

impl Kernel {
    fn new() -> Self {
        let page = rustix::param::page_size();
        let memory = memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, 2 * page as u64).unwrap();
        Self { ring: PerfRing::of(memory.as_fd(), page).unwrap(), at: 0 }
    }

    fn room(&self) -> usize {
        self.ring.size - (self.at - self.ring.tail().load(Ordering::Acquire)) as usize
    }

    /// Writes in the kernel's order: the whole record, then the head.
    fn write(&mut self, kind: u32, body: &[u8]) {
        let size = (HEADER + body.len()) as u16;
        self.write_sized(kind, body, size);
    }

    fn write_sized(&mut self, kind: u32, body: &[u8], size: u16) {
        assert!(self.room() >= HEADER + body.len());
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(7u16.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend(body);
        for byte in bytes {
            let place = self.ring.mapped - self.ring.size + self.at as usize % self.ring.size;
            // SAFETY: within the mapping.
            unsafe { self.ring.page.as_ptr().cast::<u8>().add(place).write(byte) };
            self.at += 1;
        }
        self.ring.head().store(self.at, Ordering::Release);
    }

    fn drain(&mut self) -> Vec<(u32, u16, Vec<u8>)> {
        let mut seen = Vec::new();
        self.ring.drain(|record| seen.push((record.kind, record.misc, record.body.to_vec())));
        seen
    }
}

#[test]
fn records_come_once_and_in_order() {
    let mut kernel = Kernel::new();
    assert_eq!(kernel.drain(), []);
    kernel.write(KIND, &[1; 8]);
    kernel.write(bindings::PERF_RECORD_COMM, &[2; 16]);
    kernel.write(KIND, &[]);
    let comm = bindings::PERF_RECORD_COMM;
    assert_eq!(
        kernel.drain(),
        [(KIND, 7, vec![1; 8]), (comm, 7, vec![2; 16]), (KIND, 7, Vec::new())]
    );
    assert_eq!(kernel.drain(), []);
    assert_eq!(kernel.room(), kernel.ring.size);
}

#[test]
fn records_wrap_around_at_every_offset() {
    let mut kernel = Kernel::new();
    let mut expected = Vec::new();
    let mut seen = Vec::new();
    // 24 bytes with the header: 4096 is not a multiple, so headers and bodies are split everywhere.
    for number in 0..2000u64 {
        let body = [number.to_ne_bytes(), (!number).to_ne_bytes()].concat();
        if kernel.room() < HEADER + body.len() {
            seen.extend(kernel.drain());
        }
        kernel.write(KIND, &body);
        expected.push((KIND, 7, body));
    }
    seen.extend(kernel.drain());
    assert_eq!(seen, expected);
    assert!(kernel.at > 10 * kernel.ring.size as u64);
}

#[test]
fn lost_records_are_counted() {
    let mut kernel = Kernel::new();
    let lost = [1u64.to_ne_bytes(), 41u64.to_ne_bytes()].concat();
    kernel.write(bindings::PERF_RECORD_LOST, &lost);
    kernel.write(bindings::PERF_RECORD_LOST_SAMPLES, &2u64.to_ne_bytes());
    kernel.write(KIND, &[3; 8]);
    assert_eq!(kernel.drain(), [(KIND, 7, vec![3; 8])]);
    assert_eq!((kernel.ring.take_lost(), kernel.ring.take_lost()), (43, 0));
}

#[test]
fn invalid_lengths_end_the_round() {
    for size in [0, 7, 4000] {
        let mut kernel = Kernel::new();
        kernel.write(KIND, &[1; 8]);
        kernel.write_sized(KIND, &[2; 8], size);
        assert_eq!(kernel.drain(), [(KIND, 7, vec![1; 8])], "{size}");
        assert_eq!((kernel.ring.take_lost(), kernel.room()), (1, kernel.ring.size));
        kernel.write(KIND, &[3; 8]);
        assert_eq!(kernel.drain(), [(KIND, 7, vec![3; 8])], "{size}");
    }
}

#[test]
fn bodies_are_read_within_their_bounds() {
    let body = [5u32.to_ne_bytes().as_slice(), b"abc\0def\0"].concat();
    let record = PerfRecord { kind: KIND, misc: 0, body: &body };
    assert_eq!((record.u32_at(0), record.u32_at(9), record.u32_at(99)), (Some(5), None, None));
    assert_eq!((record.u64_at(5), record.u64_at(usize::MAX)), (None, None));
    assert_eq!(record.text_at(4).as_deref(), Some("abc"));
    assert_eq!((record.text_at(12).as_deref(), record.text_at(13)), (Some(""), None));
}
