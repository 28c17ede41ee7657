//! fio's header of a block (struct verify_header of verify.h).

use super::checksum::crc32c;
use fathom_model::plan::{HEADER_BYTES, VerifyMethod};
use fathom_model::record::BlockHeader;

const MAGIC: u16 = 0xacca;
/// Of the version byte since fio 3.41. Before, the method's number was there, which is smaller.
const VERSION: u8 = 0x81;
/// Length of the header before fio 3.41.
const OLD_BYTES: usize = 40;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub method: u8,
    pub len: u32,
    pub seed: u64,
    pub offset: u64,
    pub seconds: u32,
    pub nanos: u32,
    pub number: u64,
    pub job: u16,
    /// Length of the header itself.
    pub bytes: usize,
}

/// The number of a method in fio's headers.
pub(super) const fn number_of(method: VerifyMethod) -> u8 {
    match method {
        VerifyMethod::Meta => 1,
        VerifyMethod::Md5 => 2,
        VerifyMethod::Crc64 => 3,
        VerifyMethod::Crc32 => 4,
        VerifyMethod::Crc32c => 5,
        VerifyMethod::Crc16 => 7,
        VerifyMethod::Crc7 => 8,
        VerifyMethod::Sha256 => 9,
        VerifyMethod::Sha512 => 10,
        VerifyMethod::Sha3_224 => 11,
        VerifyMethod::Sha3_256 => 12,
        VerifyMethod::Sha3_384 => 13,
        VerifyMethod::Sha3_512 => 14,
        VerifyMethod::Xxhash => 15,
        VerifyMethod::Sha1 => 16,
        VerifyMethod::PatternHeader => 17,
        VerifyMethod::Pattern => 18,
        VerifyMethod::Null => 19,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].try_into().map_or(0, u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes)
}

impl Header {
    /// The header at the start of `block`, if there is one whose own checksum is right.
    pub fn of(block: &[u8]) -> Option<Self> {
        Self::claimed(block).filter(|header| {
            let end = header.bytes - 4;
            crc32c(&block[..end]) == u32_at(block, end)
        })
    }

    pub fn claimed(block: &[u8]) -> Option<Self> {
        if block.len() < HEADER_BYTES || u16_at(block, 0) != MAGIC {
            return None;
        }
        let is_old = block[2] != VERSION;
        let bytes = if is_old { OLD_BYTES } else { HEADER_BYTES };
        let (job, number) = match is_old {
            true => (u16_at(block, 32), u64::from(u16_at(block, 34))),
            false => (u16_at(block, 40), u64_at(block, 32)),
        };
        Some(Self {
            method: if is_old { block[2] } else { block[3] },
            len: u32_at(block, 4),
            seed: u64_at(block, 8),
            offset: u64_at(block, 16),
            seconds: u32_at(block, 24),
            nanos: u32_at(block, 28),
            number,
            job,
            bytes,
        })
    }

    /// Writes the header, in its present form, to the start of `block`.
    pub fn write(&self, block: &mut [u8]) {
        block[..2].copy_from_slice(&MAGIC.to_ne_bytes());
        (block[2], block[3]) = (VERSION, self.method);
        block[4..8].copy_from_slice(&self.len.to_ne_bytes());
        block[8..16].copy_from_slice(&self.seed.to_ne_bytes());
        block[16..24].copy_from_slice(&self.offset.to_ne_bytes());
        block[24..28].copy_from_slice(&self.seconds.to_ne_bytes());
        block[28..32].copy_from_slice(&self.nanos.to_ne_bytes());
        block[32..40].copy_from_slice(&self.number.to_ne_bytes());
        block[40..42].copy_from_slice(&self.job.to_ne_bytes());
        block[42..44].fill(0);
        let crc = crc32c(&block[..HEADER_BYTES - 4]);
        block[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_ne_bytes());
    }

    /// Whether its writer counted writes in 64 bits.
    pub fn has_whole_number(&self) -> bool {
        self.bytes == HEADER_BYTES
    }

    pub fn unix_ns(&self) -> u64 {
        u64::from(self.seconds) * 1_000_000_000 + u64::from(self.nanos)
    }

    pub fn found(&self) -> BlockHeader {
        let Self { offset, job, number, seconds, .. } = *self;
        BlockHeader { offset, job, write: number, seconds }
    }
}
