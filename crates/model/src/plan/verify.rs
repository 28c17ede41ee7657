//! Verification of written data, with the headers and checksums of fio.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

crate::named! {
    /// What recognizes wrong data (`verify`). The numbers are those in fio's headers.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum VerifyMethod {
        /// The header alone.
        #[serde(rename = "meta")]
        Meta = "meta",
        /// MD5.
        #[serde(rename = "md5")]
        Md5 = "md5",
        /// CRC-64.
        #[serde(rename = "crc64")]
        Crc64 = "crc64",
        /// CRC-32 of POSIX cksum.
        #[serde(rename = "crc32")]
        Crc32 = "crc32",
        /// CRC-32C, which CPUs compute.
        #[default]
        #[serde(rename = "crc32c")]
        Crc32c = "crc32c",
        /// CRC-16.
        #[serde(rename = "crc16")]
        Crc16 = "crc16",
        /// CRC-7.
        #[serde(rename = "crc7")]
        Crc7 = "crc7",
        /// SHA-1.
        #[serde(rename = "sha1")]
        Sha1 = "sha1",
        /// fio's variant of SHA-256.
        #[serde(rename = "sha256")]
        Sha256 = "sha256",
        /// SHA-512.
        #[serde(rename = "sha512")]
        Sha512 = "sha512",
        /// SHA3-224.
        #[serde(rename = "sha3-224")]
        Sha3_224 = "sha3-224",
        /// SHA3-256.
        #[serde(rename = "sha3-256")]
        Sha3_256 = "sha3-256",
        /// SHA3-384.
        #[serde(rename = "sha3-384")]
        Sha3_384 = "sha3-384",
        /// SHA3-512.
        #[serde(rename = "sha3-512")]
        Sha3_512 = "sha3-512",
        /// xxHash, 32 bits.
        #[serde(rename = "xxhash")]
        Xxhash = "xxhash",
        /// A pattern after the header.
        #[serde(rename = "pattern_hdr")]
        PatternHeader = "pattern_hdr",
        /// A pattern without header.
        #[serde(rename = "pattern")]
        Pattern = "pattern",
        /// Reads without looking at the data.
        #[serde(rename = "null")]
        Null = "null",
    }
}

impl VerifyMethod {
    /// Bytes of the checksum that follows fio's header (struct vhdr_* of verify.h).
    pub const fn checksum_bytes(self) -> usize {
        match self {
            Self::Meta | Self::PatternHeader | Self::Pattern | Self::Null => 0,
            Self::Crc7 => 1,
            Self::Crc16 => 2,
            Self::Crc32 | Self::Crc32c | Self::Xxhash => 4,
            Self::Crc64 => 8,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha3_224 => 28,
            Self::Sha3_256 => 32,
            Self::Sha3_384 => 48,
            Self::Sha256 | Self::Sha3_512 => 64,
            Self::Sha512 => 128,
        }
    }

    /// Bytes at the start of each interval that are not data.
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Pattern | Self::Null => 0,
            method => HEADER_BYTES + method.checksum_bytes(),
        }
    }

    /// Whether blocks begin with a header.
    pub const fn has_header(self) -> bool {
        self.header_bytes() > 0
    }

    /// Whether the data is a pattern, which the job must name.
    pub const fn needs_pattern(self) -> bool {
        matches!(self, Self::Pattern | Self::PatternHeader)
    }
}

/// Bytes of fio's header since fio 3.41 (struct verify_header), without checksum.
pub const HEADER_BYTES: usize = 48;

/// What a job verifies, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verify {
    /// What recognizes wrong data.
    pub method: VerifyMethod,
    /// Bytes that have a header of their own (`verify_interval`); longer than an I/O for one per I/O.
    pub interval: u32,
    /// Where in each interval the header is (`verify_offset`), in bytes.
    pub header_offset: u32,
    /// The data (`verify_pattern`); empty for random data.
    pub pattern: Vec<u8>,
    /// Where in the pattern the offset of the block is to be, as 8 bytes, little-endian (`%o`).
    pub offsets: Vec<u32>,
    /// Bytes after which the pattern begins again (`verify_pattern_interval`); 0 for the I/O.
    pub pattern_interval: u32,
    /// Read what the job wrote, once it has written (`do_verify`).
    pub read_back: bool,
    /// Read what the job would write, without writing it (`verify_only`).
    pub only: bool,
    /// Read what was written after this many writes, 0 for the end only (`verify_backlog`).
    pub backlog: u32,
    /// How many of these (`verify_backlog_batch`); 0 for all.
    pub backlog_batch: u32,
    /// End the job at the first wrong block, whatever else is asked (`verify_fatal`).
    pub fatal: bool,
    /// Require the number of the last write of the block (`verify_write_sequence`).
    pub sequence: bool,
    /// Require the seed of the last write of the block (`verify_header_seed`).
    pub seed: bool,
    /// Go on after wrong data (`continue_on_error=verify`).
    pub keep_going: bool,
    /// Trims of what was written (`trim_percentage`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trims: Option<VerifyTrims>,
    /// fio's file that says which writes took place; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state_file: String,
    /// Write that file at the end (`verify_state_save`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub save_state: bool,
    /// Verify the writes of that file only (`verify_state_load`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub load_state: bool,
    /// Count only the writes before the last flush in that file (`verify_policy=fsynced`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fsynced: bool,
    /// Go on where that file cannot be written, as fio does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub state_optional: bool,
    /// Threads that verify beside the worker (`verify_async`).
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub threads: u64,
    /// Their CPUs (`verify_async_cpus`); empty for those of the worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thread_cpus: Vec<u32>,
    /// Directory of the files that wrong blocks are written to (`verify_dump`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dump: Option<String>,
}

impl Verify {
    /// Whether the last write of each block must be known, if the job writes.
    pub fn remembers(&self) -> bool {
        self.read_back || self.backlog > 0 || self.save_state || self.trims.is_some()
    }
}

/// Which written blocks are trimmed, and when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyTrims {
    /// Percentage of the writes whose blocks are trimmed.
    pub percent: u32,
    /// Writes after which it is time to trim (`trim_backlog`).
    pub backlog: u64,
    /// Trims then (`trim_backlog_batch`).
    pub batch: u64,
    /// Require zeroes of trimmed blocks (`trim_verify_zero`); otherwise they are not read.
    pub zero: bool,
}
