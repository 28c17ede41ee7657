//! A release for users who do not build it: a program that needs no library, its debug information in a file which gdb,
//! perf and addr2line find by its name (.gnu_debuglink), and a Debian package.

mod deb;

use crate::run::{self, Probe};
use crate::{Result, programs};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `cargo xtask dist`.
#[derive(clap::Args)]
pub struct Options {
    /// Package this program; by default, a release is built
    #[arg(long, value_name = "PATH")]
    fathom: Option<PathBuf>,
    /// Directory to write `fathom`, `fathom.debug` and the package to
    #[arg(value_name = "DIR", default_value = "target/dist")]
    dir: PathBuf,
}

pub fn make(options: &Options) -> Result<()> {
    let built = match &options.fathom {
        Some(path) => programs::found(path)?,
        None => static_release()?,
    };
    std::fs::create_dir_all(&options.dir)?;
    let dir = options.dir.canonicalize()?;
    let (program, debug) = (dir.join("fathom"), dir.join("fathom.debug"));
    separate_debug_information(&built, &program, &debug)?;
    let is_static = is_static(&std::fs::read(&program)?);
    let package = deb::write(&program, is_static, &dir)?;
    for path in [&program, &debug, &package] {
        println!("{}: {:.1} MB", path.display(), path.metadata()?.len() as f64 / 1e6);
    }
    if !is_static {
        println!("not tried in an empty root file system: the program needs shared libraries");
    } else if !rustix::process::geteuid().is_root() {
        println!("not tried in an empty root file system: that needs root");
    } else {
        try_alone(&package)?;
        println!("{} works in an empty root file system", package.display());
    }
    Ok(())
}

/// A release with glibc in it: the C library of all tests and measurements, which musl is not.
fn static_release() -> Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    // With --target, flags do not apply to build scripts and procedural macros, which cannot be static.
    call(
        Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
            .args(["build", "--release", "--locked", "--bin", "fathom", "--target", &target])
            .env("RUSTFLAGS", "-C target-feature=+crt-static")
            .current_dir(source()),
    )?;
    Ok(programs::target_dir()?.join(target).join("release/fathom"))
}

/// The root of the source tree.
fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn separate_debug_information(built: &Path, program: &Path, debug: &Path) -> Result<()> {
    call(
        Command::new("objcopy")
            .args(["--only-keep-debug", "--compress-debug-sections"])
            .args([built, debug]),
    )?;
    let link = format!("--add-gnu-debuglink={}", debug.display());
    // The symbol table stays: panics and `fathom stacks` name functions by it.
    call(Command::new("objcopy").args(["--strip-debug", &link]).args([built, program]))
}

/// Whether a 64-bit little-endian ELF file names no program interpreter (elf(5), PT_INTERP), which loads shared libraries.
fn is_static(elf: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let bytes = |at: usize, len: usize| elf.get(at..at + len);
    let number = |at, len| {
        let bytes = bytes(at, len)?.iter().rev();
        Some(bytes.fold(0, |all, byte| all << 8 | usize::from(*byte)))
    };
    let headers = || Some((number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?));
    let Some((start, size, count)) = headers().filter(|_| elf.starts_with(b"\x7fELF\x02\x01"))
    else {
        return false;
    };
    (0..count).all(|n| number(start + n * size, 4).is_some_and(|kind| kind != PT_INTERP as usize))
}

/// Runs the program of `package` where there are no other files than the package's, and then with /proc alone.
fn try_alone(package: &Path) -> Result<()> {
    let root = tempfile::tempdir()?;
    call(Command::new("dpkg-deb").arg("--extract").args([package, root.path()]))?;
    std::fs::create_dir(root.path().join("proc"))?;
    let alone = r#"exec chroot "$0" /usr/bin/fathom "$@""#;
    // The mount ends with its namespace.
    let with_proc = r#"mount -t proc proc "$0/proc" && exec chroot "$0" /usr/bin/fathom "$@""#;
    let null = ["run", "--no-record", "--eta=never", "--ioengine=null", "--rw=read", "--size=1m"];
    for (script, args) in
        [(alone, &["--version"][..]), (alone, &["limit", "--help"]), (with_proc, &null)]
    {
        let root = root.path().display().to_string();
        let args = [&["--mount", "sh", "-c", script, &root], args].concat();
        let args: Vec<String> = args.into_iter().map(String::from).collect();
        let done = run::run(Path::new("unshare"), &args, Path::new("/"), Probe::Nothing)?;
        if done.stdout.is_empty() {
            return Err(format!("{args:?} printed nothing").into());
        }
    }
    Ok(())
}

fn call(command: &mut Command) -> Result<()> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}").into()),
        Err(error) => Err(format!("{command:?}: {error}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF header and program headers of these types.
    fn elf(kinds: &[u8]) -> Vec<u8> {
        let mut elf = vec![0; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (elf[0x20], elf[0x36], elf[0x38]) = (64, 56, kinds.len() as u8);
        for kind in kinds {
            elf.push(*kind);
            elf.extend([0; 55]);
        }
        elf
    }

    #[test]
    fn a_program_without_interpreter_is_static() {
        assert!(is_static(&elf(&[1, 2, 1])));
        assert!(!is_static(&elf(&[1, 3, 1])));
        // A header that is cut off may be any.
        assert!(!is_static(&elf(&[1, 1])[..122]));
        assert!(!is_static(b"#!/bin/sh"));
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(is_static(&this), cfg!(target_feature = "crt-static"));
    }
}
