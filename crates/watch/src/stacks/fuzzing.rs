//! What must hold for any symbol table; not part of the program.

use super::elf::ElfSymbols;
use super::kallsyms::Kallsyms;
use super::user::Mapping;
use crate::fuzzing::file;
use std::path::Path;

/// Memory for the symbols of one file, in bytes.
const ROOM: usize = 1 << 20;

/// An ELF file: each address has a name or none, in bounded memory.
///
/// # Panics
/// If more memory is used, or none is available.
pub fn elf(bytes: &[u8]) {
    let (_file, path) = file(bytes);
    let Ok(symbols) = ElfSymbols::read(&path, Path::new("/nonexistent"), ROOM) else { return };
    // Names may overlap in the file, so that it holds more of them than bytes.
    assert!(symbols.bytes() <= bytes.len().saturating_mul(bytes.len()));
    for offset in [0, 1, 0x1000, 0x1010, u64::from(u32::MAX), u64::MAX] {
        let _ = symbols.name(offset);
    }
}

/// Lines of `kallsyms` and of a process's `maps`.
pub fn symbols(bytes: &[u8]) {
    let kernel = Kallsyms::parse(bytes);
    for address in [0, 0xffff_ffff_8100_0000, u64::MAX] {
        let _ = kernel.name(address);
    }
    String::from_utf8_lossy(bytes).lines().for_each(|line| drop(Mapping::parse(line)));
}
