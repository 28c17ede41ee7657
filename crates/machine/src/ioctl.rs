//! Facts available only by ioctl: loop devices, shared extents and NVMe controllers. The only `unsafe` code of this crate.

use rustix::fs::{major, minor};
use rustix::ioctl::{Getter, Opcode, Updater, ioctl};
use std::os::fd::AsFd;

/// LOOP_GET_STATUS64 (linux/loop.h).
const LOOP_GET_STATUS64: Opcode = 0x4C05;

/// `struct loop_info64` (linux/loop.h).
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopBacking {
    Device((u32, u32)),
    File((u32, u32), u64),
}

/// Reads the backing store of an open loop device. ENXIO if the device is not set up, ENOTTY if it is not a loop device.
pub(crate) fn loop_backing(fd: impl AsFd) -> rustix::io::Result<LoopBacking> {
    // SAFETY: the request fills one `loop_info64`. `LoopInfo` has the same layout, and any bytes are
    // valid for it.
    let info = unsafe { ioctl(fd, Getter::<LOOP_GET_STATUS64, LoopInfo>::new())? };
    let number = |device: u64| (major(device), minor(device));
    // For a file, lo_rdevice is 0.
    Ok(match info.rdevice {
        0 => LoopBacking::File(number(info.device), info.inode),
        device => LoopBacking::Device(number(device)),
    })
}

/// FS_IOC_FIEMAP (linux/fs.h): `_IOWR('f', 11, struct fiemap)`.
const FIEMAP: Opcode = 0xC020_660B;
/// FIEMAP_EXTENT_LAST and FIEMAP_EXTENT_SHARED (linux/fiemap.h).
const EXTENT_LAST: u32 = 1;
const EXTENT_SHARED: u32 = 0x2000;
const EXTENTS: usize = 128;

/// `struct fiemap_extent` (linux/fiemap.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved_1: [u64; 2],
    flags: u32,
    reserved_2: [u32; 3],
}

/// `struct fiemap` (linux/fiemap.h).
#[repr(C)]
struct ExtentMap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [FiemapExtent; EXTENTS],
}

/// Bytes of an open file in extents that other files use as well (reflinks, snapshots). EOPNOTSUPP if the file system has no list of extents.
pub(crate) fn shared_bytes(fd: impl AsFd) -> rustix::io::Result<u64> {
    let (mut start, mut shared) = (0, 0_u64);
    loop {
        let mut map = ExtentMap {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped: 0,
            count: EXTENTS as u32,
            reserved: 0,
            extents: [FiemapExtent::default(); EXTENTS],
        };
        // SAFETY: the request reads the header of `ExtentMap`, which has its layout, and writes it and at most `count` extents.
        unsafe { ioctl(fd.as_fd(), Updater::<FIEMAP, ExtentMap>::new(&mut map))? };
        let found = &map.extents[..EXTENTS.min(map.mapped as usize)];
        let of_others = found.iter().filter(|extent| extent.flags & EXTENT_SHARED != 0);
        shared = of_others.fold(shared, |sum, extent| sum.saturating_add(extent.length));
        match found.last().filter(|last| last.flags & EXTENT_LAST == 0) {
            Some(last) if last.logical.saturating_add(last.length) > start => {
                start = last.logical.saturating_add(last.length);
            }
            _ => return Ok(shared),
        }
    }
}

/// NVME_IOCTL_ADMIN_CMD (linux/nvme_ioctl.h).
const NVME_ADMIN: Opcode = 0xC048_4E41;
/// Of a log page: events that it reports stay pending (NVM Express Base Specification, Get Log Page, RAE).
const RETAIN_EVENTS: u32 = 1 << 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NvmeRead {
    Namespace(u32),
    Controller,
    Log(u8),
    Feature(u8),
}

/// `struct nvme_passthru_cmd` (linux/nvme_ioctl.h).
#[repr(C)]
#[derive(Default)]
struct NvmeCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    words_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

/// The command by reference, so that its result can be read.
struct Submission<'a>(&'a mut NvmeCommand);

// SAFETY: the kernel reads and writes `NvmeCommand`, which has its layout, and, through `address`, at most
// `data_bytes` bytes of a buffer that `nvme_read` borrows mutably meanwhile.
unsafe impl rustix::ioctl::Ioctl for Submission<'_> {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        NVME_ADMIN
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(
        status: rustix::ioctl::IoctlOutput,
        _: *mut std::ffi::c_void,
    ) -> rustix::io::Result<i32> {
        Ok(status)
    }
}

/// Queries an NVMe controller. `buffer` is filled, except by features; the result is that of the command.
pub(crate) fn nvme_read(fd: impl AsFd, read: NvmeRead, buffer: &mut [u8]) -> std::io::Result<u32> {
    let mut command = NvmeCommand {
        address: buffer.as_mut_ptr() as u64,
        data_bytes: u32::try_from(buffer.len()).unwrap_or(0),
        // The kernel's own: it resets a controller that does not answer in time.
        timeout_ms: 0,
        ..NvmeCommand::default()
    };
    let words = &mut command.words_10_15;
    match read {
        NvmeRead::Namespace(id) => (command.opcode, command.namespace) = (0x06, id),
        NvmeRead::Controller => (command.opcode, words[0]) = (0x06, 1),
        NvmeRead::Log(id) => {
            (command.opcode, command.namespace) = (0x02, u32::MAX);
            words[0] =
                (command.data_bytes / 4).saturating_sub(1) << 16 | RETAIN_EVENTS | u32::from(id);
        }
        NvmeRead::Feature(id) => {
            (command.opcode, words[0]) = (0x0A, u32::from(id));
            if buffer.is_empty() {
                command.address = 0;
            }
        }
    }
    // SAFETY: as for the implementation of `Ioctl`: `buffer` lives and is not used until the call returns.
    match unsafe { ioctl(fd, Submission(&mut command))? } {
        0 => Ok(command.result),
        status => Err(std::io::Error::other(format!("refused with NVMe status {status:#x}"))),
    }
}
