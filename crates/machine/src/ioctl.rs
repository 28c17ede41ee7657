//! Facts available only by ioctl. The only `unsafe` code of this crate.

use rustix::fs::{major, minor};
use rustix::ioctl::{Getter, Opcode, ioctl};
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

/// The backing store of a loop device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopBacking {
    /// A block device, by its number.
    Device((u32, u32)),
    /// A file, by st_dev and inode.
    File((u32, u32), u64),
}

/// Reads the backing store of an open loop device.
///
/// # Errors
/// The kernel's: ENXIO if the device is not set up, ENOTTY if it is not a loop device.
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
