//! The scratch file of `fathom limit`.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::{MIB, Mounted, READ, WRITE, devices, run, says};
use fathom_machine::Roots;
use fathom_machine::guard::{GuardError, OpenTarget};
use fathom_machine::scratch::{self, ScratchSize};
use fathom_model::facts::TargetKind;
use std::path::Path;

fn create(dir: impl AsRef<Path>, wanted: u64) -> Result<OpenTarget, GuardError> {
    scratch::create(&Roots::default(), dir.as_ref(), ScratchSize::AtMost(wanted), &|| false)
}

#[test]
fn a_scratch_file_is_filled_read_and_removed() {
    let dir = crate::support::dir();
    let file = create(dir.path(), 4 * MIB + 5).expect("made");
    assert_eq!((file.facts.kind, file.facts.size_bytes), (TargetKind::File, 4 * MIB));
    assert!(file.facts.path.starts_with(dir.path().to_str().expect("UTF-8")));
    assert_eq!(file.fill_range(), Some((0, 4 * MIB)));
    let fd = file.open_worker(WRITE).expect("to fill it");
    assert_eq!(rustix::io::pwrite(&fd, &[9; 4096], 0).expect("written"), 4096);
    file.filled().expect("marked");
    file.open_worker(WRITE).expect("a search may write it too");
    let mut bytes = [0; 4096];
    let fd = file.open_worker(READ).expect("to read it");
    assert_eq!(rustix::io::pread(&fd, &mut bytes, 0).expect("read"), 4096);
    assert_eq!(bytes, [9; 4096]);
    assert_eq!(file.changed(), None, "that it has no name is no deletion");
    rustix::fs::ftruncate(file.open_worker(READ).expect("open"), 0).expect_err("read-only");
    // This file system makes files without a name, so that nothing stays after SIGKILL either.
    assert_eq!(run("ls", &["-A", dir.path().to_str().expect("UTF-8")]), "");
    file.finish().expect("gone");
}

#[test]
fn a_scratch_file_uses_at_most_a_tenth_of_free_space() {
    let Some(_alone) = devices("scratch file on a small file system") else { return };
    let small = Mounted::new(&["-t", "tmpfs", "-o", "size=40m", "none"]);
    let file = create(small.dir.path(), 100 * MIB).expect("made");
    assert_eq!(file.facts.size_bytes, 4 * MIB);
    drop(file);
    let exactly = |bytes| {
        scratch::create(&Roots::default(), small.dir.path(), ScratchSize::Exactly(bytes), &|| false)
    };
    assert_eq!(exactly(4 * MIB).expect("made").facts.size_bytes, 4 * MIB);
    let error = exactly(5 * MIB).err().expect("refused").to_string();
    let dir = small.dir.path().to_str().expect("UTF-8");
    says(&error, &["5 MiB", dir, "a tenth of the free space, 40 MiB", "at most 4m"]);
    let full = Mounted::new(&["-t", "tmpfs", "-o", "size=9m", "none"]);
    let error = create(full.dir.path(), 100 * MIB).err().expect("refused").to_string();
    says(&error, &["not enough space", "the run writes 1 MiB"]);
    assert_eq!(run("ls", &["-A", small.dir.path().to_str().expect("UTF-8")]), "");
}

#[test]
fn errors_name_the_directory() {
    let dir = crate::support::dir();
    std::fs::write(dir.path().join("file"), "x").expect("file");
    let said = |place: &Path| create(place, MIB).err().expect("refused").to_string();
    says(&said(&dir.path().join("gone")), &["its directory does not exist"]);
    says(&said(&dir.path().join("file")), &["file/.fathom-scratch"]);
    says(&said(Path::new("/dev")), &["creates no files under /dev"]);
    says(&said(Path::new("/dev/shm")), &["creates no files under /dev"]);
}
