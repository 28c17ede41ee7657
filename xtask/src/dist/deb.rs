//! A Debian package, built by dpkg-deb(1).

use super::{call, source};
use crate::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Records always; not enabled.
const SERVICE: &str = include_str!("fathom-record.service");
const LICENSES: &str = "/usr/share/common-licenses";

/// Writes the package of `program` to `dir`.
pub fn write(program: &Path, is_static: bool, dir: &Path) -> Result<PathBuf> {
    let stage = tempfile::tempdir_in(dir)?;
    let root = stage.path().join("root");
    install(program, &root)?;
    let description = description(is_static, size(&root)?)?;
    fs::create_dir(root.join("DEBIAN"))?;
    fs::write(root.join("DEBIAN/control"), description)?;
    // All can read it, whatever the umask.
    call(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&root))?;
    let package = dir.join(format!("fathom_{VERSION}_{}.deb", architecture()?));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zgzip", "--build"]).args([&root, &package]);
    call(build.stdout(Stdio::null()))?;
    Ok(package)
}

/// Debian's name of the architecture that this runs on.
fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => Err(format!("{other}: not an architecture that fathom supports").into()),
    }
}

/// The file `control`: deb-control(5).
fn description(is_static: bool, installed_bytes: u64) -> Result<String> {
    // Of a build for trying out, which is not static, the versions needed are not known.
    let depends = if is_static { "" } else { "Depends: libc6, libgcc-s1\n" };
    Ok(format!(
        "Package: fathom\n\
         Version: {VERSION}\n\
         Architecture: {}\n\
         Maintainer: The fathom authors\n\
         Installed-Size: {}\n\
         {depends}\
         Section: admin\n\
         Priority: optional\n\
         Description: load generator and analyzer for Linux storage\n \
         fathom drives storage as fast as Linux allows, samples the machine, and reports what\n \
         limits throughput, with the evidence. It reads fio's job files.\n",
        architecture()?,
        installed_bytes.div_ceil(1024),
    ))
}

/// Lays out below `root` what the package installs.
fn install(program: &Path, root: &Path) -> Result<()> {
    let into = |dir: &str| -> Result<PathBuf> {
        let dir = root.join(dir);
        fs::create_dir_all(&dir)?;
        Ok(dir)
    };
    fs::copy(program, into("usr/bin")?.join("fathom"))?;
    manual_pages(program, &[], &into("usr/share/man/man1")?)?;
    for (shell, file) in [
        ("bash", "usr/share/bash-completion/completions/fathom"),
        ("fish", "usr/share/fish/vendor_completions.d/fathom.fish"),
        ("zsh", "usr/share/zsh/vendor-completions/_fathom"),
    ] {
        let (dir, name) = file.rsplit_once('/').unwrap_or(("", file));
        fs::write(into(dir)?.join(name), printed(program, &["completions", shell])?)?;
    }
    fs::write(into("usr/lib/systemd/system")?.join("fathom-record.service"), SERVICE)?;
    let docs = into("usr/share/doc/fathom")?;
    for name in ["README.md", "CHANGELOG.md"] {
        fs::copy(source().join(name), docs.join(name))?;
    }
    call(Command::new("cp").arg("-r").args([&source().join("docs"), &docs]))?;
    let mit = fs::read_to_string(source().join("LICENSE-MIT"))?;
    let either =
        "fathom is licensed under the Apache License 2.0 or the MIT license, at your option.";
    let copyright =
        format!("{either}\nThe text of the former is in {LICENSES}/Apache-2.0.\n\n{mit}");
    fs::write(docs.join("copyright"), copyright)?;
    Ok(())
}

/// Writes the manual page of the command `path`, and those of its subcommands.
fn manual_pages(program: &Path, path: &[&str], dir: &Path) -> Result<()> {
    let page = printed(program, &[&["man"], path].concat())?;
    let name = [&["fathom"], path].concat().join("-");
    fs::write(dir.join(format!("{name}.1")), &page)?;
    let below = commands(&page);
    below.iter().try_for_each(|name| manual_pages(program, &[path, &[name]].concat(), dir))
}

/// The commands that a manual page lists.
fn commands(page: &str) -> Vec<String> {
    let sections = page.split("\n.SH ").filter(|section| section.starts_with("COMMANDS"));
    let names = sections.flat_map(|section| section.lines()).filter_map(|line| {
        let name = line.strip_prefix("\\fB")?.strip_suffix("\\fR")?;
        Some(name.replace("\\-", "-"))
    });
    names.collect()
}

fn printed(program: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).output()?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} {}: {error}", program.display(), args.join(" ")).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Bytes of all files below `dir`.
fn size(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => size(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn commands_are_those_of_the_sections_that_list_them() {
        let page = ".TH X\n.SH NAME\n\\fBno\\fR\n.SH COMMANDS: MEASURE\n.TP\n\\fBlimit\\fR\nFind it\n.TP\n\
                    \\fBa\\-b\\fR\n.SH OPTIONS\n.TP\n\\fB\\-\\-rw\\fR\n.SH COMMANDS: X\n.TP\n\\fBtop\\fR\n";
        assert_eq!(commands(page), ["limit", "a-b", "top"]);
        assert_eq!(commands(".SH NAME\n\\fBfathom\\fR\n"), [""; 0]);
    }

    /// A program that prints a page for every command, of which `runs` has one below it.
    const PROGRAM: &str = r#"#!/bin/sh
[ "$1" = completions ] && exec echo "for $2"
list() { printf '.SH COMMANDS\n'; for name; do printf '.TP\n\\fB%s\\fR\n' "$name"; done; }
echo .TH
case "$2 $3" in " ") list runs limit ;; "runs ") list prune ;; esac
"#;

    #[test]
    fn a_package_is_one_that_dpkg_reads() {
        if Command::new("dpkg-deb").arg("--version").output().is_err() {
            println!("skipped: no dpkg-deb");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("fathom");
        fs::write(&program, PROGRAM).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
        let package = write(&program, false, dir.path()).unwrap();
        let dpkg = |option: &str| {
            let output = Command::new("dpkg-deb").arg(option).arg(&package).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let (info, contents) = (dpkg("--info"), dpkg("--contents"));
        assert!(info.contains("Package: fathom\n") && info.contains("Depends: libc6"), "{info}");
        let share = "-rw-r--r-- root/root";
        for (mode, file) in [
            ("-rwxr-xr-x root/root", "usr/bin/fathom"),
            (share, "usr/share/man/man1/fathom.1"),
            (share, "usr/share/man/man1/fathom-runs.1"),
            (share, "usr/share/man/man1/fathom-runs-prune.1"),
            (share, "usr/share/zsh/vendor-completions/_fathom"),
            (share, "usr/share/doc/fathom/copyright"),
            (share, "usr/share/doc/fathom/docs/topics/knee.md"),
        ] {
            let is_it = |line: &&str| line.ends_with(&format!(" ./{file}"));
            let line = contents.lines().find(is_it).unwrap_or_else(|| panic!("{file}: {contents}"));
            assert!(line.starts_with(mode), "{line}");
        }
        assert!(!contents.contains("limit-prune"), "{contents}");
    }
}
