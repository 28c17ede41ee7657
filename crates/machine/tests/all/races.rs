//! What another program changes between two steps of the guard.
#![allow(clippy::expect_used, clippy::panic)]

use crate::support::{MIB, Target, made, none, prepare};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Repeats `act` in another thread while `body` runs.
fn meanwhile(act: impl Fn() + Sync, body: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                act();
            }
        });
        body();
        done.store(true, Ordering::Relaxed);
    });
}

fn exchange(one: &Path, other: &Path) {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).expect("exchanged");
}

#[test]
fn a_directory_swapped_for_a_link_does_not_lead_out_of_the_job() {
    let dir = crate::support::dir();
    let at = |name: &str| dir.path().join(name);
    for name in ["job", "job/sub", "outside"] {
        std::fs::create_dir(at(name)).expect("directory");
    }
    std::os::unix::fs::symlink(at("outside"), at("job/link")).expect("link");
    let within = Some(at("job").display().to_string());
    meanwhile(
        || exchange(&at("job/sub"), &at("job/link")),
        || {
            for number in 0..500 {
                let path = at(&format!("job/sub/file{number}"));
                let new = Target { within: within.clone(), written: true, ..made(path, MIB) };
                // Kept, if the run goes on to begin.
                prepare(vec![new], &none()).iter().flatten().for_each(|target| target.keep());
            }
        },
    );
    assert_eq!(std::fs::read_dir(at("outside")).expect("directory").count(), 0);
}
