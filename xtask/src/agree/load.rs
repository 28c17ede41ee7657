//! A mixed load: direct and buffered reads, synced writes, a zram device if available, niced user time.

use crate::Result;
use crate::fixtures::{Zram, filled};
use crate::run::Background;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A load that runs until dropped.
pub struct Load {
    _shell: Background,
    // Dropped after the load has ended.
    _zram: Option<Zram>,
    _dir: tempfile::TempDir,
}

/// The loops of the load, in a directory with a file `filled`; $1 is a zram device or empty. They end with their parent.
const LOOPS: &str = "
    again() { while kill -0 $PPID; do \"$@\"; done 2>/dev/null; }
    again dd if=filled of=/dev/null bs=64k iflag=direct &
    again dd if=filled of=copied bs=128k conv=fsync &
    again nice dd if=/dev/zero of=/dev/null bs=1M count=2000 &
    [ -z \"$1\" ] || again dd if=$1 of=/dev/null bs=4k iflag=direct &
    wait";

impl Load {
    pub fn start(dir: &Path) -> Result<Self> {
        let dir = tempfile::tempdir_in(dir)?;
        filled(&dir.path().join("filled"), 128 << 20)?;
        let zram = Zram::new(64 << 20)
            .inspect_err(|error| eprintln!("xtask: no zram in the load: {error}"))
            .ok();
        let device = zram.as_ref().map_or_else(String::new, |z| z.path().display().to_string());
        let mut shell = Command::new("sh");
        shell.args(["-c", LOOPS, "sh", &device]).current_dir(dir.path()).stdin(Stdio::null());
        let shell = Background::start(shell.process_group(0))?;
        Ok(Self { _shell: shell, _zram: zram, _dir: dir })
    }
}
