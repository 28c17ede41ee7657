//! User functions of running processes.

use super::elf::Functions;
use super::table::Names;
use crate::perf::Record;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of symbol tables that are kept in all.
const ROOM: usize = 256 << 20;
/// Rounds between two looks at what a process has mapped: addresses that lead nowhere are common
/// where code has no frame pointers.
const RELOAD: u64 = 5;
/// Addresses that are remembered of one process.
const ADDRESSES: usize = 1 << 16;

/// Finds the functions of user addresses.
#[derive(Debug)]
pub(super) struct UserNames {
    proc_root: PathBuf,
    debug_root: PathBuf,
    processes: HashMap<i32, Process>,
    /// By process: the one that forked it, whose code it has until it executes a program.
    parents: HashMap<i32, i32>,
    /// By device and inode; `None` where a file tells nothing.
    files: HashMap<String, Option<Functions>>,
    room: usize,
    round: u64,
}

#[derive(Debug)]
struct Process {
    maps: Vec<Map>,
    known: HashMap<u64, u32>,
    /// When the maps were read, or began to be told.
    round: u64,
}

/// A part of a process that holds code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Map {
    start: u64,
    end: u64,
    offset: u64,
    /// Device and inode.
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

    /// A new round of samples.
    pub fn next_round(&mut self) {
        self.round += 1;
    }

    /// The process has ended.
    pub fn ended(&mut self, pid: i32) {
        self.processes.remove(&pid);
        self.parents.remove(&pid);
    }

    /// The process runs another program: all that it maps is told from now on, so that it is known
    /// of one that ends before its samples are looked at.
    pub fn executed(&mut self, pid: i32) {
        let maps = Vec::new();
        self.processes.insert(pid, Process { maps, known: HashMap::new(), round: self.round });
    }

    /// A process was made.
    pub fn forked(&mut self, pid: i32, parent: i32) {
        self.ended(pid);
        self.parents.insert(pid, parent);
    }

    /// A process has mapped code.
    pub fn mapped(&mut self, pid: i32, map: Map) {
        // Of one that was not looked at before, all is read when it is.
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let before = process.maps.len();
        process.maps.retain(|old| old.end <= map.start || map.end <= old.start);
        if process.maps.len() != before {
            process.known.clear();
        }
        process.maps.push(map);
    }

    /// Records were lost: what is not known for sure is read anew.
    pub fn forget(&mut self) {
        self.processes.clear();
        self.parents.clear();
    }

    /// The number of the name of the function at `address`.
    pub fn id(&mut self, pid: i32, address: u64, names: &mut Names) -> u32 {
        if let Some(id) = self.known(pid).and_then(|known| known.get(&address)) {
            return *id;
        }
        let Some(map) = self.map(pid, address) else { return names.id("[unknown]") };
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

    /// What of the process holds `address`, after another look where it seems to have changed.
    fn map(&mut self, pid: i32, address: u64) -> Option<Map> {
        let round = self.round;
        let holds = |map: &&Map| (map.start..map.end).contains(&address);
        if !self.processes.contains_key(&pid) {
            let (maps, known) = (self.maps(pid), HashMap::new());
            self.processes.insert(pid, Process { maps, known, round });
        }
        let process = self.processes.get_mut(&pid)?;
        let found = process.maps.iter().find(holds).cloned();
        if found.is_some() || round < process.round + RELOAD {
            return found;
        }
        process.round = round;
        let maps = Map::read(&self.proc_root, pid);
        // It may have ended meanwhile.
        if !maps.is_empty() {
            process.maps = maps;
        }
        process.maps.iter().find(holds).cloned()
    }

    /// What a process holds that was not looked at before.
    fn maps(&self, pid: i32) -> Vec<Map> {
        let parent = self.parents.get(&pid);
        if let Some(process) = parent.and_then(|parent| self.processes.get(parent)) {
            return process.maps.clone();
        }
        let maps = Map::read(&self.proc_root, pid);
        match parent {
            Some(parent) if maps.is_empty() => Map::read(&self.proc_root, *parent),
            _ => maps,
        }
    }

    fn name(&mut self, pid: i32, map: &Map, address: u64) -> String {
        let path = match map.path.as_str() {
            "" => return "[anonymous]".into(),
            special if special.starts_with('[') => return special.into(),
            path => path,
        };
        if !self.files.contains_key(&map.file) {
            let functions = self.read(pid, map);
            self.room = self.room.saturating_sub(functions.as_ref().map_or(0, Functions::bytes));
            self.files.insert(map.file.clone(), functions);
        }
        let functions = self.files.get(&map.file).and_then(Option::as_ref);
        let name = functions.and_then(|f| f.name(address - map.start + map.offset));
        let file = path.rsplit('/').next().unwrap_or(path);
        name.unwrap_or_else(|| format!("[{}]", file.trim_end_matches(" (deleted)")))
    }

    /// Reads the file that was mapped: it may have been replaced, or be in another mount namespace.
    fn read(&self, pid: i32, map: &Map) -> Option<Functions> {
        let process = self.proc_root.join(pid.to_string());
        let mapped = process.join(format!("map_files/{:x}-{:x}", map.start, map.end));
        let named = process.join("root").join(map.path.trim_start_matches('/'));
        // After its end the file can only be found by its name, here.
        let here = Some(PathBuf::from(&map.path)).filter(|path| map.is_of(path));
        let paths = [Some(mapped), Some(named), here];
        let mut paths = paths.iter().flatten();
        paths.find_map(|path| Functions::read(path, &self.debug_root, self.room).ok())
    }
}

