//! The kernel and initramfs of a guest. The latter contains modules, Debian's programs, fathom and the cases.

use super::case::Kernel;
use super::cpio::Cpio;
use super::{debian, host, modules};
use crate::Result;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Image {
    pub kernel: PathBuf,
    pub initrd: PathBuf,
}

/// Programs of this workspace that the guest needs.
const PROGRAMS: [&str; 2] = ["fathom", "deny-io-uring"];

/// Programs of this workspace, and the shared libraries that they need, as (path in the guest, content).
pub type Programs = Vec<(String, Vec<u8>)>;

/// Takes the programs from a directory, or builds them the way the tests do. Optimized ones would take minutes to build,
/// and save less in the guests.
pub fn programs(root: &Path, dir: &Path, built: Option<&Path>) -> Result<Programs> {
    let target = root.join("target");
    if built.is_none() {
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--quiet", "--locked", "--workspace", "--bins", "--target-dir"]);
        if !cargo.arg(&target).current_dir(root).status()?.success() {
            return Err("fathom did not build".into());
        }
    }
    let programs = built.map_or_else(|| target.join("debug"), Path::to_path_buf);
    let mut files = BTreeMap::new();
    for name in PROGRAMS {
        let (built, stripped) = (programs.join(name), dir.join(name));
        host::strip(&built, &stripped)?;
        files.insert(format!("lab/bin/{name}"), fs::read(&stripped)?);
        for library in host::libraries(&built)? {
            files.insert(library.trim_start_matches('/').into(), fs::read(&library)?);
        }
    }
    Ok(files.into_iter().collect())
}

pub fn build(
    root: &Path,
    lab: &Path,
    dir: &Path,
    kernel: Kernel,
    programs: &[(String, Vec<u8>)],
) -> Result<Image> {
    let package = debian::kernel(lab, kernel)?;
    let mut initrd =
        kept(&package.join("modules.cpio"), &root.join("xtask/src/lab/modules.rs"), || {
            modules::archive(&package)
        })?;
    let tools = debian::tools(lab)?;
    initrd.extend(kept(&tools.join("tools.cpio"), &root.join("xtask/src/lab/image.rs"), || {
        let mut cpio = Cpio::default();
        cpio.tree(&tools, &in_guest)?;
        Ok(cpio.finish())
    })?);
    initrd.extend(own(root, programs)?);
    let path = dir.join(format!("initrd-{}", kernel.name()));
    fs::write(&path, initrd)?;
    Ok(Image { kernel: kernel_file(&package)?, initrd: path })
}

/// Returns an existing file that is not older than its source, or creates it.
fn kept(path: &Path, source: &Path, make: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
    let modified = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified());
    if let (Ok(made), Ok(changed)) = (modified(path), modified(source))
        && made > changed
    {
        return Ok(fs::read(path)?);
    }
    let bytes = make()?;
    fs::write(path, &bytes)?;
    Ok(bytes)
}

fn in_guest(name: &str) -> bool {
    let idle = [
        "usr/share",
        "usr/lib/x86_64-linux-gnu/gconv",
        "usr/lib/systemd",
        "lib/systemd",
        "usr/lib/udev",
    ];
    let own = ["complete", "packages.list", "tools.cpio"];
    !own.contains(&name) && !idle.contains(&name) && !name.starts_with("lib/udev")
}

/// Files of the workspace: the guest's init, its library, the cases and programs.
fn own(root: &Path, programs: &[(String, Vec<u8>)]) -> Result<Vec<u8>> {
    let mut cpio = Cpio::default();
    for dir in
        ["dev", "proc", "sys", "run", "tmp", "mnt", "root", "etc", "lab", "lab/bin", "lab/cases"]
    {
        cpio.directory(dir);
    }
    cpio.program("init", &fs::read(root.join("lab/guest/init.sh"))?);
    cpio.file("lab/lib.sh", &fs::read(root.join("lab/guest/lib.sh"))?);
    cpio.file("etc/passwd", b"root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n");
    cpio.file("etc/group", b"root:x:0:\nnogroup:x:65534:\n");
    for entry in fs::read_dir(root.join("lab/cases"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        cpio.file(&format!("lab/cases/{name}"), &fs::read(&path)?);
    }
    // The libraries replace Debian's, which may be older than those that the programs were linked with.
    for (name, bytes) in programs {
        cpio.program(name, bytes);
    }
    Ok(cpio.finish())
}

/// The uncompressed kernel, because decompression takes QEMU seconds; unchanged if the compression is unknown.
fn kernel_file(package: &Path) -> Result<PathBuf> {
    let plain = package.join("vmlinux");
    if plain.exists() {
        return Ok(plain);
    }
    let packed =
        find(package, "vmlinuz")?.ok_or_else(|| format!("{}: no vmlinuz", package.display()))?;
    let bytes = fs::read(&packed)?;
    for (program, magic) in [("xz", b"\xfd7zXZ\0".as_slice()), ("zstd", b"\x28\xb5\x2f\xfd")] {
        let part = package.join("payload");
        for at in bytes
            .windows(magic.len())
            .enumerate()
            .filter(|(_, have)| *have == magic)
            .map(|(at, _)| at)
        {
            fs::write(&part, &bytes[at..])?;
            let kernel = host::unpacked(program, &part).unwrap_or_default();
            fs::remove_file(&part)?;
            if kernel.starts_with(b"\x7fELF") {
                fs::write(&plain, kernel)?;
                return Ok(plain);
            }
        }
    }
    Ok(packed)
}

fn find(dir: &Path, start: &str) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            if let Some(path) = find(&entry.path(), start)? {
                return Ok(Some(path));
            }
        } else if entry.file_name().to_string_lossy().starts_with(start) {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}
