//! SCSI commands on a ring, through a bsg device (`struct bsg_uring_cmd` of linux/bsg.h).

use super::mode::{Mode, Passthrough, TargetView};
use super::ring::{Second, Sqe};
use crate::error::ScsiError;
use crate::files::FileKind;
use crate::queue::Request;
use crate::sg::{CommandBlock, Data, TIMEOUT_MS, UNMAP_BYTES, command};
use fathom_model::plan::ScsiCommands;
use linux_raw_sys::io_uring as sys;
use std::cell::Cell;

const SENSE_BYTES: usize = 64;

/// What the kernel reads and writes while a command is in flight.
struct CommandSlot {
    block: [u8; 16],
    list: [u8; UNMAP_BYTES],
    sense: [u8; SENSE_BYTES],
    /// The result of a command that succeeds, in bytes, and how many of them it transfers.
    expected: u32,
    transferred: u32,
}

pub(crate) struct Bsg {
    plan: ScsiCommands,
    slots: Box<[CommandSlot]>,
    failure: Cell<Option<ScsiError>>,
}

impl Bsg {
    pub fn new(slots: u32, plan: ScsiCommands) -> Self {
        let slot = |_| CommandSlot {
            block: [0; 16],
            list: [0; UNMAP_BYTES],
            sense: [0; SENSE_BYTES],
            expected: 0,
            transferred: 0,
        };
        Self { plan, slots: (0..slots).map(slot).collect(), failure: Cell::new(None) }
    }

    /// Both halves of the entry.
    fn entry(&mut self, target: &TargetView<'_>, slot: u32, request: &Request) -> [[u64; 8]; 2] {
        let command = match target.files[request.file as usize].kind {
            FileKind::Scsi { lba_bytes } => command(&self.plan, lba_bytes, request),
            _ => None,
        };
        let Some(command) = command else {
            self.fail(ScsiError::NoCommand);
            return Passthrough::INVALID;
        };
        let buffer = target.buffers.address(slot, request);
        let c = self.slots[slot as usize].hold(&command, buffer, request);
        let fixed = target.buffers.fixed && matches!(command.data, Data::In(_) | Data::Out(_));
        // `uring_cmd_flags`: take the buffer from the registration.
        let flags = u64::from(if fixed { sys::IORING_URING_CMD_FIXED } else { 0 }) << 32;
        let registration = if fixed { target.buffers.registration(slot) } else { 0 };
        let head = target.head(sys::io_uring_op::IORING_OP_URING_CMD, request);
        // The 80-byte command starts in the last two words of the entry and fills its extension.
        [
            [head, 0, 0, flags, 0, registration, c[0], c[1]],
            [c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9]],
        ]
    }

    /// Keeps the first failure, which is the one that a job reports.
    fn fail(&self, failure: ScsiError) -> i32 {
        self.failure.set(self.failure.get().or(Some(failure)));
        -failure.errno()
    }
}

impl CommandSlot {
    /// Keeps a command; returns `struct bsg_uring_cmd` for it.
    fn hold(&mut self, command: &CommandBlock, buffer: u64, request: &Request) -> [u64; 10] {
        self.block = command.block;
        (self.expected, self.transferred) = match command.data {
            Data::In(len) | Data::Out(len) if len == request.len => (len, len),
            Data::Ranges(list) => {
                self.list = list;
                (0, 0)
            }
            // Commands on blocks whose data they do not transfer, or once for all.
            _ => (request.len, 0),
        };
        let none = (0, 0);
        let (to_device, from_device) = match command.data {
            Data::None => (none, none),
            Data::In(len) => (none, (buffer, len)),
            Data::Out(len) => ((buffer, len), none),
            Data::Ranges(_) => ((self.list.as_ptr() as u64, UNMAP_BYTES as u32), none),
        };
        [
            self.block.as_ptr() as u64,
            u64::from(command.bytes),       // request_len, protocol
            (SENSE_BYTES as u64) << 32,     // subprotocol, max_response_len
            self.sense.as_mut_ptr() as u64, // response
            to_device.0,
            u64::from(to_device.1), // dout_xfer_len, dout_iovec_count
            from_device.0,
            u64::from(from_device.1), // din_xfer_len, din_iovec_count
            u64::from(TIMEOUT_MS),
            0,
        ]
    }

