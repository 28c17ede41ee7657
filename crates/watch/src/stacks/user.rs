//! Resolves user addresses of running and exited processes.

use super::elf::ElfSymbols;
use super::table::NameTable;
use crate::perf::PerfRecord;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum total size of symbol tables, in bytes.
const ROOM: usize = 256 << 20;
const UNKNOWN: &str = "[unknown]";
/// Minimum number of rounds between reads of a process's maps: invalid addresses are common in code
/// without frame pointers.
const RELOAD: u64 = 5;
/// Maximum number of addresses cached per process.
const ADDRESSES: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct UserNames {
    proc_root: PathBuf,
    debug_root: PathBuf,
    processes: HashMap<i32, ProcessMaps>,
    /// Parent by process: until its first exec, a process has its parent's code.
    parents: HashMap<i32, i32>,
    /// By device and inode; `None` if a file has no usable symbols.
    files: HashMap<String, Option<ElfSymbols>>,
    room: usize,
    round: u64,
}

#[derive(Debug)]
struct ProcessMaps {
    maps: Vec<Mapping>,
    known: HashMap<u64, u32>,
    /// When the maps were read, or recording of them began.
    round: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    file: String,
    path: String,
}

impl UserNames {
    pub fn new(proc_root: &Path) -> Self {
        Self {
            proc_root: proc_root.into(),
            debug_root: "/usr/lib/debug".into(),
            processes: HashMap::new(),
            parents: HashMap::new(),
            files: HashMap::new(),
            room: ROOM,
            round: 0,
        }
    }

    pub fn next_round(&mut self) {
        self.round += 1;
    }

    pub fn ended(&mut self, pid: i32) {
        self.processes.remove(&pid);
        self.parents.remove(&pid);
    }

    /// A process executed a program: from now on all its mappings are recorded, so it can be
    /// resolved even after it exits.
    pub fn executed(&mut self, pid: i32) {
        let maps = Vec::new();
        self.processes.insert(pid, ProcessMaps { maps, known: HashMap::new(), round: self.round });
    }

    pub fn forked(&mut self, pid: i32, parent: i32) {
        self.ended(pid);
        self.parents.insert(pid, parent);
    }

    pub fn mapped(&mut self, pid: i32, map: Mapping) {
        // The maps of unknown processes are read when needed.
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let before = process.maps.len();
        process.maps.retain(|old| old.end <= map.start || map.end <= old.start);
        if process.maps.len() != before {
            process.known.clear();
        }
        process.maps.push(map);
    }

    /// Records were lost: drops everything that may be outdated.
    pub fn forget(&mut self) {
        self.processes.clear();
        self.parents.clear();
    }

    /// The name IDs of a chain of addresses, innermost first. Without frame pointers, the kernel takes arbitrary
    /// numbers for callers, so frames beyond an address outside of code are dropped.
    pub fn chain(&mut self, pid: i32, addresses: &[u64], names: &mut NameTable) -> Vec<u32> {
        let unknown = names.id(UNKNOWN);
        let mut ids = Vec::with_capacity(addresses.len());
        for (at, address) in addresses.iter().enumerate() {
            // A return address may be that of the next function.
            let id = self.id(pid, address.wrapping_sub(u64::from(at > 0)), names);
            ids.push(id);
            if id == unknown {
                break;
            }
        }
        ids
    }

    pub fn id(&mut self, pid: i32, address: u64, names: &mut NameTable) -> u32 {
        if let Some(id) = self.known(pid).and_then(|known| known.get(&address)) {
            return *id;
        }
        let Some(map) = self.map(pid, address) else { return names.id(UNKNOWN) };
        let id = names.id(&self.name(pid, &map, address));
        if let Some(known) = self.known(pid) {
            if known.len() >= ADDRESSES {
                known.clear();
            }
            known.insert(address, id);
        }
        id
    }

    fn known(&mut self, pid: i32) -> Option<&mut HashMap<u64, u32>> {
        self.processes.get_mut(&pid).map(|process| &mut process.known)
    }

    /// The mapping that contains `address`; reads the maps again if there is none.
    fn map(&mut self, pid: i32, address: u64) -> Option<Mapping> {
        let round = self.round;
        let holds = |map: &&Mapping| (map.start..map.end).contains(&address);
        if !self.processes.contains_key(&pid) {
            let (maps, known) = (self.maps(pid), HashMap::new());
            self.processes.insert(pid, ProcessMaps { maps, known, round });
        }
        let process = self.processes.get_mut(&pid)?;
        let found = process.maps.iter().find(holds).cloned();
        if found.is_some() || round < process.round + RELOAD {
            return found;
        }
        process.round = round;
        let maps = Mapping::read(&self.proc_root, pid);
        // The process may have exited.
        if !maps.is_empty() {
            process.maps = maps;
        }
        process.maps.iter().find(holds).cloned()
    }

