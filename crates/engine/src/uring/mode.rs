//! Encodes requests as SQ entries, for each kind of request.

use super::ring::{Second, Sqe};
use crate::buffers::Slab;
use crate::error::ScsiError;
use crate::files::{FileKind, OpenFile};
use crate::queue::{Op, Request};
use fathom_model::Dir;
use linux_raw_sys::io_uring as sys;
use sys::io_uring_op as Opcode;

/// BLOCK_URING_CMD_DISCARD of linux/blkdev.h: `_IO(0x12, 0)`.
const BLOCK_DISCARD: u64 = 0x1200;
/// NVME_URING_CMD_IO of linux/nvme_ioctl.h: `_IOWR('N', 0x80, struct nvme_uring_cmd)`, 72 bytes.
const NVME_IO: u64 = 0xc048_4e80;
const NVME_FLUSH: u8 = 0;
pub(super) const NVME_WRITE: u8 = 1;
const NVME_READ: u8 = 2;

/// Files and buffers of a ring, and whether they are registered.
pub(crate) struct RingTarget {
    pub files: Vec<Handle>,
    pub buffers: BufferRegistration,
}

/// [`RingTarget`] for one batch of requests.
pub(crate) struct TargetView<'a> {
    pub files: &'a [Handle],
    pub buffers: BufferRegistration,
    /// First words of a read and a write on the first file, the only one of most jobs.
    pub read: u64,
    pub write: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct BufferRegistration {
    pub base: u64,
    pub slot_bytes: u64,
    pub fixed: bool,
    /// Slots in each buffer registration, as a shift: the kernel accepts at most 1 GiB each.
    pub registration_shift: u32,
}

#[derive(Clone, Copy)]
pub(crate) struct Handle {
    pub number: i32,
    /// IOSQE_FIXED_FILE or 0.
    pub flags: u8,
    pub kind: FileKind,
    read: u64,
    write: u64,
}

impl Handle {
    /// First word of an entry: opcode, flags, descriptor.
    fn head(&self, opcode: Opcode) -> u64 {
        opcode as u64 & 0xff | u64::from(self.flags) << 8 | (self.number as u32 as u64) << 32
    }
}

impl RingTarget {
    pub fn new(files: &[OpenFile], slab: &Slab) -> Self {
        let handle =
            |f: &OpenFile| Handle { number: f.raw(), flags: 0, kind: f.kind, read: 0, write: 0 };
        let mut target = Self {
            files: files.iter().map(handle).collect(),
            buffers: BufferRegistration {
                base: slab.address(0),
                slot_bytes: slab.slot_bytes() as u64,
                fixed: false,
                registration_shift: 31,
            },
        };
        target.registered();
        target
    }

    pub fn registered(&mut self) {
        let (read, write) = if self.buffers.fixed {
            (Opcode::IORING_OP_READ_FIXED, Opcode::IORING_OP_WRITE_FIXED)
        } else {
            (Opcode::IORING_OP_READ, Opcode::IORING_OP_WRITE)
        };
        for file in &mut self.files {
            (file.read, file.write) = (file.head(read), file.head(write));
        }
    }

    #[inline]
    pub fn view(&self) -> TargetView<'_> {
        let (read, write) = self.files.first().map_or((0, 0), |file| (file.read, file.write));
        TargetView { files: &self.files, buffers: self.buffers, read, write }
    }
}

impl TargetView<'_> {
    #[inline]
    fn first_word(&self, dir: Dir, file: u32) -> u64 {
        if file == 0 {
            return if dir == Dir::Read { self.read } else { self.write };
        }
        let handle = &self.files[file as usize];
        if dir == Dir::Read { handle.read } else { handle.write }
    }

    pub fn head(&self, opcode: Opcode, request: &Request) -> u64 {
        self.files[request.file as usize].head(opcode)
    }
}

impl BufferRegistration {
    #[inline]
    pub fn address(&self, slot: u32, request: &Request) -> u64 {
        self.base + u64::from(slot) * self.slot_bytes + u64::from(request.buffer_offset)
    }

    #[inline]
    pub fn registration(&self, slot: u32) -> u64 {
        u64::from(slot >> self.registration_shift)
    }
}

pub(crate) trait Mode {
    /// Whether entries and completions are double-sized (SQE128, CQE32).
    const WIDE: bool = false;

    /// Whether [`Mode::repeat`] saves anything.
    const REPEATS: bool = false;

    /// Fills in an entry, except for its user data.
    fn encode(&mut self, sqe: &mut Sqe<'_>, target: &TargetView<'_>, slot: u32, request: &Request);

