//! Host requirements of the lab: QEMU, and programs that unpack kernels.

use crate::Result;
use std::path::Path;
use std::process::{Command, Stdio};

pub const QEMU: &str = "qemu-system-x86_64";

/// Whether a program is found by its name.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Installs missing packages if possible.
pub fn prepare() -> Result<()> {
    let needed = [
        (QEMU, "qemu-system-x86"),
        ("xz", "xz-utils"),
        ("zstd", "zstd"),
        ("base64", "coreutils"),
        ("tar", "tar"),
    ];
    let missing: Vec<&str> =
        needed.iter().filter(|(program, _)| !has(program)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let root = rustix::process::geteuid().is_root();
    if root && has("apt-get") {
        println!("installing {}", missing.join(" "));
        let mut apt = Command::new("apt-get");
        apt.arg("-qq").env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        apt.args(["install", "--yes", "--no-install-recommends"]).args(&missing);
        if apt.status()?.success() {
            return Ok(());
        }
        // The package lists may be outdated.
        let updated = Command::new("apt-get").args(["-qq", "update"]).status()?;
        if updated.success() && apt.status()?.success() {
            return Ok(());
        }
    }
    Err(format!("missing on this machine: install the packages {}", missing.join(", ")).into())
}

/// The contents of a file, unpacked by a program that writes to its standard output. Its complaints about trailing bytes
/// are ignored.
pub fn unpacked(program: &str, file: &Path) -> Result<Vec<u8>> {
    let output = Command::new(program).arg("-dc").stdin(std::fs::File::open(file)?).output()?;
    if output.stdout.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} -dc <{}: {}", file.display(), said.trim()).into());
    }
    Ok(output.stdout)
}
