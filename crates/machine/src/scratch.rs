//! The scratch file that `fathom limit` works on when no target is named.

use crate::guard::subject::{self, Spot, Want};
use crate::guard::{Entry, GuardError, Held, OpenTarget, make, space};
use crate::mark;
use crate::roots::Roots;
use fathom_model::plan::Fallocate;
use rustix::fs::{Mode, OFlags, fstatvfs};
use rustix::io::Errno;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How the name of a scratch file begins where it needs one.
pub(crate) const PREFIX: &str = ".fathom-scratch-";
/// Sizes are multiples of this.
const UNIT: u64 = 1 << 20;
/// At most this part of what is free is used.
const PART: u64 = 10;

/// Makes a scratch file in `dir` of `wanted_bytes`, or a tenth of what is free there if that is
/// less, in whole MiB. All of it has to be filled ([`OpenTarget::fill_range`]). It is gone when it
/// is dropped; where the file system can make files without a name, also after SIGKILL.
///
/// # Errors
/// When no file can be made there, or a tenth of what is free is less than 1 MiB.
pub fn create(roots: &Roots, dir: &Path, wanted_bytes: u64) -> Result<OpenTarget, GuardError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{PREFIX}{}-{number}", std::process::id());
    let dir = dir.to_string_lossy();
    let path = Path::new(dir.as_ref()).join(&name).to_string_lossy().into_owned();
    let spot = subject::spot(roots, &path, &dir, &name)?;
    let size = size(&path, &spot, wanted_bytes)?;
    let held = open(&path, spot, size)?;
    let entry = Arc::new(Entry::scratch(path.clone(), held, size));
    let facts = entry.facts(roots, &path, &fathom_model::facts::TargetFacts::default());
    Ok(OpenTarget { facts, entry })
}

fn size(path: &str, spot: &Spot, wanted: u64) -> Result<u64, GuardError> {
    let fs = fstatvfs(&spot.dir)
        .map_err(|error| GuardError::io(path, "look at the file system of", error))?;
    let free = fs.f_bavail.saturating_mul(fs.f_frsize);
    let size = wanted.min(free / PART) / UNIT * UNIT;
    space::fits(path, size.max(UNIT), &fs)?;
    if size == 0 {
        return Err(GuardError::NoSpace {
            path: path.to_string(),
            need: UNIT,
            free,
            reserve: free - free / PART,
        });
    }
    Ok(size)
}

/// Without a name where that is possible, or else as a marked file that is removed on drop.
fn open(path: &str, spot: Spot, size: u64) -> Result<Held, GuardError> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    // By path, as a descriptor that only names the directory cannot be opened anew otherwise.
    let dir = mark::descriptor_path(&spot.dir);
    match rustix::fs::open(dir, flags, Mode::from_raw_mode(0o600)) {
        Ok(fd) => {
            make::reserve(path, &fd, 0, size, Fallocate::Native)?;
            Held::new(path, Arc::new(fd), None)
        }
        // EISDIR, EINVAL: what kernels and file systems say that do not know O_TMPFILE.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => named(path, spot, size),
        Err(error) => Err(GuardError::io(path, "make", error)),
    }
}

fn named(path: &str, spot: Spot, size: u64) -> Result<Held, GuardError> {
    let want = Want { create_size: Some(size), fill: true, ..Want::default() };
    let (fd, made) = make::create(path, spot, &want)?;
    Held::new(path, fd, Some(made))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_name_it_is_marked_and_removed_in_the_end() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("scratch");
        let place = dir.path().to_str().expect("UTF-8");
        let spot = subject::spot(&Roots::default(), "scratch", place, "scratch").expect("spot");
        let held = named("scratch", spot, UNIT).expect("made");
        assert_eq!(path.metadata().expect("there").len(), UNIT);
        let entry = Entry::scratch("scratch".to_string(), held, UNIT);
        assert!(path.exists());
        drop(entry);
        assert!(!path.exists());
    }
}