    /// The same for an entry that holds a request with the same direction, file and length.
    #[inline]
    fn repeat(&mut self, sqe: &mut Sqe<'_>, target: &TargetView<'_>, slot: u32, request: &Request) {
        self.encode(sqe, target, slot, request);
    }

    /// The priority of the last request of `slot`; 0 is that of the thread.
    fn priority(&self, _slot: u32) -> u16 {
        0
    }

    /// Bytes transferred by a completion, or `-errno`.
    #[inline]
    fn result(&self, _slot: u32, result: i32) -> i32 {
        result
    }

    /// The same, if it takes `second`, the second result of a double-sized completion.
    #[inline]
    fn result_of_two(&self, slot: u32, result: i32, _second: Second<'_>) -> i32 {
        self.result(slot, result)
    }

    /// What is known about the first failure, beyond its errno.
    fn failure(&self) -> Option<ScsiError> {
        None
    }
}

/// READ, WRITE and their fixed-buffer variants on files and block devices; with `MULTI_REG`, of buffers in more than one
/// registration.
pub(crate) struct ReadWrite<const MULTI_REG: bool>;

impl<const MULTI_REG: bool> Mode for ReadWrite<MULTI_REG> {
    const REPEATS: bool = true;

    #[inline]
    fn encode(&mut self, sqe: &mut Sqe<'_>, target: &TargetView<'_>, slot: u32, request: &Request) {
        match request.op {
            Op::Io(dir @ (Dir::Read | Dir::Write)) => {
                sqe.words()[0] = target.first_word(dir, request.file);
                sqe.words()[3] = u64::from(request.len);
                self.repeat(sqe, target, slot, request);
            }
            op => encode_rare(sqe.words(), target, op, request),
        }
    }

    #[inline]
    fn repeat(&mut self, sqe: &mut Sqe<'_>, target: &TargetView<'_>, slot: u32, request: &Request) {
        let entry = sqe.words();
        entry[1] = request.offset;
        entry[2] = target.buffers.address(slot, request);
        if MULTI_REG {
            entry[5] = target.buffers.registration(slot);
        }
    }
}

#[cold]
fn encode_rare(entry: &mut [u64; 8], target: &TargetView<'_>, op: Op, request: &Request) {
    let punch = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u64;
    *entry = [0; 8];
    match (op, target.files[request.file as usize].kind) {
        (Op::Fsync | Op::Fdatasync, _) => {
            entry[0] = target.head(Opcode::IORING_OP_FSYNC, request);
            let datasync = if op == Op::Fdatasync { sys::IORING_FSYNC_DATASYNC } else { 0 };
            entry[3] = u64::from(datasync) << 32;
        }
        (Op::Io(_), FileKind::Block { .. }) => {
            entry[0] = target.head(Opcode::IORING_OP_URING_CMD, request);
            entry[1] = BLOCK_DISCARD;
            entry[2] = request.offset;
            entry[6] = u64::from(request.len);
        }
        (Op::Io(_), _) => {
            // IORING_OP_FALLOCATE has its length in `addr` and its mode in `len`.
            entry[0] = target.head(Opcode::IORING_OP_FALLOCATE, request);
            entry[1] = request.offset;
            entry[2] = u64::from(request.len);
            entry[3] = punch;
        }
    }
}

/// READV and WRITEV, one vector each (`nonvectored=0`).
pub(crate) struct Vectored {
    vectors: Vec<libc::iovec>,
}

impl Vectored {
    pub fn new(slots: u32) -> Self {
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Self { vectors: vec![empty; slots as usize] }
    }
}

impl Mode for Vectored {
    fn encode(&mut self, sqe: &mut Sqe<'_>, target: &TargetView<'_>, slot: u32, request: &Request) {
        let entry = sqe.words();
        let opcode = match request.op {
            Op::Io(Dir::Read) => Opcode::IORING_OP_READV,
            Op::Io(Dir::Write) => Opcode::IORING_OP_WRITEV,
            op => return encode_rare(entry, target, op, request),
        };
        let vector = &mut self.vectors[slot as usize];
        vector.iov_base = target.buffers.address(slot, request) as *mut libc::c_void;
        vector.iov_len = request.len as usize;
        entry[0] = target.head(opcode, request);
        entry[1] = request.offset;
        entry[2] = std::ptr::from_ref(vector) as u64;
        entry[3] = 1;
        entry[5] = 0;
    }
}

pub(crate) struct Nop {
    lengths: Vec<i32>,
}

