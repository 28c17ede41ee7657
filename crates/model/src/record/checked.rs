//! What jobs found out about their data and their rates: verification and steady state.

use super::DirRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The steady state of a job, or of a group that is reported as one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteadyRecord {
    /// Whether it was reached, which ended the job.
    pub attained: bool,
    /// When, in nanoseconds of the measured time; 0 if it was not.
    pub after_ns: u64,
    /// Whether there were enough figures to judge.
    pub is_judged: bool,
    /// What was compared with the limit, in its unit.
    pub criterion: f64,
    /// The largest deviation from the mean, in the unit of the figure.
    pub deviation: f64,
    /// The slope per interval, in the unit of the figure.
    pub slope: f64,
    /// The last figures, at most as many as had to be steady: I/Os per second.
    pub iops: Vec<u64>,
    /// Bytes per second.
    pub bytes_per_second: Vec<u64>,
    /// Mean completion latency in nanoseconds.
    pub lat_ns: Vec<u64>,
}

/// What a job read to verify data, and what was wrong.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyRecord {
    /// Intervals with a header of their own, or I/Os without.
    pub blocks: u64,
    /// Their length in bytes.
    pub bytes: u64,
    /// Writes that were counted to know what they left, and did not take place (`verify_only`).
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub counted_ios: u64,
    /// Their bytes.
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub counted_bytes: u64,
    /// Bytes that were written and not read back, because the job ended before.
    #[serde(default, skip_serializing_if = "crate::watch::is_zero")]
    pub unread_bytes: u64,
    /// Those that were wrong.
    pub wrong: u64,
    /// The first of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first: Vec<WrongBlock>,
    /// Time in nanoseconds that the job read back what it had written; 0 for a job whose own reads are verified.
    pub runtime_ns: u64,
    /// These reads, which are not among those of the job.
    pub reads: DirRecord,
}

/// A block whose data is not what was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrongBlock {
    /// The target.
    pub file: String,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
    /// What it is instead.
    pub damage: Damage,
    /// The header that was found, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<BlockHeader>,
    /// The first bytes that differ, or the checksum, in hexadecimal: expected, and found.
    pub expected: String,
    /// See `expected`.
    pub found: String,
    /// Files that have the block, as it was read and as it should be (`verify_dump`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dumped: Vec<String>,
}

impl WrongBlock {
    /// What the block holds instead, for people, without the bytes themselves.
    pub fn text(&self) -> String {
        let header = self.header.unwrap_or_default();
        let writer = format!("job {}, write {}", header.job, header.write);
        match &self.damage {
            Damage::Zero => "all zeroes".into(),
            Damage::NotTrimmed => "trimmed, and yet not zeroes".into(),
            Damage::Foreign => "no header, and not what was written".into(),
            Damage::Stale { last } => format!(
                "stale: it holds an earlier write ({writer}), the last one was write {last}"
            ),
            Damage::Misplaced => {
                format!("misplaced: it is the block of offset {} ({writer})", header.offset)
            }
            Damage::OtherWriter => {
                format!("of another run or job ({writer})")
            }
            Damage::OtherFormat { len, method } => format!(
                "written otherwise: blocks of {len} bytes, by verify={method}; use such a bs or verify_interval, and that method ({writer})"
            ),
            Damage::Torn { from, to, zero } => {
                let what = if *zero { "zeroes" } else { "something else" };
                format!("torn: bytes {from} to {to} of it hold {what}")
            }
            Damage::Bits { count, bytes } => {
                let all: Vec<String> = bytes.iter().map(u32::to_string).collect();
                let bits = if *count == 1 { "bit differs" } else { "bits differ" };
                let of = if all.len() == 1 { "byte" } else { "bytes" };
                format!("{count} {bits}, in {of} {} of it", all.join(", "))
            }
            Damage::Header { right_data } => match right_data {
                Some(true) => "a damaged header; the data is right".into(),
                Some(false) => "a damaged header, and wrong data".into(),
                None => "a damaged header".into(),
            },
            Damage::Content => {
                format!("a right header ({writer}), but data that it does not describe")
            }
            Damage::Unreadable { errno } => {
                format!("unreadable: {}", std::io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

/// fio's header of a block, as far as it says who wrote it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockHeader {
    /// Where it was to be.
    pub offset: u64,
    /// Number of the job, from 1.
    pub job: u16,
    /// Number of the write among those of the job, from 0.
    pub write: u64,
    /// When it was written: seconds on the writer's clock, the Unix epoch for fathom and the boot for fio.
    pub seconds: u32,
}

/// What a wrong block holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Damage {
    /// Zeroes.
    Zero,
    /// Data, although it was trimmed.
    NotTrimmed,
    /// Neither zeroes nor anything with a header.
    #[default]
    Foreign,
    /// What an earlier write of this job left there; the last one was this.
    Stale {
        /// Its number.
        last: u64,
    },
    /// A block of another place.
    Misplaced,
    /// A block of this place, by another run or job.
    OtherWriter,
    /// A header of another kind: its length or method.
    OtherFormat {
        /// Length in bytes of what the header is for.
        len: u32,
        /// How they are verified.
        method: String,
    },
    /// The right block but for a part.
    Torn {
        /// First wrong byte of the block.
        from: u32,
        /// The first right one after it, or the length.
        to: u32,
        /// Whether the part is zeroes.
        zero: bool,
    },
    /// The right block but for some bits.
    Bits {
        /// How many.
        count: u64,
        /// The first bytes with any, within the block.
        bytes: Vec<u32>,
    },
    /// A header whose own checksum is wrong.
    Header {
        /// Whether the data is right, if that is known.
        right_data: Option<bool>,
    },
    /// The right header, with data that is not what it describes.
    Content,
    /// It cannot be read.
    Unreadable {
        /// The system's error number.
        errno: i32,
    },
}
