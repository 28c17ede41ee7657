//! The kernel modules of the guest: those named here and what they depend on, with the lists
//! by which modprobe finds them. Dependencies are read from the modules.

use super::cpio::Cpio;
use super::host;
use crate::Result;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules that cases may load. Some kernels lack some of them or have them built in.
const MODULES: [&str; 34] = [
    "bfq",
    "brd",
    "btrfs",
    "configfs",
    "crc32c_generic",
    "crc32c_intel",
    "crc32c_cryptoapi",
    "crct10dif_generic",
    "dm_crypt",
    "dm_delay",
    "dm_dust",
    "dm_flakey",
    "dm_log_writes",
    "dm_mod",
    "dm_snapshot",
    "ext4",
    "libcrc32c",
    "loop",
    "lzo",
    "lzo_rle",
    "md_mod",
    "null_blk",
    "nvme",
    "overlay",
    "raid0",
    "raid1",
    "scsi_debug",
    "sd_mod",
    "sg",
    "vfat",
    "virtio_console",
    "virtio_pci",
    "xfs",
    "zram",
];

struct Module {
    content: Vec<u8>,
    depends: Vec<String>,
    aliases: Vec<String>,
}

pub fn archive(package: &Path) -> Result<Vec<u8>> {
    let root = ["lib/modules", "usr/lib/modules"]
        .iter()
        .map(|dir| package.join(dir))
        .find(|dir| dir.exists());
    let root = root.ok_or_else(|| format!("{}: no modules", package.display()))?;
    let version =
        fs::read_dir(&root)?.next().ok_or("no modules in the kernel's package")??.file_name();
    let version = version.to_string_lossy();
    let mut files = BTreeMap::new();
    find(&root.join(&*version), &mut files)?;
    let mut have = BTreeMap::new();
    for name in MODULES {
        load(name, &files, &mut have)?;
    }

    let mut cpio = Cpio::default();
    let below = format!("lib/modules/{version}");
    for dir in ["lib", "lib/modules", &below] {
        cpio.directory(dir);
    }
    let (mut dependencies, mut aliases) = (String::new(), String::new());
    for (name, module) in &have {
        cpio.file(&format!("{below}/{name}.ko"), &module.content);
        let needed: String =
            closure(name, &have).iter().map(|name| format!(" {name}.ko")).collect();
        dependencies += &format!("{name}.ko:{needed}\n");
        aliases.extend(module.aliases.iter().map(|alias| format!("alias {alias} {name}\n")));
    }
    cpio.file(&format!("{below}/modules.dep"), dependencies.as_bytes());
    cpio.file(&format!("{below}/modules.alias"), aliases.as_bytes());
    let builtin = root.join(&*version).join("modules.builtin");
    let builtin = fs::read(&builtin).map_err(|error| format!("{}: {error}", builtin.display()))?;
    cpio.file(&format!("{below}/modules.builtin"), &builtin);
    Ok(cpio.finish())
}

/// All module files below a directory, by the name that the kernel has for the module.
fn find(dir: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() {
            find(&path, files)?;
        } else if let Some((name, ending)) = file.split_once(".ko")
            && ["", ".xz", ".zst"].contains(&ending)
        {
            files.insert(name.replace('-', "_"), path);
        }
    }
    Ok(())
}

fn load(
    name: &str,
    files: &BTreeMap<String, PathBuf>,
    have: &mut BTreeMap<String, Module>,
) -> Result<()> {
    let Some(path) = files.get(name).filter(|_| !have.contains_key(name)) else { return Ok(()) };
    let content = match path.extension().and_then(|ending| ending.to_str()) {
        Some("xz") => host::unpacked("xz", path)?,
        Some("zst") => host::unpacked("zstd", path)?,
        _ => fs::read(path)?,
    };
    let depends: Vec<String> = notes(&content, "depends=")
        .iter()
        .flat_map(|names| names.split(','))
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect();
    let aliases = notes(&content, "alias=");
    let module = Module { content, depends: depends.clone(), aliases };
    have.insert(name.to_string(), module);
    depends.iter().try_for_each(|name| load(name, files, have))
}

/// The values of a key in a module's information: strings that end in a zero byte.
fn notes(module: &[u8], key: &str) -> Vec<String> {
    let strings =
        module.split(|byte| *byte == 0).filter_map(|bytes| bytes.strip_prefix(key.as_bytes()));
    strings.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
}

fn closure(name: &str, have: &BTreeMap<String, Module>) -> Vec<String> {
    let mut needed: Vec<String> = Vec::new();
    let mut next = vec![name.to_string()];
    while let Some(current) = next.pop() {
        for name in have.get(&current).map(|module| &module.depends).into_iter().flatten() {
            needed.retain(|have| have != name);
            needed.push(name.clone());
            next.push(name.clone());
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_by_others_comes_last() {
        let module = |depends: &[&str]| Module {
            content: Vec::new(),
            depends: depends.iter().map(ToString::to_string).collect(),
            aliases: Vec::new(),
        };
        let have = BTreeMap::from([
            ("ext4".to_string(), module(&["crc", "jbd2", "mbcache"])),
            ("jbd2".to_string(), module(&["crc"])),
            ("mbcache".to_string(), module(&[])),
            ("crc".to_string(), module(&[])),
        ]);
        assert_eq!(closure("ext4", &have), ["jbd2", "mbcache", "crc"]);
        assert!(closure("crc", &have).is_empty());
    }

    #[test]
    fn a_module_says_what_it_needs() {
        let module = b"\x7fELF\0license=GPL\0depends=nvme-core,t10_pi\0alias=pci:v1\0";
        assert_eq!(notes(module, "depends="), ["nvme-core,t10_pi"]);
        assert_eq!(notes(module, "alias="), ["pci:v1"]);
    }
}
