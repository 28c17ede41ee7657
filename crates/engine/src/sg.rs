//! SCSI commands through SG_IO, one at a time (the version 3 interface of scsi/sg.h).

use crate::error::ScsiError;
use crate::files::{FileKind, OpenFile};
use crate::queue::{Op, Request};
use crate::sync_queue::{SyncEngine, last_error};
use fathom_model::Dir;
use fathom_model::plan::{ScsiCommands, ScsiWrite};

const SG_IO: libc::c_ulong = 0x2285;
/// Of `sg_io_hdr`: interface, directions, and the bit of `info` for a command that did not succeed.
const INTERFACE: i32 = b'S' as i32;
const NO_DATA: i32 = -1;
const TO_DEVICE: i32 = -2;
const FROM_DEVICE: i32 = -3;
const INFO_CHECK: u32 = 1;
/// SGV4_FLAG_HIPRI of drivers that poll; the kernel's own ignores it.
const FLAG_HIPRI: u32 = 0x800;
pub(crate) const TIMEOUT_MS: u32 = 30_000;

/// Operation codes with 10 and with 16 bytes (SBC-4).
const READ: (u8, u8) = (0x28, 0x88);
const WRITE: (u8, u8) = (0x2a, 0x8a);
const WRITE_AND_VERIFY: (u8, u8) = (0x2e, 0x8e);
const VERIFY: (u8, u8) = (0x2f, 0x8f);
const WRITE_SAME: (u8, u8) = (0x41, 0x93);
const WRITE_STREAM_16: u8 = 0x9a;
const SYNCHRONIZE_CACHE_10: u8 = 0x35;
const UNMAP: u8 = 0x42;
/// Bits of the second byte: Force Unit Access, no data-out buffer, and BYTCHK.
const FUA: u8 = 0x08;
const NDOB: u8 = 0x01;
const BYTCHK_01: u8 = 0x02;
const BYTCHK_11: u8 = 0x06;

/// Parameter list of UNMAP with one descriptor.
pub(crate) const UNMAP_BYTES: usize = 24;

