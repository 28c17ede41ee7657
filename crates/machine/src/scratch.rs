//! The scratch file that `fathom limit` uses if no target is given.

use crate::guard::subject::{self, Spot};
use crate::guard::{
    GuardError, Made, OpenDescriptor, OpenTarget, Promises, TargetEntry, make, space,
};
use crate::target::Lookup;
use fathom_model::facts::TargetFacts;
use fathom_model::plan::Fallocate;
use fathom_sys::roots::Roots;
use rustix::fs::fstatvfs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) const PREFIX: &str = ".fathom-scratch-";
/// Sizes are multiples of this, in bytes.
const UNIT: u64 = 1 << 20;
/// Divisor for the share of free space to use at most.
const PART: u64 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScratchSize {
    /// Refused if it is more than a tenth of the free space.
    Exactly(u64),
    /// This, or a tenth of the free space if that is less.
    AtMost(u64),
}

impl Default for ScratchSize {
    fn default() -> Self {
        Self::AtMost(0)
    }
}

/// Creates a scratch file in `dir`, in whole MiB. The caller must fill all of it ([`OpenTarget::fill_range`]). Removed on
/// drop, and also after SIGKILL if the file system supports O_TMPFILE.
pub fn create(
    roots: &Roots,
    dir: &Path,
    wanted: ScratchSize,
    stop: &dyn Fn() -> bool,
) -> Result<OpenTarget, GuardError> {
    GuardError::needs_proc()?;
    let lookup = Lookup::new(roots);
    let name = name();
    let dir = dir.to_string_lossy();
    let path = Path::new(dir.as_ref()).join(&name).to_string_lossy().into_owned();
    let spot = subject::spot(&lookup, &path, &dir, &name)?;
    let size = size(&path, &dir, &spot, wanted)?;
    let (held, made) = open(&path, spot, size, stop)?;
    let entry = std::sync::Arc::new(TargetEntry::scratch(path.clone(), held, made, size));
    let made_facts = TargetFacts { size_bytes: size, ..TargetFacts::default() };
    let facts = entry.facts(&lookup, &path, &made_facts);
    Ok(OpenTarget { facts, entry, promises: Promises::default() })
}

fn size(path: &str, dir: &str, spot: &Spot, wanted: ScratchSize) -> Result<u64, GuardError> {
    let fs = fstatvfs(&spot.dir)
        .map_err(|error| GuardError::io(path, "read the file system status of", error))?;
    let free = fs.f_bavail.saturating_mul(fs.f_frsize);
    let most = free / PART / UNIT * UNIT;
    let size = match wanted {
        ScratchSize::Exactly(bytes) if bytes > most && most > 0 => {
            return Err(GuardError::LargeScratch { dir: dir.to_string(), need: bytes, free, most });
        }
        ScratchSize::Exactly(bytes) | ScratchSize::AtMost(bytes) => bytes.min(most) / UNIT * UNIT,
    };
    space::fits(path, size.max(UNIT), 0, &fs)?;
    if size == 0 {
        return Err(GuardError::NoSpace {
            path: path.to_string(),
            need: UNIT,
            free,
            reserve: free - most,
            promised: 0,
        });
    }
    Ok(size)
}

pub(crate) fn name() -> String {
    format!("{PREFIX}{}", unique())
}

/// What no other name of a running process contains.
pub(crate) fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", std::process::id())
}

/// Whether [`name`] made this name, so that no other program uses it.
pub(crate) fn is_of_this_process(name: &[u8]) -> bool {
    name.starts_with(format!("{PREFIX}{}-", std::process::id()).as_bytes())
}

/// An unnamed file if possible, else a marked file that is removed on drop.
fn open(
    path: &str,
    spot: Spot,
    size: u64,
    stop: &dyn Fn() -> bool,
) -> Result<(OpenDescriptor, Option<Made>), GuardError> {
    let (fd, made) = match make::unnamed(path, &spot, 0o600)? {
        Some(fd) => (fd, None),
        None => make::scratch(path, spot).map(|(fd, made)| (fd, Some(made)))?,
    };
    make::reserve(path, &fd, 0, size, Fallocate::Native, stop)?;
    Ok((OpenDescriptor::new(path, fd)?, made))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::{self, Mark};

    #[test]
    fn a_named_scratch_file_is_marked_and_removed_on_drop() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("scratch");
        let place = dir.path().to_str().expect("UTF-8");
        let lookup = Lookup::new(&Roots::default());
        let spot = subject::spot(&lookup, "scratch", place, "scratch").expect("spot");
        let (fd, made) = make::scratch("scratch", spot).expect("made");
        assert_eq!(mark::read(&fd), Some(Mark::Scratch));
        let held = OpenDescriptor::new("scratch", fd).expect("held");
        let entry = TargetEntry::scratch("scratch".to_string(), held, Some(made), UNIT);
        assert!(path.exists());
        drop(entry);
        assert!(!path.exists());
    }
}