impl Map {
    /// What holds code in the process; nothing where it has ended or is another user's.
    fn read(proc_root: &Path, pid: i32) -> Vec<Self> {
        let text = fs::read(proc_root.join(format!("{pid}/maps"))).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().filter_map(Self::parse).collect()
    }

    /// `start-end perms offset device inode path`.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let is_code = fields.next()?.contains('x');
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (start, end, offset) = (hex(start)?, hex(end)?, hex(fields.next()?)?);
        let file = format!("{} {}", fields.next()?, fields.next()?);
        let path = fields.next().unwrap_or_default().trim_start().to_string();
        is_code.then_some(Self { start, end, offset, file, path })
    }

    /// The process and what it mapped, of a `PERF_RECORD_MMAP2` (perf_event_open(2)): process, thread,
    /// address, length, offset, device, inode, generation, protection, flags, path.
    pub fn of_record(record: Record<'_>) -> Option<(i32, Self)> {
        let (start, length) = (record.u64_at(8)?, record.u64_at(16)?);
        let (major, minor) = (record.u32_at(32)?, record.u32_at(36)?);
        let file = format!("{major:02x}:{minor:02x} {}", record.u64_at(40)?);
        let path = record.text_at(64).filter(|path| *path != "//anon").unwrap_or_default().into();
        let (end, offset) = (start.checked_add(length)?, record.u64_at(24)?);
        Some((record.u32_at(0)? as i32, Self { start, end, offset, file, path }))
    }

    /// Whether it is of the file that has this path now.
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
    fn maps_that_hold_code() {
        let line =
            "55d0c8a1b000-55d0c8a3c000 r-xp 00004000 fd:01 1835087    /opt/a b/fio (deleted)";
        let map = Map::parse(line).unwrap();
        let expected = Map {
            start: 0x55d0_c8a1_b000,
            end: 0x55d0_c8a3_c000,
            offset: 0x4000,
            file: "fd:01 1835087".into(),
            path: "/opt/a b/fio (deleted)".into(),
        };
        assert_eq!(map, expected);
        assert_eq!(Map::parse("7f00-7f10 rw-p 0 00:00 0").map(|map| map.path), None);
        assert_eq!(Map::parse("7f00-7f10 r-xp 0 00:00 0").map(|map| map.path), Some("".into()));
        for line in ["", "7f00", "7f00-7f10", "7f00-7f10 r-xp 0 00:00", "g-h r-xp 0 00:00 0"] {
            assert_eq!(Map::parse(line), None, "{line}");
        }
    }

    #[inline(never)]
    extern "C" fn a_function_of_this_test() -> u32 {
        std::hint::black_box(7)
    }

    #[test]
    fn a_function_of_this_process_is_named() {
        let (mut user, mut names) = (UserNames::new(Path::new("/proc")), Names::new());
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
    fn a_file_without_names_gives_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let process = dir.path().join("7");
        fs::create_dir_all(process.join("root/lib")).unwrap();
        fs::write(process.join("root/lib/libx.so"), "no program").unwrap();
        let maps = "1000-2000 r-xp 0 08:01 5 /lib/libx.so\n3000-4000 r-xp 0 00:00 0 [vdso]\n\
            5000-6000 r-xp 0 00:00 0\n";
        fs::write(process.join("maps"), maps).unwrap();
        let (mut user, mut names) = (UserNames::new(dir.path()), Names::new());
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
    fn what_a_process_told_is_known_after_its_end() {
        let (mut user, mut names) = (UserNames::new(Path::new("/nowhere")), Names::new());
        let mut name = |user: &mut UserNames, pid, address| {
            let id = user.id(pid, address, &mut names);
            names.name(id).to_string()
        };
        let map = |start, path: &str| Map {
            start,
            end: start + 0x1000,
            offset: 0,
            file: path.into(),
            path: path.into(),
        };
        user.executed(7);
        user.mapped(7, map(0x1000, "[a]"));
        user.mapped(7, map(0x3000, "[b]"));
        // Nothing is known of what was there before.
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
    fn the_file_of_a_process_that_ended_is_found_by_its_name() {
        let path = std::env::current_exe().unwrap();
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let address = a_function_of_this_test as *const () as u64;
        let holds = |map: &Map| (map.start..map.end).contains(&address);
        let map = Map::read(Path::new("/proc"), pid).into_iter().find(holds).unwrap();
        if !map.is_of(&path) {
            return eprintln!("skipped: maps and stat(2) tell different devices here");
        }
        let (mut user, mut names) = (UserNames::new(Path::new("/nowhere")), Names::new());
        user.executed(pid);
        user.mapped(pid, map.clone());
        let id = user.id(pid, address, &mut names);
        assert!(names.name(id).ends_with("tests::a_function_of_this_test"), "{}", names.name(id));
        assert!(!Map { file: "00:00 0".into(), ..map }.is_of(&path));
    }
}
