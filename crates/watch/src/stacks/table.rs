//! Interned names and stacks, with bounded memory.

use fathom_model::watch::Stack;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of entries of all stacks: 8 MiB, some 80,000 kernel stacks.
const ROOM: usize = 2 << 20;
/// Maximum number of names.
const NAMES: usize = 100_000;
/// Separates kernel and user functions.
const USER: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct NameTable {
    ids: HashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

#[derive(Debug)]
pub(super) struct StackTable {
    /// Outermost first: kernel functions, [`USER`], user functions.
    ids: HashMap<Box<[u32]>, u32>,
    room: usize,
    fresh: Vec<Stack>,
    key: Vec<u32>,
}

impl NameTable {
    /// The ID used for all names once the table is full.
    const MORE: u32 = 0;

    pub fn new() -> Self {
        let mut this = Self { ids: HashMap::new(), names: Vec::new() };
        this.id("[more]");
        this
    }

    pub fn id(&mut self, name: &str) -> u32 {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = self.names.len();
        if id >= NAMES {
            return Self::MORE;
        }
        self.names.push(fathom_model::escape::bytes(name.as_bytes()).into());
        self.ids.insert(name.into(), id as u32);
        id as u32
    }

    pub fn name(&self, id: u32) -> &str {
        self.names.get(id as usize).map_or("", |name| name)
    }
}

impl StackTable {
    pub fn new() -> Self {
        Self { ids: HashMap::new(), room: ROOM, fresh: Vec::new(), key: Vec::new() }
    }

    /// The ID of the stack of these functions, innermost first, and whether it was truncated to its
    /// innermost function.
    pub fn id(&mut self, kernel: &[u32], user: &[u32], names: &NameTable) -> (u32, bool) {
        if let Some(id) = self.known(kernel, user) {
            return (id, false);
        }
        if self.key.len() <= self.room {
            return (self.add(names), false);
        }
        // The number of innermost functions is bounded by that of names.
        let (kernel, user) = match kernel.first() {
            Some(_) => (&kernel[..1], &user[..0]),
            None => (kernel, &user[..user.len().min(1)]),
        };
        let id = self.known(kernel, user);
        (id.unwrap_or_else(|| self.add(names)), true)
    }

    pub fn take_fresh(&mut self) -> Vec<Stack> {
        std::mem::take(&mut self.fresh)
    }

    fn known(&mut self, kernel: &[u32], user: &[u32]) -> Option<u32> {
        self.key.clear();
        self.key.extend(kernel.iter().rev());
        self.key.push(USER);
        self.key.extend(user.iter().rev());
        self.ids.get(self.key.as_slice()).copied()
    }

    fn add(&mut self, names: &NameTable) -> u32 {
        let id = self.ids.len() as u32;
        let mut parts = self.key.split(|id| *id == USER);
        let mut part = || -> Vec<String> {
            parts.next().unwrap_or_default().iter().map(|id| names.name(*id).into()).collect()
        };
        self.fresh.push(Stack { kernel: part(), user: part() });
        self.room = self.room.saturating_sub(self.key.len());
        self.ids.insert(self.key.as_slice().into(), id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(kernel: &[&str], user: &[&str]) -> Stack {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
        Stack { kernel: own(kernel), user: own(user) }
    }

    #[test]
    fn stacks_are_reported_once() {
        let (mut names, mut stacks) = (NameTable::new(), StackTable::new());
        let [read, enter, main] = ["vfs_read", "entry", "main"].map(|name| names.id(name));
        assert_eq!(names.id("entry"), enter);
        assert_eq!(stacks.id(&[read, enter], &[main], &names), (0, false));
        assert_eq!(stacks.id(&[], &[main], &names), (1, false));
        assert_eq!(stacks.id(&[main], &[], &names), (2, false));
        assert_eq!(stacks.id(&[read, enter], &[main], &names), (0, false));
        let expected = [
            stack(&["entry", "vfs_read"], &["main"]),
            stack(&[], &["main"]),
            stack(&["main"], &[]),
        ];
        assert_eq!(stacks.take_fresh(), expected);
        assert_eq!(stacks.id(&[], &[], &names), (3, false));
        assert_eq!(stacks.take_fresh(), [stack(&[], &[])]);
    }

    #[test]
    fn a_full_table_keeps_innermost_functions() {
        let (mut names, mut stacks) = (NameTable::new(), StackTable::new());
        let [read, enter, main] = ["vfs_read", "entry", "main"].map(|name| names.id(name));
        stacks.room = 4;
        assert_eq!(stacks.id(&[read, enter], &[main], &names), (0, false));
        assert_eq!(stacks.id(&[read, enter], &[], &names), (1, true));
        assert_eq!(stacks.id(&[read, main], &[main], &names), (1, true));
        assert_eq!(stacks.id(&[], &[main, enter], &names), (2, true));
        assert_eq!(stacks.id(&[], &[], &names), (3, true));
        assert_eq!(stacks.id(&[read, enter], &[main], &names), (0, false));
        let fresh = stacks.take_fresh();
        assert_eq!(fresh[1..], [stack(&["vfs_read"], &[]), stack(&[], &["main"]), stack(&[], &[])]);
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let mut names = NameTable::new();
        let last = (1..NAMES).map(|number| names.id(&number.to_string())).last().unwrap();
        assert_eq!(names.name(last), (NAMES - 1).to_string());
        let more = names.id("one more");
        assert_eq!(names.name(more), "[more]");
        assert_eq!(names.id("7"), 7);
    }
}
