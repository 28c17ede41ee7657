//! Samplers of the whole machine that need nothing but /proc and /sys. One that reads a file or two is written here, as an
//! entry in the list is all that it needs besides; longer ones have files of their own.

use crate::disks::DiskSampler;
use crate::sampler::Sampler;
use std::io;
use std::path::Path;

/// Opens a sampler, given the roots of /proc and /sys.
type Open = fn(&Path, &Path) -> io::Result<Box<dyn Sampler>>;

/// Each with what it measures.
pub const PLAIN_SAMPLERS: &[(&str, Open)] =
    &[("disks", |proc, sys| Ok(Box::new(DiskSampler::open(proc, sys)?)))];