    /// The bytes of a command with this status: those of device, driver and host, the length of the sense data,
    /// and the bytes that were not transferred.
    fn completed(&self, status: u64) -> Result<u32, ScsiError> {
        let [device, _, host, sense_bytes, ..] = status.to_le_bytes();
        let left = (status >> 32) as u32;
        let done = self.expected - left.min(self.transferred);
        if device == 0 && host == 0 {
            return Ok(done);
        }
        // SAFETY: a field of its own; the kernel wrote it, behind the compiler's back, before the completion.
        let sense = unsafe { std::ptr::read_volatile(&raw const self.sense) };
        match ScsiError::reported(device, u16::from(host), sense_bytes > 0, &sense) {
            Some(failure) => Err(failure),
            None => Ok(done),
        }
    }
}

impl Mode for Bsg {
    const WIDE: bool = true;

    fn encode(&mut self, sqe: &mut Sqe<'_>, target: &TargetView<'_>, slot: u32, request: &Request) {
        [*sqe.words(), *sqe.extension()] = self.entry(target, slot, request);
    }

    fn result_of_two(&self, slot: u32, result: i32, second: Second<'_>) -> i32 {
        let Some(slot) = self.slots.get(slot as usize) else { return result };
        match result {
            0 => slot.completed(second.get()).map_or_else(|e| self.fail(e), |bytes| bytes as i32),
            error if error < 0 => self.fail(ScsiError::NotSent(-error)),
            other => other,
        }
    }

    fn failure(&self) -> Option<ScsiError> {
        self.failure.get()
    }
}

#[cfg(test)]
mod tests {
    use super::super::mode::RingTarget;
    use super::*;
    use crate::buffers::Slab;
    use crate::files::OpenFile;
    use crate::queue::Op;
    use fathom_model::Dir;
    use fathom_model::plan::Buffers;

    fn encoded(bsg: &mut Bsg, dir: Dir, len: u32) -> ([[u64; 8]; 2], u64) {
        let slab = Slab::new(1, 4096, &Buffers::default()).unwrap();
        let fd = tempfile::tempfile().unwrap().into();
        let kind = FileKind::Scsi { lba_bytes: 512 };
        let files = [OpenFile { fd, kind, path: "bsg".into(), created: false, trims: None }];
        let request = Request { op: Op::Io(dir), file: 0, offset: 8192, len, buffer_offset: 0 };
        (bsg.entry(&RingTarget::new(&files, &slab).view(), 0, &request), slab.address(0))
    }

    #[test]
    fn a_command_names_its_block_its_data_and_its_sense_buffer() {
        let mut bsg = Bsg::new(1, ScsiCommands::default());
        let ([entry, rest], buffer) = encoded(&mut bsg, Dir::Read, 4096);
        assert_eq!((entry[0] & 0xff, entry[7]), (46, 10), "IORING_OP_URING_CMD with 10 bytes");
        assert_eq!(bsg.slots[0].block[..9], [0x28, 0, 0, 0, 0, 16, 0, 0, 8]);
        assert_eq!((rest[0] >> 32, rest[2..6].to_vec()), (64, vec![0, 0, buffer, 4096]));
        assert_eq!(rest[1], bsg.slots[0].sense.as_ptr() as u64);
        let ([_, rest], buffer) = encoded(&mut bsg, Dir::Write, 4096);
        assert_eq!(rest[2..6], [buffer, 4096, 0, 0]);
        let ([_, rest], _) = encoded(&mut bsg, Dir::Trim, 4096);
        assert_eq!(rest[2..6], [bsg.slots[0].list.as_ptr() as u64, 24, 0, 0]);
        assert_eq!((bsg.slots[0].list[15], bsg.slots[0].completed(0)), (16, Ok(0)));
    }

    #[test]
    fn the_second_result_is_the_status_of_the_device() {
        let mut bsg = Bsg::new(1, ScsiCommands::default());
        encoded(&mut bsg, Dir::Read, 4096);
        let slot = &mut bsg.slots[0];
        assert_eq!((slot.completed(0), slot.completed(512 << 32)), (Ok(4096), Ok(3584)));
        (slot.sense[0], slot.sense[2], slot.sense[12]) = (0x70, 3, 0x11);
        let check_condition = 2 | 8 << 8 | 18 << 24;
        assert_eq!(slot.completed(check_condition), Err(ScsiError::Sense(3, 0x11, 0)));
        slot.sense[2] = 1;
        assert_eq!(slot.completed(check_condition), Ok(4096), "recovered");
        assert_eq!(slot.completed(3 << 16), Err(ScsiError::Status { device: 0, host: 3 }));
    }

    #[test]
    fn parts_of_blocks_are_refused_with_the_reason() {
        let mut bsg = Bsg::new(1, ScsiCommands::default());
        assert_eq!(encoded(&mut bsg, Dir::Read, 100).0, Passthrough::INVALID);
        assert_eq!(bsg.failure(), Some(ScsiError::NoCommand));
    }
}
