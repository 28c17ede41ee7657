//! Run directories: create, append, read, list, prune, export, import; rings of run directories, bounded in age and size.
//!
//! A run directory contains `record.json`, `samples.ndjson`, if needed `stacks.ndjson` and, for a search,
//! `windows.ndjson`, and `tags` that users gave it; no other crate knows these names. [`RunDir`] creates one, [`Writer`] appends to it from a separate
//! thread, [`read_record`] and [`Reader`] read it from any point in time, even while it is being written, and [`SampleRing`]
//! keeps the most recent ones within limits on age and size.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let parent = tempfile::tempdir()?;
//! # let path = parent.path().join("run");
//! use fathom_model::RunRecord;
//! use fathom_model::progress::Sample;
//! use fathom_store::{EncodedSample, Reader, RunDir, Writer};
//!
//! let mut record = RunRecord::default();
//! record.header.record_version = 1;
//! let mut writer = Writer::start(RunDir::create(path.to_str(), 0)?.begin(&record)?);
//! writer.write(EncodedSample::of(&Sample { elapsed_ns: 1_000_000_000, ..Sample::default() }));
//! writer.finish(|_| ()).error.map_or(Ok(()), Err)?;
//!
//! let first = Reader::open(&path)?.forward()?;
//! assert_eq!(first.map(|first| first.sample.elapsed_ns), Some(1_000_000_000));
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), forbid(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]

mod archive;
mod dir;
mod probes;
mod read;
mod ring;
mod run_dir;
mod runs;
mod share;
mod stored;
mod time;
mod writer;

pub use archive::{Imported, archive_name, compressed, export, import, inflate};
pub use dir::{CreatedDirs, HeldDir, Readers, with_path};
pub use probes::{load_probes, save_probes};
pub use read::{Reader, StoredSample};
pub use ring::{Retention, SampleRing};
pub use run_dir::{EncodedSample, RunDir, read_windows, state_dir};
pub use runs::{
    DEFAULT_BYTES_MAX, DEFAULT_KEEP, Pruned, RunEntry, Runs, check_tag, is_active, set_tag,
};
pub use stored::{is_other_dir, read_record};
pub use writer::{Writer, Written};
