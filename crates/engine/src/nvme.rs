//! NVMe commands outside of a ring, for what a job needs to know or to do beside its I/Os.

use std::io;
use std::os::fd::RawFd;

/// Of linux/nvme_ioctl.h.
const NVME_IOCTL_IO_CMD: libc::c_ulong = 0xc048_4e43;
/// Status of a command that the controller does not have, and the bits of its type and code.
const INVALID_OPCODE: i32 = 1;
const STATUS: i32 = 0x7ff;

/// `struct nvme_passthru_cmd`.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Command {
    pub opcode: u8,
    others: [u8; 3],
    pub nsid: u32,
    reserved: [u32; 2],
    metadata: u64,
    data: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    /// Command dwords 10 to 15.
    pub dwords: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

impl Command {
    pub fn new(opcode: u8, nsid: u32, dwords: [u32; 6]) -> Self {
        Self { opcode, nsid, dwords, ..Self::default() }
    }

    /// Sends the command to the namespace open as `fd`, and waits for it; the controller fills `words`. A command that it does not
    /// have is an error of EOPNOTSUPP.
    pub fn send(mut self, fd: RawFd, words: &mut [u64]) -> io::Result<()> {
        (self.data, self.data_bytes) = (words.as_mut_ptr() as u64, size_of_val(words) as u32);
        // SAFETY: the kernel reads and writes the structure, and fills the memory that it names.
        match unsafe { libc::ioctl(fd, NVME_IOCTL_IO_CMD, &raw mut self) } {
            0 => Ok(()),
            status if status > 0 && status & STATUS == INVALID_OPCODE => {
                Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
            }
            1.. => Err(io::Error::from_raw_os_error(libc::EIO)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_as_long_as_the_kernel_has_it() {
        assert_eq!((size_of::<Command>(), std::mem::offset_of!(Command, dwords)), (72, 40));
    }
}