    fn maps(&self, pid: i32) -> Vec<Mapping> {
        let parent = self.parents.get(&pid);
        if let Some(process) = parent.and_then(|parent| self.processes.get(parent)) {
            return process.maps.clone();
        }
        let maps = Mapping::read(&self.proc_root, pid);
        match parent {
            Some(parent) if maps.is_empty() => Mapping::read(&self.proc_root, *parent),
            _ => maps,
        }
    }

    fn name(&mut self, pid: i32, map: &Mapping, address: u64) -> String {
        let path = match map.path.as_str() {
            "" => return "[anonymous]".into(),
            special if special.starts_with('[') => return special.into(),
            path => path,
        };
        if !self.files.contains_key(&map.file) {
            let functions = self.read(pid, map);
            self.room = self.room.saturating_sub(functions.as_ref().map_or(0, ElfSymbols::bytes));
            self.files.insert(map.file.clone(), functions);
        }
        let functions = self.files.get(&map.file).and_then(Option::as_ref);
        let name = functions.and_then(|f| f.name(address - map.start + map.offset));
        let file = path.rsplit('/').next().unwrap_or(path);
        name.unwrap_or_else(|| format!("[{}]", file.trim_end_matches(" (deleted)")))
    }

    /// Reads the mapped file: the path may be in another mount namespace, or the file replaced.
    fn read(&self, pid: i32, map: &Mapping) -> Option<ElfSymbols> {
        let process = self.proc_root.join(pid.to_string());
        let mapped = process.join(format!("map_files/{:x}-{:x}", map.start, map.end));
        let named = process.join("root").join(map.path.trim_start_matches('/'));
        // After the process has exited, only its path in this namespace is left.
        let here = Some(PathBuf::from(&map.path)).filter(|path| map.is_of(path));
        let paths = [Some(mapped), Some(named), here];
        let mut paths = paths.iter().flatten();
        paths.find_map(|path| ElfSymbols::read(path, &self.debug_root, self.room).ok())
    }
}

impl Mapping {
    /// Executable mappings of the process; empty if it has exited or belongs to another user.
    fn read(proc_root: &Path, pid: i32) -> Vec<Self> {
        let text = fs::read(proc_root.join(format!("{pid}/maps"))).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().filter_map(Self::parse).collect()
    }

