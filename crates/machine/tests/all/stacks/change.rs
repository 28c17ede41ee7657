//! Changes by another process at each step of runs of fathom, and of the directories on the way to a file.

use super::everything;
use crate::support::{
    Loop, MIB, Mounted, Target, WRITE, made, meanwhile, none, open, prepare, run, work, written,
};
use proptest::prelude::*;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// When the file is changed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    BeforeItsJob,
    DuringItsJob,
    BetweenItsJobs,
    AfterItsJobs,
    AfterTheRun,
    Never,
}

const STEPS: [Step; 6] = [
    Step::BeforeItsJob,
    Step::DuringItsJob,
    Step::BetweenItsJobs,
    Step::AfterItsJobs,
    Step::AfterTheRun,
    Step::Never,
];

/// The directories on the way to the file.
const WAY: [&str; 3] = ["one", "one/two", "one/two/three"];
/// Behind what the test's workers write.
const OFFSET: u64 = 8192;
/// Smaller than any file of a stack: on an overlay, files are told apart by their sizes.
const SIZE: u64 = MIB / 2;

#[derive(Debug, Clone, Copy)]
pub struct Change {
    step: Step,
    /// With the times of the file set back.
    secretly: bool,
    /// On a file system with times in seconds.
    coarse: bool,
    /// Of a file that an earlier run created.
    exists: bool,
    /// Which directory is exchanged for a link that leads elsewhere, again and again.
    swapped: usize,
}

pub fn changes() -> impl Strategy<Value = Change> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (prop::sample::select(&STEPS[..]), flags, 0..WAY.len()).prop_map(
        |(step, (secretly, coarse, exists), swapped)| Change {
            step,
            secretly,
            coarse,
            exists,
            swapped,
        },
    )
}

/// A file system with times in seconds.
pub struct Coarse {
    pub mounted: Mounted,
    _disk: Loop,
}

impl Coarse {
    pub fn new() -> Self {
        let disk = Loop::new(16 * MIB);
        run("mkfs.ext4", &["-q", "-F", "-I", "128", &disk.path]);
        Self { mounted: Mounted::new(&[&disk.path]), _disk: disk }
    }
}

impl Change {
    fn at(&self, step: Step, path: &Path) {
        if step != self.step {
            return;
        }
        if self.secretly {
            // Longer than the kernel's ticks, and than what a mark allows for the setting of its own attribute.
            std::thread::sleep(Duration::from_millis(25));
        }
        let before = path.metadata().expect("status").modified().expect("mtime");
        let file = std::fs::File::options().write(true).open(path).expect("file");
        file.write_all_at(b"PRECIOUS", OFFSET).expect("written");
        if self.secretly {
            file.set_modified(before).expect("mtime set back");
        }
    }

    /// Runs fathom in `dir`, or on the coarse file system, with the change; nothing that is not fathom's may be written or
    /// created afterwards.
    pub fn attack(&self, dir: &Path, coarse: &Coarse) {
        let base = if self.coarse { coarse.mounted.dir.path() } else { dir };
        let base = tempfile::tempdir_in(base).expect("directory");
        std::fs::create_dir_all(base.path().join(WAY[2])).expect("directories");
        let path = base.path().join(WAY[2]).join("own");
        let plan = || vec![Target { written: true, ..made(&path, SIZE) }];
        if self.exists {
            let targets = open(plan(), &none()).expect("made");
            work(&targets[0]);
        }
        let permitted = everything(&path);
        let targets = open(plan(), &permitted).expect("permitted");
        self.at(Step::BeforeItsJob, &path);
        let writing = targets[0].writing();
        writing.begin();
        // What changes while a worker writes is noticed only if the size or the name is another.
        if self.step == Step::DuringItsJob {
            targets[0].disown();
        }
        self.at(Step::DuringItsJob, &path);
        writing.end();
        work(&targets[0]);
        self.at(Step::BetweenItsJobs, &path);
        work(&targets[0]);
        // Waits for the first, for a while.
        let second = (self.step == Step::Never).then(|| open(plan(), &permitted).is_err());
        assert_ne!(second, Some(false), "two at once: {self:?}");
        self.at(Step::AfterItsJobs, &path);
        drop(targets);
        self.at(Step::AfterTheRun, &path);
        let is_own = open(vec![written(&path)], &none()).is_ok();
        assert_eq!(is_own, self.step == Step::Never && !self.coarse, "{self:?}");
        if self.step != Step::Never {
            let content = std::fs::read(&path).expect("readable");
            assert!(content[OFFSET as usize..].starts_with(b"PRECIOUS"), "{self:?}");
        }
        self.swap(base.path());
    }

    /// Creates and writes files below `base` while a directory on the way leads elsewhere now and then.
    fn swap(&self, base: &Path) {
        let (outside, link) = (base.join("outside"), base.join("link"));
        let rest = Path::new(WAY[2]).strip_prefix(WAY[self.swapped]).expect("below");
        std::fs::create_dir_all(outside.join(rest)).expect("directories");
        std::fs::write(outside.join(rest).join("own"), vec![7; SIZE as usize]).expect("file");
        std::os::unix::fs::symlink(&outside, &link).expect("link");
        let within = Some(base.join(WAY[0]).display().to_string());
        let swapped = base.join(WAY[self.swapped]);
        let exchange = || {
            renameat_with(CWD, &swapped, CWD, &link, RenameFlags::EXCHANGE).expect("exchanged");
        };
        meanwhile(exchange, || {
            for number in 0..8 {
                let at = |name: String| base.join(WAY[2]).join(name);
                let within = if self.swapped == 0 { None } else { within.clone() };
                let new = made(at(format!("new{number}")), 4096);
                let own = made(at("own".to_string()), SIZE);
                for target in [new, own] {
                    // Where the job's own directory leads elsewhere, a new file is where the user said.
                    if self.swapped == 0 && target.path.contains("/new") {
                        continue;
                    }
                    let target = Target { within: within.clone(), written: true, ..target };
                    if let Ok(targets) = prepare(vec![target], &none()) {
                        targets[0].keep();
                        if let Ok(fd) = targets[0].open_worker(WRITE) {
                            let _ = rustix::io::pwrite(&fd, &[1; 4096], 0);
                        }
                    }
                }
            }
        });
        let elsewhere = outside.join(rest);
        let content = std::fs::read(elsewhere.join("own")).expect("readable");
        assert!(content.iter().all(|byte| *byte == 7), "{self:?}");
        let found = std::fs::read_dir(&elsewhere).expect("directory").count();
        assert_eq!(found, 1, "created outside: {self:?}");
    }
}
