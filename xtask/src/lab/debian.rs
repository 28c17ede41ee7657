//! Debian's packages, unpacked below `target/lab` and never installed: the kernels and what the
//! guest needs in addition to fathom. Downloads are kept, so that a second run needs no network.

use super::case::Kernel;
use crate::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIRROR: &str = "http://deb.debian.org/debian";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The guest's programs and the libraries that they link.
const TOOLS: [&str; 50] = [
    "attr",
    "btrfs-progs",
    "busybox-static",
    "dmsetup",
    "e2fsprogs",
    "fdisk",
    "gojq",
    "libacl1",
    "libattr1",
    "libblkid1",
    "libbsd0",
    "libc6",
    "libcap-ng0",
    "libcap2",
    "libcom-err2",
    "libcrypt1",
    "libdbus-1-3",
    "libdevmapper1.02.1",
    "libedit2",
    "libext2fs2",
    "libfdisk1",
    "libgcc-s1",
    "libgcrypt20",
    "libgpg-error0",
    "libinih1",
    "libjson-c5",
    "liblz4-1",
    "liblzma5",
    "liblzo2-2",
    "libmd0",
    "libmount1",
    "libnvme1",
    "libpcre2-8-0",
    "libreadline8",
    "libselinux1",
    "libsmartcols1",
    "libss2",
    "libssl3",
    "libsystemd0",
    "libtinfo6",
    "libudev1",
    "liburcu8",
    "libuuid1",
    "libzstd1",
    "mdadm",
    "mount",
    "nvme-cli",
    "util-linux",
    "xfsprogs",
    "zlib1g",
];
/// The packages of a kernel; from 7.x on, several.
const PARTS: [&str; 4] = ["linux-image-", "linux-binary-", "linux-modules-", "linux-base-"];

fn suite(kernel: Kernel) -> &'static str {
    match kernel {
        Kernel::V6_1 => "bookworm",
        Kernel::V6_12 => "bookworm-backports",
        Kernel::V7 => "trixie-backports",
    }
}

/// The directory with the kernel's unpacked package; downloaded if missing.
pub fn kernel(lab: &Path, kernel: Kernel) -> Result<PathBuf> {
    let dir = lab.join("packages").join(format!("kernel-{}", kernel.name()));
    fetched(&dir, || {
        let suite = Suite::open(lab, suite(kernel))?;
        let wanted = |name: &str| PARTS.iter().any(|part| name.starts_with(part));
        // The package linux-image-amd64 is empty and depends on the newest kernel of the suite;
        // from 7.x on that one is empty too.
        let packages = suite.depends("linux-image-amd64")?;
        let image = packages.into_iter().find(|name| name.starts_with(PARTS[0]));
        let image = image.ok_or("linux-image-amd64 depends on no kernel")?;
        let mut packages = suite.depends(&image)?;
        packages.retain(|name| wanted(name));
        packages.push(image);
        suite.unpack(&packages, &dir)
    })?;
    Ok(dir)
}

/// The directory with the guest's programs; downloaded if missing.
pub fn tools(lab: &Path) -> Result<PathBuf> {
    let dir = lab.join("packages/tools");
    let packages: Vec<String> = TOOLS.iter().map(ToString::to_string).collect();
    let list = packages.join("\n");
    let stamp = dir.join("packages.list");
    if fs::read_to_string(&stamp).is_ok_and(|have| have != list) {
        fs::remove_dir_all(&dir)?;
    }
    fetched(&dir, || {
        Suite::open(lab, "bookworm")?.unpack(&packages, &dir)?;
        Ok(fs::write(&stamp, &list)?)
    })?;
    Ok(dir)
}

/// Downloads the contents of a directory unless it is complete.
fn fetched(dir: &Path, fetch: impl FnOnce() -> Result<()>) -> Result<()> {
    let done = dir.join("complete");
    if done.exists() {
        return Ok(());
    }
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::create_dir_all(dir)?;
    fetch()?;
    Ok(fs::write(done, "")?)
}

/// One suite of Debian's archive, with package lists separate from the host's.
struct Suite {
    dir: PathBuf,
}

impl Suite {
    fn open(lab: &Path, name: &str) -> Result<Suite> {
        for (program, package) in [("apt-get", "apt"), ("dpkg", "dpkg")] {
            if !super::host::has(program) {
                return Err(format!(
                    "no {program}: the lab needs Debian or a derivative ({package})"
                )
                .into());
            }
        }
        if !Path::new(KEYRING).exists() {
            return Err(format!("no {KEYRING}: install debian-archive-keyring").into());
        }
        println!("fetching packages of Debian's {name}");
        let suite = Suite { dir: lab.join("apt").join(name) };
        for dir in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(suite.dir.join(dir))?;
        }
        fs::write(suite.dir.join("status"), "")?;
        let source = format!("deb [signed-by={KEYRING} target=Packages] {MIRROR} {name} main\n");
        fs::write(suite.dir.join("sources.list"), source)?;
        run(suite.apt("apt-get").args(["-q", "update"]))?;
        Ok(suite)
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for (key, path) in [
            ("Dir::State", ""),
            ("Dir::State::lists", "lists"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", "cache"),
            ("Dir::Etc::sourcelist", "sources.list"),
        ] {
            command.arg("-o").arg(format!("{key}={}", self.dir.join(path).display()));
        }
        for setting in [
            "Dir::Etc::sourceparts=/dev/null",
            "Dir::Etc::preferencesparts=/dev/null",
            "Acquire::Languages=none",
            "Acquire::Retries=3",
            "APT::Sandbox::User=root",
            "APT::Architecture=amd64",
        ] {
            command.args(["-o", setting]);
        }
        command
    }

    fn depends(&self, package: &str) -> Result<Vec<String>> {
        let text = run(self.apt("apt-cache").args(["depends", "--important", package]))?;
        let names = text
            .lines()
            .filter_map(|line| line.trim().trim_start_matches('|').strip_prefix("Depends: "));
        Ok(names.map(String::from).collect())
    }

    fn unpack(&self, packages: &[String], dir: &Path) -> Result<()> {
        let debs = self.dir.join("debs");
        fs::create_dir_all(&debs)?;
        run(self.apt("apt-get").args(["-q", "download"]).args(packages).current_dir(&debs))?;
        for entry in fs::read_dir(&debs)? {
            run(Command::new("dpkg").arg("-x").arg(entry?.path()).arg(dir))?;
        }
        Ok(fs::remove_dir_all(&debs)?)
    }
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{:?} failed: {}", command.get_program(), said.trim()).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