    /// `start-end perms offset device inode path`.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let is_code = fields.next()?.contains('x');
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (start, end, offset) = (hex(start)?, hex(end)?, hex(fields.next()?)?);
        let file = format!("{} {}", fields.next()?, fields.next()?);
        let path = fields.next().unwrap_or_default().trim_start().to_string();
        is_code.then_some(Self { start, end, offset, file, path })
    }

    /// The process and mapping of a `PERF_RECORD_MMAP2` (perf_event_open(2)): process, thread,
    /// address, length, offset, device, inode, generation, protection, flags, path.
    pub fn of_record(record: PerfRecord<'_>) -> Option<(i32, Self)> {
        let (start, length) = (record.u64_at(8)?, record.u64_at(16)?);
        let (major, minor) = (record.u32_at(32)?, record.u32_at(36)?);
        let file = format!("{major:02x}:{minor:02x} {}", record.u64_at(40)?);
        let path = record.text_at(64).filter(|path| *path != "//anon").unwrap_or_default().into();
        let (end, offset) = (start.checked_add(length)?, record.u64_at(24)?);
        Some((record.u32_at(0)? as i32, Self { start, end, offset, file, path }))
    }

    fn is_of(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|found| {
            let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
            self.file == format!("{major:02x}:{minor:02x} {}", found.ino())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_mappings() {
        let line =
            "55d0c8a1b000-55d0c8a3c000 r-xp 00004000 fd:01 1835087    /opt/a b/fio (deleted)";
        let map = Mapping::parse(line).unwrap();
        let expected = Mapping {
            start: 0x55d0_c8a1_b000,
            end: 0x55d0_c8a3_c000,
            offset: 0x4000,
            file: "fd:01 1835087".into(),
            path: "/opt/a b/fio (deleted)".into(),
        };
        assert_eq!(map, expected);
        assert_eq!(Mapping::parse("7f00-7f10 rw-p 0 00:00 0").map(|map| map.path), None);
        assert_eq!(Mapping::parse("7f00-7f10 r-xp 0 00:00 0").map(|map| map.path), Some("".into()));
        for line in ["", "7f00", "7f00-7f10", "7f00-7f10 r-xp 0 00:00", "g-h r-xp 0 00:00 0"] {
            assert_eq!(Mapping::parse(line), None, "{line}");
        }
    }

    #[inline(never)]
    extern "C" fn a_function_of_this_test() -> u32 {
        std::hint::black_box(7)
    }

    #[test]
    fn functions_of_this_process_are_resolved() {
        let (mut user, mut names) = (UserNames::new(Path::new("/proc")), NameTable::new());
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let address = a_function_of_this_test as *const () as u64;
        a_function_of_this_test();
        let id = user.id(pid, address, &mut names);
        assert!(names.name(id).ends_with("tests::a_function_of_this_test"), "{}", names.name(id));
        assert_eq!(user.id(pid, address, &mut names), id);
        for (pid, address) in [(pid, 1), (i32::MAX, address)] {
            let id = user.id(pid, address, &mut names);
            assert_eq!(names.name(id), "[unknown]");
        }
    }

    #[test]
    fn a_chain_ends_where_no_code_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("7")).unwrap();
        fs::write(dir.path().join("7/maps"), "1000-2000 r-xp 0 00:00 0 [vdso]\n").unwrap();
        let (mut user, mut names) = (UserNames::new(dir.path()), NameTable::new());
        let mut chain = |addresses: &[u64]| -> Vec<String> {
            let ids = user.chain(7, addresses, &mut names);
            ids.iter().map(|id| names.name(*id).to_string()).collect()
        };
        assert_eq!(chain(&[0x1100, 0x1200, 0x77, 0x1300, 0x99]), ["[vdso]", "[vdso]", "[unknown]"]);
        assert_eq!(chain(&[0x77, 0x88, 0x99]), ["[unknown]"]);
        // The second returns to the first byte after the code.
        assert_eq!(chain(&[0x1100, 0x2000]), ["[vdso]", "[vdso]"]);
        assert_eq!(chain(&[]), [""; 0]);
    }

    #[test]
    fn files_without_symbols_are_shown_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let process = dir.path().join("7");
        fs::create_dir_all(process.join("root/lib")).unwrap();
        fs::write(process.join("root/lib/libx.so"), "no program").unwrap();
        let maps = "1000-2000 r-xp 0 08:01 5 /lib/libx.so\n3000-4000 r-xp 0 00:00 0 [vdso]\n\
            5000-6000 r-xp 0 00:00 0\n";
        fs::write(process.join("maps"), maps).unwrap();
        let (mut user, mut names) = (UserNames::new(dir.path()), NameTable::new());
        for (address, name) in [
            (0x1800, "[libx.so]"),
            (0x3000, "[vdso]"),
            (0x5000, "[anonymous]"),
            (0x7000, "[unknown]"),
        ] {
            let id = user.id(7, address, &mut names);
            assert_eq!(names.name(id), name);
        }
        fs::write(process.join("maps"), "7000-8000 r-xp 0 00:00 0 [new]\n").unwrap();
        for expected in ["[unknown]", "[new]"] {
            let id = user.id(7, 0x7001, &mut names);
            assert_eq!(names.name(id), expected);
            (0..RELOAD).for_each(|_| user.next_round());
        }
    }

    #[test]
    fn exited_processes_are_resolved() {
        let (mut user, mut names) = (UserNames::new(Path::new("/nowhere")), NameTable::new());
        let mut name = |user: &mut UserNames, pid, address| {
            let id = user.id(pid, address, &mut names);
            names.name(id).to_string()
        };
        let map = |start, path: &str| Mapping {
            start,
            end: start + 0x1000,
            offset: 0,
            file: path.into(),
            path: path.into(),
        };
        user.executed(7);
        user.mapped(7, map(0x1000, "[a]"));
        user.mapped(7, map(0x3000, "[b]"));
        // Nothing is known about earlier mappings.
        user.mapped(8, map(0x1000, "[c]"));
        user.forked(9, 7);
        for (pid, address, expected) in [
            (7, 0x1fff, "[a]"),
            (7, 0x2000, "[unknown]"),
            (8, 0x1000, "[unknown]"),
            (9, 0x3000, "[b]"),
        ] {
            assert_eq!(name(&mut user, pid, address), expected, "{pid} {address:#x}");
        }
        user.mapped(7, map(0x1800, "[d]"));
        assert_eq!(name(&mut user, 7, 0x1fff), "[d]");
        (0..=RELOAD).for_each(|_| user.next_round());
        assert_eq!(name(&mut user, 7, 0x9000), "[unknown]");
        assert_eq!(name(&mut user, 7, 0x3000), "[b]");
        user.executed(7);
        assert_eq!(name(&mut user, 7, 0x3000), "[unknown]");
        user.ended(9);
        assert_eq!(name(&mut user, 9, 0x3000), "[unknown]");
    }

    #[test]
    fn files_of_exited_processes_are_found_by_path() {
        let path = std::env::current_exe().unwrap();
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let address = a_function_of_this_test as *const () as u64;
        let holds = |map: &Mapping| (map.start..map.end).contains(&address);
        let map = Mapping::read(Path::new("/proc"), pid).into_iter().find(holds).unwrap();
        if !map.is_of(&path) {
            return eprintln!("skipped: maps and stat(2) report different devices");
        }
        let (mut user, mut names) = (UserNames::new(Path::new("/nowhere")), NameTable::new());
        user.executed(pid);
        user.mapped(pid, map.clone());
        let id = user.id(pid, address, &mut names);
        assert!(names.name(id).ends_with("tests::a_function_of_this_test"), "{}", names.name(id));
        assert!(!Mapping { file: "00:00 0".into(), ..map }.is_of(&path));
    }
}
