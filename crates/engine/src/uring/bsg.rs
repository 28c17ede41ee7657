//! SCSI commands on a ring (`struct bsg_uring_cmd` of linux/bsg.h).

use super::mode::{Mode, Passthrough, View};
use super::ring::Sqe;
use crate::files::FileKind;
use crate::queue::Request;
use crate::sg::{self, Command, Data, Failure, TIMEOUT_MS, UNMAP_BYTES};
use fathom_model::plan::ScsiCommands;
use linux_raw_sys::io_uring::io_uring_op as Opcode;

const SENSE_BYTES: usize = 64;

/// The commands of a job.
pub(crate) struct Bsg {
    plan: ScsiCommands,
    slots: Box<[Slot]>,
    /// Of the last request that failed.
    failure: Option<Failure>,
}

/// What the kernel reads and writes until the command of a slot ends.
#[derive(Clone)]
struct Slot {
    /// `None` where the request has no command.
    command: Option<Command>,
    list: [u8; UNMAP_BYTES],
    sense: [u8; SENSE_BYTES],
    len: u32,
}

impl Bsg {
    pub fn new(slots: u32, plan: ScsiCommands) -> Self {
        let empty = Slot { command: None, list: [0; UNMAP_BYTES], sense: [0; SENSE_BYTES], len: 0 };
        Self { plan, slots: vec![empty; slots as usize].into(), failure: None }
    }

    /// Both halves of the entry.
    fn entry(&mut self, target: &View<'_>, index: u32, request: &Request) -> [[u64; 8]; 2] {
        let slot = &mut self.slots[index as usize];
        slot.command = match target.files[request.file as usize].kind {
            FileKind::Scsi { lba_bytes } => sg::command(&self.plan, lba_bytes, request),
            _ => None,
        };
        let Some(command) = &slot.command else { return Passthrough::INVALID };
        slot.len = request.len;
        slot.sense = [0; SENSE_BYTES];
        let address = target.buffers.address(index, request);
        let (out, out_bytes, into, into_bytes) = match command.data {
            Data::None => (0, 0, 0, 0),
            Data::In(len) => (0, 0, address, len),
            Data::Out(len) => (address, len, 0, 0),
            Data::Ranges(list) => {
                slot.list = list;
                (slot.list.as_ptr() as u64, UNMAP_BYTES as u32, 0, 0)
            }
        };
        let head = target.head(Opcode::IORING_OP_URING_CMD, request);
        let (block, sense) = (command.block.as_ptr() as u64, slot.sense.as_ptr() as u64);
        // Protocol and subprotocol 0 are SCSI commands.
        [
            [head, 0, 0, 0, 0, 0, block, u64::from(command.bytes)],
            [
                (SENSE_BYTES as u64) << 32,
                sense,
                out,
                u64::from(out_bytes),
                into,
                u64::from(into_bytes),
                u64::from(TIMEOUT_MS),
                0,
            ],
        ]
    }

    fn failed(&mut self, failure: Failure) -> i32 {
        self.failure = Some(failure);
        -failure.errno()
    }
}

impl Mode for Bsg {
    const WIDE: bool = true;

    fn encode(&mut self, sqe: &mut Sqe<'_>, target: &View<'_>, slot: u32, request: &Request) {
        [*sqe.words(), *sqe.extension()] = self.entry(target, slot, request);
    }

    /// `more` holds the status of the device in 8 bits, of the driver in 8, of the host in 8, the length of the sense data
    /// in 8, and the bytes that were not transferred in 32.
    fn wide_result(&mut self, slot: u32, result: i32, more: u64) -> i32 {
        let Some(slot) = self.slots.get(slot as usize) else { return result };
        let Some(command) = slot.command else { return self.failed(Failure::NoCommand) };
        if result < 0 {
            return self.failed(Failure::NotSent(-result));
        }
        let status = (more as u8, u16::from((more >> 16) as u8));
        if status != (0, 0)
            && let Some(failure) = sg::failure_of(status, &slot.sense)
        {
            return self.failed(failure);
        }
        command.done(slot.len, slot.len.saturating_sub((more >> 32) as u32))
    }

    fn last_failure(&self) -> Option<String> {
        self.failure.map(|failure| failure.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Op;
    use fathom_model::Dir;

    fn bsg(dir: Dir) -> Bsg {
        let mut bsg = Bsg::new(2, ScsiCommands::default());
        let request =
            Request { op: Op::Io(dir), file: 0, offset: 512, len: 1024, buffer_offset: 0 };
        bsg.slots[1].command = sg::command(&bsg.plan, 512, &request);
        bsg.slots[1].len = request.len;
        bsg
    }

    #[test]
    fn results_are_bytes_or_errors() {
        let mut read = bsg(Dir::Read);
        assert_eq!(read.wide_result(1, 0, 0), 1024);
        assert_eq!(read.wide_result(1, 0, 512 << 32), 512, "some bytes were not transferred");
        assert_eq!(bsg(Dir::Trim).wide_result(1, 0, 0), 0);
        assert_eq!(read.wide_result(1, -libc::EOPNOTSUPP, 0), -libc::EOPNOTSUPP);
        assert!(read.last_failure().is_some_and(|why| why.contains("ioengine=sg")));
        assert_eq!(read.wide_result(0, -libc::EINVAL, 0), -libc::EINVAL, "no command");
    }

    #[test]
    fn sense_data_tells_why_a_command_failed() {
        let mut read = bsg(Dir::Read);
        let check_condition = 2;
        read.slots[1].sense[..14]
            .copy_from_slice(&[0x70, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0]);
        assert_eq!(read.wide_result(1, 0, check_condition), -libc::EIO);
        assert!(read.last_failure().is_some_and(|why| why.contains("MEDIUM ERROR (3h)")));
        read.slots[1].sense[2] = 1;
        assert_eq!(read.wide_result(1, 0, check_condition), 1024, "a recovered error");
        read.slots[1].sense[0] = 0;
        assert_eq!(read.wide_result(1, 0, 7 << 16), -libc::EIO);
        assert!(read.last_failure().is_some_and(|why| why.contains("host status 07h")));
    }
}
