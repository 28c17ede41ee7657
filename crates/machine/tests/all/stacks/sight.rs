//! Attacks from where a part of /proc and /sys is missing, covered or unreadable.

use super::{attack_names, everything};
use crate::support::{open, says, target, written};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a process does not see.
#[derive(Debug, Clone, Copy)]
pub struct Sight {
    /// The command that takes it away in a mount namespace of its own. `$1` is an empty directory.
    command: &'static str,
    /// Whether no file at all can be known to be unused.
    is_blind: bool,
}

const fn sight(command: &'static str, is_blind: bool) -> Sight {
    Sight { command, is_blind }
}

pub const SIGHTS: [Sight; 11] = [
    sight("umount -l /sys", true),
    sight("mount -t tmpfs none /sys", true),
    sight("mount -t tmpfs none /sys/block", true),
    sight("mount -t tmpfs none /sys/devices/virtual/block", false),
    sight("mount -t tmpfs none /sys/dev/block", false),
    sight("mount -t tmpfs none /proc", true),
    sight("mount --bind /dev/null /proc/swaps", true),
    sight("mount -t proc -o subset=pid none /proc", true),
    sight("mount --bind /dev/null /proc/$$/mountinfo", true),
    sight("mount --rbind / $1 && umount -l $1/sys && run=\"chroot $1\"", true),
    // Nothing.
    sight("true", false),
];

/// The names to attack, in a child, and whether it sees nothing.
const NAMES: &str = "FATHOM_TEST_NAMES";
const BLIND: &str = "FATHOM_TEST_BLIND";

/// Runs as a child of the test of random stacks: attacks all names but the last, a file that is nobody's.
#[test]
fn child_that_attacks() {
    let Some(file) = std::env::var_os(NAMES) else { return };
    let names = std::fs::read(file).expect("names");
    let names = names.split(|byte| *byte == 0);
    let mut names: Vec<PathBuf> = names.map(|name| OsStr::from_bytes(name).into()).collect();
    let own = names.pop().expect("a file");
    attack_names(&names, &|| false);
    let read = open(vec![target(&own)], &everything(&own)).map(|_| ());
    let write = open(vec![written(&own)], &everything(&own)).map(|_| ());
    if std::env::var_os(BLIND).is_some() {
        let error = write.expect_err("nothing is known to be unused").to_string();
        match read {
            Ok(()) => says(&error, &["cannot check what uses"]),
            Err(_) => says(&error, &["needs /proc"]),
        }
    } else {
        read.expect("readable");
    }
}

impl Sight {
    /// Attacks `names` from there; `own` is a file that nothing uses.
    pub fn attack(self, names: &[PathBuf], own: &Path, dir: &Path) {
        let list = dir.join("names");
        let names = names.iter().map(PathBuf::as_path).chain([own]);
        let names: Vec<&[u8]> = names.map(|name| name.as_os_str().as_bytes()).collect();
        std::fs::write(&list, names.join(&0)).expect("names");
        let below = dir.join("below");
        std::fs::create_dir_all(&below).expect("directory");
        let test = "--exact stacks::sight::child_that_attacks --test-threads=1";
        let script = format!("{} && exec $run \"$0\" {test}", self.command);
        let mut child = Command::new("unshare");
        child.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        child.arg(std::env::current_exe().expect("this test")).arg(below).env(NAMES, &list);
        if self.is_blind {
            child.env(BLIND, "1");
        }
        let output = child.output().expect("unshare, of Debian's util-linux");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{self:?}: {}", String::from_utf8_lossy(&said));
    }
}
