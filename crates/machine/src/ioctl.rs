//! What only an ioctl tells. The only `unsafe` of this crate.

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

/// The identity of what is behind a loop device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopBacking {
    /// A block device, by its number.
    Device((u32, u32)),
    /// A file, by the number of its file system's device and its inode.
    File((u32, u32), u64),
}

/// Asks an open loop device for the identity of what is behind it.
///
/// # Errors
/// The kernel's: ENXIO where nothing is, ENOTTY where it is no loop device.
pub(crate) fn loop_backing(fd: impl AsFd) -> rustix::io::Result<LoopBacking> {
    // SAFETY: this request fills one `loop_info64`, whose layout `LoopInfo` has and of which any
    // bytes are valid.
    let info = unsafe { ioctl(fd, Getter::<LOOP_GET_STATUS64, LoopInfo>::new())? };
    let number = |device: u64| (major(device), minor(device));
    // Of a file the kernel gives no device that it is a node of.
    Ok(match info.rdevice {
        0 => LoopBacking::File(number(info.device), info.inode),
        device => LoopBacking::Device(number(device)),
    })
}
