//! The programs that are compared.

use crate::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The fathom to measure: the one given, or one built now.
pub fn fathom(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return found(path);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["build", "--release", "--bin", "fathom"])
        .current_dir(root)
        .status()?;
    if !status.success() {
        return Err("cargo build --release --bin fathom failed".into());
    }
    Ok(target_dir()?.join("release/fathom"))
}

/// The absolute path of a program; a bare name is kept, to be found through PATH.
pub fn found(path: &Path) -> Result<PathBuf> {
    if path.components().count() == 1 && !path.exists() {
        return Ok(path.to_path_buf());
    }
    path.canonicalize().map_err(|error| format!("{}: {error}", path.display()).into())
}

pub fn version(path: &Path) -> Result<String> {
    let output = Command::new(path).arg("--version").output();
    let output = output.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Cargo's target directory: this program is in `release` or `debug` there.
pub fn target_dir() -> Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let dir = exe.parent().and_then(Path::parent);
    Ok(dir.ok_or("cannot derive the target directory from this program's path")?.to_path_buf())
}

/// The cases in a directory, shell files, by name; `parse` is given the path, the name and the text of each.
pub fn cases<T>(dir: &Path, parse: impl Fn(&Path, &str, &str) -> Result<T>) -> Result<Vec<T>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "sh"));
    paths.sort();
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let case = parse(path, &name, &std::fs::read_to_string(path)?);
        case.map_err(|error| format!("{}: {error}", path.display()).into())
    };
    paths.iter().map(read).collect()
}
