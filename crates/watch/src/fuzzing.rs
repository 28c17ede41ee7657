//! What must hold for any input of parsers that are not public; not part of the program.
#![allow(clippy::unwrap_used, reason = "a fuzzer fails by panicking")]

pub use crate::perf::fuzzing::perf;
pub use crate::stacks::fuzzing::{elf, symbols};

use crate::bpf::Btf;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// A file with `bytes`, which lasts as long as the descriptor.
pub(crate) fn file(bytes: &[u8]) -> (File, PathBuf) {
    let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC).unwrap());
    file.write_all(bytes).unwrap();
    let path = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
    (file, path)
}

/// The kernel's type information: fields are found or not.
///
/// # Panics
/// If memory is not available.
pub fn btf(bytes: &[u8]) {
    let (_file, path) = file(bytes);
    let Ok(btf) = Btf::read(&path) else { return };
    let _ = btf.function("f");
    let Some(structure) = btf.structure("s") else { return };
    for path in ["a", "b", "x", "state", "state.a"] {
        let _ = btf.field(structure, path);
    }
}

pub fn ring(bytes: &[u8]) {
    let _ = crate::rings::fdinfo::parse(bytes);
}

#[cfg(test)]
#[path = "../../../fuzz/src/driver.rs"]
mod driver;

#[cfg(test)]
mod tests {
    use super::driver::fuzz;

    #[test]
    fn perf_data() {
        fuzz("perf", 3000, super::perf);
    }

    #[test]
    fn elf_files() {
        fuzz("elf", 3000, super::elf);
    }

    #[test]
    fn type_information() {
        fuzz("btf", 3000, super::btf);
    }

    #[test]
    fn symbols_of_the_kernel_and_mappings() {
        fuzz("symbols", 3000, super::symbols);
    }

    #[test]
    fn rings() {
        fuzz("ring", 3000, super::ring);
    }
}
