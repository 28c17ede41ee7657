//! Symbol tables of ELF files.

use object::read::{ReadCache, ReadRef};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ObjectSymbolTable, SymbolKind};
use std::fs::File;
use std::io;
use std::path::Path;

#[derive(Debug, Default)]
pub(super) struct ElfSymbols {
    functions: Vec<ElfSymbol>,
    names: Vec<u8>,
    segments: Vec<LoadSegment>,
}

#[derive(Debug, Clone, Copy)]
struct ElfSymbol {
    start: u64,
    /// 0 if unknown: extends to the next function.
    size: u64,
    name: u32,
    length: u32,
}

#[derive(Debug, Clone, Copy)]
struct LoadSegment {
    offset: u64,
    size: u64,
    address: u64,
}

impl ElfSymbols {
    /// Reads the functions of the ELF file `path`, or if it is stripped those of its debug file in
    /// `debug_root`, found by build ID; at most `room` bytes of symbol tables.
    pub fn read(path: &Path, debug_root: &Path, room: usize) -> io::Result<Self> {
        let cache = open(path)?;
        let elf = object::File::parse(&cache).map_err(io::Error::other)?;
        let mut this = Self::default();
        for segment in elf.segments() {
            let (offset, size) = segment.file_range();
            this.segments.push(LoadSegment { offset, size, address: segment.address() });
        }
        match elf.build_id().ok().flatten().and_then(|id| debug_path(debug_root, id)) {
            Some(path) if elf.symbol_table().is_none() && path.exists() => {
                let cache = open(&path)?;
                this.add(&object::File::parse(&cache).map_err(io::Error::other)?, room)?;
            }
            _ => this.add(&elf, room)?,
        }
        this.functions.sort_unstable_by_key(|function| function.start);
        this.functions.dedup_by_key(|function| function.start);
        Ok(this)
    }

    fn add<'a>(&mut self, elf: &object::File<'a, impl ReadRef<'a>>, room: usize) -> io::Result<()> {
        let tables = [".symtab", ".strtab", ".dynsym", ".dynstr"];
        let sizes = tables.iter().filter_map(|name| Some(elf.section_by_name(name)?.size()));
        if sizes.fold(0, u64::saturating_add) > room as u64 {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let tables = [elf.symbol_table(), elf.dynamic_symbol_table()];
        for symbol in tables.iter().flatten().flat_map(ObjectSymbolTable::symbols) {
            let Ok(name) = symbol.name_bytes() else { continue };
            if symbol.kind() != SymbolKind::Text || symbol.is_undefined() || name.is_empty() {
                continue;
            }
            let Ok(at) = u32::try_from(self.names.len()) else { break };
            let length = name.len() as u32;
            self.names.extend(name);
            let (start, size) = (symbol.address(), symbol.size());
            self.functions.push(ElfSymbol { start, size, name: at, length });
        }
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.names.len() + self.functions.len() * size_of::<ElfSymbol>()
    }

    pub fn name(&self, offset: u64) -> Option<String> {
        let within =
            |s: &&LoadSegment| (s.offset..s.offset.saturating_add(s.size)).contains(&offset);
        let segment = self.segments.iter().find(within)?;
        let address = segment.address.wrapping_add(offset - segment.offset);
        let next = self.functions.partition_point(|function| function.start <= address);
        let function = self.functions[..next].last()?;
        if function.size != 0 && address - function.start >= function.size {
            return None;
        }
        let at = function.name as usize;
        Some(readable(self.names.get(at..at + function.length as usize)?))
    }
}

fn open(path: &Path) -> io::Result<ReadCache<File>> {
    let file = File::open(path)?;
    // Reading other kinds of files may block.
    if file.metadata()?.is_file() {
        Ok(ReadCache::new(file))
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

/// `.build-id/ab/cdef….debug` (GDB's manual, "Debugging Information in Separate Files").
fn debug_path(root: &Path, id: &[u8]) -> Option<std::path::PathBuf> {
    let (first, rest) = id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(root.join(format!(".build-id/{first:02x}/{rest}.debug")))
}

/// The demangled name, without parameters and hashes.
fn readable(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    if let Ok(rust) = rustc_demangle::try_demangle(&text) {
        return format!("{rust:#}");
    }
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    let cpp = text.starts_with("_Z").then(|| cpp_demangle::Symbol::new(name).ok()).flatten();
    cpp.and_then(|symbol| symbol.demangle_with_options(&options).ok())
        .unwrap_or_else(|| text.split('@').next().unwrap_or_default().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_source() {
        let cases: [(&[u8], &str); 5] = [
            (b"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            (b"_RNvC6_123foo3bar", "123foo::bar"),
            (b"_ZN7rocksdb6DBImpl3GetERKNS_11ReadOptionsE", "rocksdb::DBImpl::Get"),
            (b"pthread_create@@GLIBC_2.34", "pthread_create"),
            (b"_Zbroken", "_Zbroken"),
        ];
        for (name, expected) in cases {
            assert_eq!(readable(name), expected);
        }
    }

    #[test]
    fn invalid_files_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in
            [("empty", &b""[..]), ("text", b"hello"), ("cut", b"\x7fELF\x02\x01\x01")]
        {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            assert!(ElfSymbols::read(&path, dir.path(), 1 << 20).is_err(), "{name}");
        }
        assert!(ElfSymbols::read(dir.path(), dir.path(), 1 << 20).is_err());
        let own = std::env::current_exe().unwrap();
        assert!(ElfSymbols::read(&own, dir.path(), 10).is_err());
    }

    #[test]
    fn stripped_files_have_debug_files() {
        let root = Path::new("/usr/lib/debug");
        assert_eq!(
            debug_path(root, &[0xab, 0xcd, 0x0f]).unwrap(),
            root.join(".build-id/ab/cd0f.debug")
        );
        assert_eq!(debug_path(root, &[]), None);
    }
}