impl Nop {
    pub fn new(slots: u32) -> Self {
        Self { lengths: vec![0; slots as usize] }
    }
}

impl Mode for Nop {
    #[inline]
    fn encode(
        &mut self,
        sqe: &mut Sqe<'_>,
        _target: &TargetView<'_>,
        slot: u32,
        request: &Request,
    ) {
        self.lengths[slot as usize] = request.len as i32;
        let entry = sqe.words();
        entry[0] = Opcode::IORING_OP_NOP as u64;
        entry[3] = 0;
    }

    #[inline]
    fn result(&self, slot: u32, result: i32) -> i32 {
        if result == 0 { self.lengths.get(slot as usize).map_or(0, |len| *len) } else { result }
    }
}

pub(crate) struct Passthrough {
    lengths: Vec<i32>,
}

impl Passthrough {
    pub fn new(slots: u32) -> Self {
        Self { lengths: vec![0; slots as usize] }
    }

    /// An entry that the kernel rejects (EINVAL).
    pub const INVALID: [[u64; 8]; 2] =
        [[Opcode::IORING_OP_LAST as u64, 0, 0, 0, 0, 0, 0, 0], [0; 8]];

    pub fn expect(&mut self, slot: u32, bytes: i32) {
        self.lengths[slot as usize] = bytes;
    }

    /// Both halves of the entry.
    pub fn entry(
        &mut self,
        target: &TargetView<'_>,
        slot: u32,
        request: &Request,
    ) -> [[u64; 8]; 2] {
        let (nsid, lba_bytes) = match target.files[request.file as usize].kind {
            FileKind::NvmeGeneric { nsid, lba_bytes, .. } if is_command(lba_bytes, request) => {
                (nsid, lba_bytes)
            }
            // Set-up excludes all other requests; should one occur, it must fail (EINVAL).
            _ => return Self::INVALID,
        };
        let moves = matches!(request.op, Op::Io(_));
        self.lengths[slot as usize] = if moves { request.len as i32 } else { 0 };
        let fixed = moves && target.buffers.fixed;
        // `uring_cmd_flags`: take the buffer from the registration.
        let flags = u64::from(if fixed { sys::IORING_URING_CMD_FIXED } else { 0 }) << 32;
        let head = target.head(Opcode::IORING_OP_URING_CMD, request);
        let registration = if fixed { target.buffers.registration(slot) } else { 0 };
        // The 72-byte command starts in the last two words of the entry and continues in its extension.
        let c = nvme_command(nsid, lba_bytes, target.buffers.address(slot, request), request);
        [
            [head, NVME_IO, 0, flags, 0, registration, c[0], c[1]],
            [c[2], c[3], c[4], c[5], c[6], c[7], c[8], 0],
        ]
    }
}

impl Mode for Passthrough {
    const WIDE: bool = true;

    fn encode(&mut self, sqe: &mut Sqe<'_>, target: &TargetView<'_>, slot: u32, request: &Request) {
        [*sqe.words(), *sqe.extension()] = self.entry(target, slot, request);
    }

    #[inline]
    fn result(&self, slot: u32, result: i32) -> i32 {
        match result {
            0 => self.lengths.get(slot as usize).map_or(0, |len| *len),
            // A positive result is an NVMe status code, not a length.
            status if status > 0 => -nvme_errno(status),
            error => error,
        }
    }
}

/// The errno for an NVMe status, as for block devices (`nvme_error_status` in drivers/nvme/host/core.c), so
/// that both ways to a disk report the same errors.
#[cold]
fn nvme_errno(status: i32) -> i32 {
    // The higher bits are retry hints.
    match status & 0x7ff {
        0x01 | 0x02 | 0x0b | 0x180 => libc::EOPNOTSUPP,
        0x21 | 0x80 | 0x82 => libc::EREMOTEIO,
        0x81 => libc::ENOSPC,
        0x83 => libc::EBADE,
        0x182 | 0x280 | 0x281 | 0x285..=0x287 => libc::ENODATA,
        0x181 | 0x282..=0x284 => libc::EILSEQ,
        0x370 => libc::ENOLINK,
        _ => libc::EIO,
    }
}

/// Whether a command can express `request`: a read or write of 1 to 65,536 whole blocks, or a flush.
fn is_command(lba_bytes: u32, request: &Request) -> bool {
    let blocks = || request.len / lba_bytes;
    match request.op {
        Op::Fsync | Op::Fdatasync => true,
        Op::Io(Dir::Trim) => false,
        Op::Io(_) => {
            lba_bytes.is_power_of_two()
                && request.len.is_multiple_of(lba_bytes)
                && request.offset.is_multiple_of(u64::from(lba_bytes))
                && (1..=1 << 16).contains(&blocks())
        }
    }
}