/// `struct sg_io_hdr` (scsi/sg.h).
#[repr(C)]
struct SgIoHeader {
    interface: i32,
    direction: i32,
    command_bytes: u8,
    sense_max: u8,
    vectors: u16,
    data_bytes: u32,
    data: *mut libc::c_void,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack: i32,
    user: *mut libc::c_void,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_bytes: u8,
    host_status: u16,
    driver_status: u16,
    residual: i32,
    duration: u32,
    info: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data {
    None,
    In(u32),
    Out(u32),
    /// The parameter list of UNMAP.
    Ranges([u8; UNMAP_BYTES]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandBlock {
    pub block: [u8; 16],
    pub bytes: u8,
    pub data: Data,
}

pub(crate) struct Sg {
    plan: ScsiCommands,
    /// Descriptors, with the bytes of a logical block.
    files: Vec<(i32, u32)>,
    /// Of the last request.
    failure: Option<ScsiError>,
    calls: u64,
}

impl Sg {
    pub fn new(plan: ScsiCommands, files: &[OpenFile]) -> Self {
        let file = |file: &OpenFile| match file.kind {
            FileKind::Scsi { lba_bytes } => (file.raw(), lba_bytes),
            _ => (file.raw(), 0),
        };
        Self { plan, files: files.iter().map(file).collect(), failure: None, calls: 0 }
    }

    fn send(
        &mut self,
        fd: i32,
        buffer: *mut libc::c_void,
        command: &CommandBlock,
    ) -> Result<u32, ScsiError> {
        let mut sense = [0_u8; 64];
        let (direction, data, data_bytes) = match &command.data {
            Data::None => (NO_DATA, std::ptr::null_mut(), 0),
            Data::In(len) => (FROM_DEVICE, buffer, *len),
            Data::Out(len) => (TO_DEVICE, buffer, *len),
            Data::Ranges(list) => (TO_DEVICE, list.as_ptr().cast_mut().cast(), UNMAP_BYTES as u32),
        };
        let mut header = SgIoHeader {
            interface: INTERFACE,
            direction,
            command_bytes: command.bytes,
            sense_max: sense.len() as u8,
            vectors: 0,
            data_bytes,
            data,
            command: command.block.as_ptr(),
            sense: sense.as_mut_ptr(),
            timeout_ms: TIMEOUT_MS,
            flags: if self.plan.hipri { FLAG_HIPRI } else { 0 },
            pack: 0,
            user: std::ptr::null_mut(),
            status: 0,
            masked_status: 0,
            message_status: 0,
            sense_bytes: 0,
            host_status: 0,
            driver_status: 0,
            residual: 0,
            duration: 0,
            info: 0,
        };
        self.calls += 1;
        // SAFETY: the kernel reads the command and writes header, sense and data within the lengths given; `buffer` names
        // as much of the slot's memory as the request is long, and the list of ranges is only read.
        if unsafe { libc::ioctl(fd, SG_IO, &raw mut header) } < 0 {
            return Err(ScsiError::NotSent(-last_error()));
        }
        match failure_of(&header, &sense) {
            Some(failure) => Err(failure),
            None => Ok(data_bytes.saturating_sub(header.residual.max(0) as u32)),
        }
    }
}

impl SyncEngine for Sg {
    fn execute(&mut self, buffer: *mut libc::c_void, request: &Request) -> i32 {
        let (fd, lba_bytes) = self.files[request.file as usize];
        let command = command(&self.plan, lba_bytes, request).ok_or(ScsiError::NoCommand);
        match command.and_then(|command| Ok((command, self.send(fd, buffer, &command)?))) {
            Ok((command, moved)) => {
                self.failure = None;
                match command.data {
                    Data::In(len) | Data::Out(len) if len == request.len => moved as i32,
                    Data::Ranges(_) => 0,
                    // Commands on blocks whose data they do not transfer, or once for all.
                    _ => request.len as i32,
                }
            }
            Err(failure) => {
                self.failure = Some(failure);
                -failure.errno()
            }
        }
    }

    fn system_calls(&self) -> u64 {
        self.calls
    }

    fn last_failure(&self) -> Option<ScsiError> {
        self.failure
    }
}

/// The command of a request; `None` if it is not of whole blocks, or of too many.
pub(crate) fn command(
    plan: &ScsiCommands,
    lba_bytes: u32,
    request: &Request,
) -> Option<CommandBlock> {
    let Op::Io(dir) = request.op else {
        // All blocks.
        return Some(CommandBlock::short(SYNCHRONIZE_CACHE_10, Data::None));
    };
    let (offset, len) = (request.offset, request.len);
    let is_whole = lba_bytes > 0
        && len > 0
        && len.is_multiple_of(lba_bytes)
        && offset.is_multiple_of(u64::from(lba_bytes));
    if !is_whole {
        return None;
    }
    let (lba, blocks) = (offset / u64::from(lba_bytes), len / lba_bytes);
    let fua = |on: bool| if on { FUA } else { 0 };
    let all = Data::Out(len);
    let one = Data::Out(lba_bytes);
    Some(match (dir, plan.write) {
        (Dir::Read, _) => CommandBlock::on(READ, fua(plan.read_fua), lba, blocks, Data::In(len)),
        (Dir::Trim, _) => unmap(lba, blocks),
        (_, ScsiWrite::Write) => CommandBlock::on(WRITE, fua(plan.write_fua), lba, blocks, all),
        (_, ScsiWrite::WriteAndVerify) => CommandBlock::on(WRITE_AND_VERIFY, 0, lba, blocks, all),
        (_, ScsiWrite::WriteSame) => CommandBlock::on(WRITE_SAME, 0, lba, blocks, one),
        // Only the long command has the bit.
        (_, ScsiWrite::WriteSameNdob) => {
            CommandBlock::long(WRITE_SAME.1, NDOB, lba, blocks, Data::None)
        }
        (_, ScsiWrite::WriteStream) => {
            let blocks = u16::try_from(blocks).ok()?;
            let mut command = CommandBlock::long(WRITE_STREAM_16, fua(plan.write_fua), lba, 0, all);
            command.block[10..12].copy_from_slice(&plan.stream.to_be_bytes());
            command.block[12..14].copy_from_slice(&blocks.to_be_bytes());
            command
        }
        (_, ScsiWrite::VerifyMedium) => CommandBlock::on(VERIFY, 0, lba, blocks, Data::None),
        (_, ScsiWrite::VerifyData) => CommandBlock::on(VERIFY, BYTCHK_01, lba, blocks, all),
        (_, ScsiWrite::VerifyBlock) => CommandBlock::on(VERIFY, BYTCHK_11, lba, blocks, one),
    })
}

fn unmap(lba: u64, blocks: u32) -> CommandBlock {
    let mut list = [0; UNMAP_BYTES];
    // The lengths of what follows each.
    list[1] = UNMAP_BYTES as u8 - 2;
    list[3] = UNMAP_BYTES as u8 - 8;
    list[8..16].copy_from_slice(&lba.to_be_bytes());
    list[16..20].copy_from_slice(&blocks.to_be_bytes());
    let mut command = CommandBlock::short(UNMAP, Data::Ranges(list));
    command.block[8] = UNMAP_BYTES as u8;
    command
}

impl CommandBlock {
    fn short(opcode: u8, data: Data) -> Self {
        let mut block = [0; 16];
        block[0] = opcode;
        Self { block, bytes: 10, data }
    }

    fn long(opcode: u8, bits: u8, lba: u64, blocks: u32, data: Data) -> Self {
        let mut block = [0; 16];
        (block[0], block[1]) = (opcode, bits);
        block[2..10].copy_from_slice(&lba.to_be_bytes());
        block[10..14].copy_from_slice(&blocks.to_be_bytes());
        Self { block, bytes: 16, data }
    }

    /// A command on blocks, in its short form where that holds their address and number: a number cut off to 0 would be
    /// all blocks up to the end.
    fn on(opcodes: (u8, u8), bits: u8, lba: u64, blocks: u32, data: Data) -> Self {
        let (Ok(short_lba), Ok(short_blocks)) = (u32::try_from(lba), u16::try_from(blocks)) else {
            return Self::long(opcodes.1, bits, lba, blocks, data);
        };
        let mut command = Self::short(opcodes.0, data);
        command.block[1] = bits;
        command.block[2..6].copy_from_slice(&short_lba.to_be_bytes());
        command.block[7..9].copy_from_slice(&short_blocks.to_be_bytes());
        command
    }
}

/// Whether a command that was sent failed, and why.
fn failure_of(header: &SgIoHeader, sense: &[u8; 64]) -> Option<ScsiError> {
    if header.info & INFO_CHECK == 0 && header.status == 0 {
        return None;
    }
    ScsiError::reported(header.status, header.host_status, header.sense_bytes > 0, sense)
}

impl ScsiError {
    /// What the device reports with its status; `None` if it recovered.
    pub fn reported(device: u8, host: u16, has_sense: bool, sense: &[u8; 64]) -> Option<Self> {
        let (key, code, qualifier) = match sense[0] & 0x7f {
            0x70 | 0x71 if has_sense => (sense[2] & 0xf, sense[12], sense[13]),
            0x72 | 0x73 if has_sense => (sense[1] & 0xf, sense[2], sense[3]),
            _ => return Some(Self::Status { device, host }),
        };
        // A recovered error is a success.
        (key > 1 || host != 0).then_some(Self::Sense(key, code, qualifier))
    }

    /// As in fio, all that the device reports is an I/O error.
    pub fn errno(self) -> i32 {
        match self {
            Self::NoCommand => libc::EINVAL,
            Self::NotSent(errno) => errno,
            Self::Sense(..) | Self::Status { .. } => libc::EIO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(dir: Dir, offset: u64, len: u32) -> Request {
        Request { op: Op::Io(dir), file: 0, offset, len, buffer_offset: 0 }
    }

    fn write(write: ScsiWrite, offset: u64, len: u32) -> Option<CommandBlock> {
        let plan = ScsiCommands { write, stream: 0x0102, ..ScsiCommands::default() };
        command(&plan, 512, &request(Dir::Write, offset, len))
    }

    fn short(bytes: [u8; 10]) -> [u8; 16] {
        let mut block = [0; 16];
        block[..10].copy_from_slice(&bytes);
        block
    }

    #[test]
    fn the_header_has_the_layout_of_the_kernel() {
        assert_eq!(size_of::<SgIoHeader>(), if size_of::<usize>() == 8 { 88 } else { 64 });
        assert_eq!(
            std::mem::offset_of!(SgIoHeader, info),
            size_of::<SgIoHeader>() - if size_of::<usize>() == 8 { 8 } else { 4 }
        );
    }

    #[test]
    fn reads_and_writes_address_logical_blocks() {
        let plan = ScsiCommands { read_fua: true, ..ScsiCommands::default() };
        let read = command(&plan, 4096, &request(Dir::Read, 0x1234 << 12, 8192)).unwrap();
        assert_eq!(read.block, short([0x28, 0x08, 0, 0, 0x12, 0x34, 0, 0, 2, 0]));
        assert_eq!((read.bytes, read.data), (10, Data::In(8192)));
        let plain = write(ScsiWrite::Write, 0, 1024).unwrap();
        assert_eq!(plain.block, short([0x2a, 0, 0, 0, 0, 0, 0, 0, 2, 0]));
        let plan = ScsiCommands { write_fua: true, ..ScsiCommands::default() };
        let fua = command(&plan, 512, &request(Dir::Write, 512, 512)).unwrap();
        assert_eq!((fua.block[1], fua.data), (FUA, Data::Out(512)));
    }

    #[test]
    fn addresses_and_lengths_beyond_the_short_form_take_the_long_one() {
        let far = write(ScsiWrite::Write, 512 << 32, 512).unwrap();
        assert_eq!(far.block, [0x8a, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(far.bytes, 16);
        let last = write(ScsiWrite::Write, u64::from(u32::MAX) * 512, 512).unwrap();
        assert_eq!(last.block, short([0x2a, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 1, 0]));
        // 65536 blocks, cut off to 16 bits, would be 0: WRITE SAME of the whole disk.
        for (mode, opcode) in [(ScsiWrite::WriteSame, 0x93), (ScsiWrite::VerifyBlock, 0x8f)] {
            let long = write(mode, 0, 65536 * 512).unwrap();
            assert_eq!((long.block[0], &long.block[10..14]), (opcode, &[0, 1, 0, 0][..]));
            assert_eq!(long.data, Data::Out(512));
        }
    }

    #[test]
    fn writes_are_the_commands_of_their_modes() {
        let of = |mode| {
            let command = write(mode, 512, 2048).unwrap();
            (command.block[0], command.block[1], command.data)
        };
        assert_eq!(of(ScsiWrite::WriteAndVerify), (0x2e, 0, Data::Out(2048)));
        assert_eq!(of(ScsiWrite::WriteSame), (0x41, 0, Data::Out(512)));
        assert_eq!(of(ScsiWrite::WriteSameNdob), (0x93, 1, Data::None));
        assert_eq!(of(ScsiWrite::VerifyMedium), (0x2f, 0, Data::None));
        assert_eq!(of(ScsiWrite::VerifyData), (0x2f, 2, Data::Out(2048)));
        assert_eq!(of(ScsiWrite::VerifyBlock), (0x2f, 6, Data::Out(512)));
        let stream = write(ScsiWrite::WriteStream, 512, 2048).unwrap();
        assert_eq!(stream.block, [0x9a, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0, 4, 0, 0]);
        assert_eq!(write(ScsiWrite::WriteStream, 0, 65536 * 512), None);
    }

    #[test]
    fn trims_and_flushes() {
        let trim =
            command(&ScsiCommands::default(), 512, &request(Dir::Trim, 1 << 20, 1 << 16)).unwrap();
        assert_eq!(trim.block, short([0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0]));
        let mut list = [0; UNMAP_BYTES];
        (list[1], list[3], list[14], list[19]) = (22, 16, 8, 128);
        assert_eq!(trim.data, Data::Ranges(list));
        let flush = Request { op: Op::Fdatasync, ..request(Dir::Write, 0, 0) };
        let flush = command(&ScsiCommands::default(), 512, &flush).unwrap();
        assert_eq!(
            (flush.block, flush.data),
            (short([0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Data::None)
        );
    }

    #[test]
    fn parts_of_blocks_have_no_command() {
        assert_eq!(write(ScsiWrite::Write, 0, 100), None);
        assert_eq!(write(ScsiWrite::Write, 256, 512), None);
        assert_eq!(write(ScsiWrite::WriteSame, 0, 0), None, "0 blocks are all of them");
        assert_eq!(command(&ScsiCommands::default(), 0, &request(Dir::Read, 0, 512)), None);
    }

    #[test]
    fn failures_state_what_the_device_reports() {
        // SAFETY: all fields are numbers or pointers, for which zero is valid.
        let mut header: SgIoHeader = unsafe { std::mem::zeroed() };
        let mut sense = [0; 64];
        assert_eq!(failure_of(&header, &sense), None);
        (header.info, header.status, header.sense_bytes) = (INFO_CHECK, 2, 18);
        (sense[0], sense[2], sense[12]) = (0x70, 0xe, 0x1d);
        let failure = failure_of(&header, &sense).unwrap();
        assert_eq!(failure, ScsiError::Sense(0xe, 0x1d, 0));
        assert_eq!(failure.errno(), libc::EIO);
        sense = [0; 64];
        (sense[0], sense[1], sense[2]) = (0x72, 5, 0x21);
        assert_eq!(failure_of(&header, &sense), Some(ScsiError::Sense(5, 0x21, 0)));
        sense[1] = 1;
        assert_eq!(failure_of(&header, &sense), None, "recovered");
        (header.sense_bytes, header.status, header.host_status) = (0, 0, 3);
        assert_eq!(failure_of(&header, &sense), Some(ScsiError::Status { device: 0, host: 3 }));
    }

    #[test]
    fn a_target_that_takes_no_commands_fails_with_the_reason() {
        let fd = tempfile::tempfile().unwrap().into();
        let kind = FileKind::Scsi { lba_bytes: 512 };
        let files = [OpenFile { fd, kind, path: "file".into(), created: false, trims: None }];
        let mut sg = Sg::new(ScsiCommands::default(), &files);
        let mut buffer = [0_u8; 512];
        let done = sg.execute(buffer.as_mut_ptr().cast(), &request(Dir::Read, 0, 512));
        assert_eq!((done, sg.system_calls()), (-libc::ENOTTY, 1));
        assert_eq!(sg.last_failure(), Some(ScsiError::NotSent(libc::ENOTTY)));
    }
}
