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

const MANAGEMENT_RECEIVE: u8 = 0x12;
const HANDLE_STATUS: u32 = 1;
/// Words of 8 bytes of a reclaim unit handle's status, and of the header before the first.
const STATUS_WORDS: usize = 4;
const HEADER_WORDS: usize = 2;

/// The placement identifiers of a namespace with flexible data placement, in the order of its list.
pub(crate) fn placements(fd: RawFd, nsid: u32) -> io::Result<Vec<u16>> {
    let mut header = [0; HEADER_WORDS];
    handle_status(nsid, &header).send(fd, &mut header)?;
    let mut words = vec![0; HEADER_WORDS + STATUS_WORDS * handles(&header)];
    handle_status(nsid, &words).send(fd, &mut words)?;
    Ok(listed(&words))
}

fn handle_status(nsid: u32, words: &[u64]) -> Command {
    let dwords = words.len() as u32 * 2;
    Command::new(MANAGEMENT_RECEIVE, nsid, [HANDLE_STATUS, dwords - 1, 0, 0, 0, 0])
}

/// The last two bytes of the header are their number.
fn handles(words: &[u64]) -> usize {
    (words[1] >> 48) as usize
}

fn listed(words: &[u64]) -> Vec<u16> {
    let all = words[HEADER_WORDS..].chunks_exact(STATUS_WORDS).take(handles(words));
    all.map(|status| status[0] as u16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_as_long_as_the_kernel_has_it() {
        assert_eq!((size_of::<Command>(), std::mem::offset_of!(Command, dwords)), (72, 40));
    }

    #[test]
    fn placements_are_listed_by_the_device() {
        let query = handle_status(3, &[0; 10]);
        assert_eq!((query.opcode, query.nsid, query.dwords), (0x12, 3, [1, 19, 0, 0, 0, 0]));
        let status = |id: u64| [id | 9 << 16, 0, 0, 0];
        let words = [vec![0, 2 << 48], status(5).to_vec(), status(0x8001).to_vec()].concat();
        assert_eq!(listed(&words), [5, 0x8001]);
    }
}