/// `struct nvme_uring_cmd` of linux/nvme_ioctl.h, as nine words.
fn nvme_command(nsid: u32, lba_bytes: u32, address: u64, request: &Request) -> [u64; 9] {
    let shift = lba_bytes.trailing_zeros();
    let lba = request.offset >> shift;
    let (opcode, blocks, address, length) = match request.op {
        Op::Io(Dir::Read) => (NVME_READ, (request.len >> shift) - 1, address, request.len),
        Op::Io(_) => (NVME_WRITE, (request.len >> shift) - 1, address, request.len),
        Op::Fsync | Op::Fdatasync => (NVME_FLUSH, 0, 0, 0),
    };
    let lba = if length == 0 { 0 } else { lba };
    [
        u64::from(opcode) | u64::from(nsid) << 32,
        0,                       // cdw2, cdw3
        0,                       // metadata
        address,                 // addr
        u64::from(length) << 32, // metadata_len, data_len
        lba,                     // cdw10, cdw11: starting LBA
        u64::from(blocks),       // cdw12: number of logical blocks, 0's based; cdw13
        0,                       // cdw14, cdw15
        0,                       // timeout_ms, reserved
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvme_commands_follow_the_specification() {
        let request = Request {
            op: Op::Io(Dir::Read),
            file: 0,
            offset: 8192 * 512,
            len: 4096,
            buffer_offset: 0,
        };
        let c = nvme_command(7, 512, 0xabc000, &request);
        assert_eq!(c[0], 2 | 7 << 32);
        assert_eq!((c[3], c[4] >> 32, c[5], c[6]), (0xabc000, 4096, 8192, 7));
        let last = Request { offset: (1 << 40) - 4096, ..request };
        assert_eq!(nvme_command(1, 4096, 0, &last)[5..7], [(1 << 28) - 1, 0]);
        let flush = nvme_command(1, 512, 0x1000, &Request { op: Op::Fsync, ..request });
        assert_eq!((flush[0] & 0xff, flush[3], flush[4], flush[5], flush[6]), (0, 0, 0, 0, 0));
        let write = nvme_command(1, 512, 0x1000, &Request { op: Op::Io(Dir::Write), ..request });
        assert_eq!(write[0] & 0xff, 1);
    }

    #[test]
    fn statuses_are_called_what_the_kernel_calls_them() {
        let passthrough = Passthrough::new(1);
        let (do_not_retry, unrecovered_read, lba_out_of_range) = (0x4000, 0x281, 0x80);
        assert_eq!(passthrough.result(0, do_not_retry | unrecovered_read), -libc::ENODATA);
        assert_eq!(passthrough.result(0, lba_out_of_range), -libc::EREMOTEIO);
        assert_eq!(passthrough.result(0, 0x06), -libc::EIO, "an internal error");
        assert_eq!(passthrough.result(0, -libc::EINTR), -libc::EINTR);
    }

    #[test]
    fn passthrough_refuses_what_no_command_can_say() {
        let opcode = |op, offset, len| {
            let kind = FileKind::NvmeGeneric { nsid: 1, lba_bytes: 4096, metadata: None };
            let target = TargetView {
                files: &[Handle { number: 3, flags: 0, kind, read: 0, write: 0 }],
                buffers: BufferRegistration {
                    base: 0x10000,
                    slot_bytes: 1 << 30,
                    fixed: false,
                    registration_shift: 31,
                },
                read: 0,
                write: 0,
            };
            let request = Request { op, file: 0, offset, len, buffer_offset: 0 };
            Passthrough::new(1).entry(&target, 0, &request)[0][0] & 0xff
        };
        let (last, command) = (Opcode::IORING_OP_LAST as u64, Opcode::IORING_OP_URING_CMD as u64);
        let read = Op::Io(Dir::Read);
        for (offset, len) in
            [(0, 0), (0, 272), (0, 512), (0, 6144), (512, 4096), (0, (1 << 28) + 4096)]
        {
            assert_eq!(opcode(read, offset, len), last, "{len} bytes at {offset}");
        }
        assert_eq!(opcode(Op::Io(Dir::Trim), 0, 4096), last);
        assert_eq!(opcode(read, 8192, 1 << 28), command);
        assert_eq!(opcode(Op::Io(Dir::Write), 4096, 4096), command);
        assert_eq!(opcode(Op::Fsync, 0, 0), command);
    }
}
