//! What the lab needs of its host: QEMU, programs that unpack kernels, and the libraries of fathom.

use crate::Result;
use std::path::Path;
use std::process::{Command, Stdio};

pub const QEMU: &str = "qemu-system-x86_64";

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

pub fn libraries(program: &Path) -> Result<Vec<String>> {
    let output = Command::new("ldd").arg(program).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(String::from).collect())
}

/// Copies a program without its symbols and debug information, which guests have no use for.
pub fn strip(program: &Path, copy: &Path) -> Result<()> {
    let output = Command::new("strip").arg("-o").args([copy, program]).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("strip {}: {}", program.display(), said.trim()).into())
}
