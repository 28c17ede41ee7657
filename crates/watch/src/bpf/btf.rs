//! The running kernel's types, from /sys/kernel/btf/vmlinux (Documentation/bpf/btf.rst).

use std::io;
use std::path::Path;

const MAGIC: u16 = 0xeb9f;
/// Maximum nesting of types; valid tables stay far below.
const DEPTH_MAX: u32 = 32;
/// Structures searched for a field, with anonymous ones in it; valid tables need far fewer.
const STRUCTURES_MAX: u32 = 1000;

#[derive(Debug)]
pub(crate) struct Btf {
    bytes: Vec<u8>,
    /// Offset of each type, by ID; ID 0 is `void` and has none.
    types: Vec<u32>,
    names: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BtfField {
    pub offset: u32,
    pub size: u32,
}

mod kind {
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const TYPEDEF: u32 = 8;
    pub const RESTRICT: u32 = 11;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

#[derive(Clone, Copy)]
struct Type {
    name: u32,
    info: u32,
    size_or_type: u32,
    rest: usize,
}

impl Type {
    fn kind(self) -> u32 {
        self.info >> 24 & 0x1f
    }

    fn members(self) -> usize {
        (self.info & 0xffff) as usize
    }

    fn rest_len(self) -> usize {
        match self.kind() {
            kind::INT | kind::VAR | kind::DECL_TAG => 4,
            kind::ARRAY => 12,
            kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * self.members(),
            kind::ENUM | kind::FUNC_PROTO => 8 * self.members(),
            _ => 0,
        }
    }
}

impl Btf {
    pub fn read(path: &Path) -> io::Result<Self> {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "not valid type information (BTF)");
        Self::parse(std::fs::read(path)?).ok_or_else(bad)
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        if bytes.get(..2)? != MAGIC.to_ne_bytes() {
            return None;
        }
        let head = |at: usize| Some(word(&bytes, at)? as usize);
        let body = head(4)?;
        let mut at = body.checked_add(head(8)?)?;
        let end = at.checked_add(head(12)?)?;
        let names = body.checked_add(head(16)?)?;
        let mut btf = Self { bytes, types: vec![0], names };
        while at < end {
            btf.types.push(u32::try_from(at).ok()?);
            let found = btf.type_at(at)?;
            at = found.rest.checked_add(found.rest_len())?;
        }
        (at == end && end <= btf.bytes.len()).then_some(btf)
    }

    fn type_at(&self, at: usize) -> Option<Type> {
        let word = |index: usize| word(&self.bytes, at + 4 * index);
        Some(Type { name: word(0)?, info: word(1)?, size_or_type: word(2)?, rest: at + 12 })
    }

    fn get(&self, number: u32) -> Option<Type> {
        if number == 0 {
            return None;
        }
        self.type_at(*self.types.get(number as usize)? as usize)
    }

    fn is_named(&self, name: u32, wanted: &str) -> bool {
        let from = self.names.saturating_add(name as usize);
        let text = self.bytes.get(from..).unwrap_or_default();
        text.starts_with(wanted.as_bytes()) && text.get(wanted.len()) == Some(&0)
    }

    fn find(&self, kind: u32, name: &str) -> Option<u32> {
        let is_it = |number: &u32| {
            self.get(*number).is_some_and(|t| t.kind() == kind && self.is_named(t.name, name))
        };
        (1..u32::try_from(self.types.len()).ok()?).find(is_it)
    }

    pub fn function(&self, name: &str) -> Option<u32> {
        self.find(kind::FUNC, name)
    }

    pub fn structure(&self, name: &str) -> Option<u32> {
        self.find(kind::STRUCT, name)
    }

    /// The field at `path` in the structure with this ID; `.` separates nested fields.
    pub fn field(&self, structure: u32, path: &str) -> Option<BtfField> {
        let (mut number, mut offset) = (structure, 0);
        for name in path.split('.') {
            let mut left = STRUCTURES_MAX;
            let (inner, at) = self.member(number, name, &mut left)?;
            offset = at.checked_add(offset)?;
            number = inner;
        }
        Some(BtfField { offset, size: self.size(number, DEPTH_MAX)? })
    }

    /// Type and offset of the field `name`, which may be in an anonymous structure; `left`: structures that may
    /// still be searched.
    fn member(&self, number: u32, name: &str, left: &mut u32) -> Option<(u32, u32)> {
        *left = left.checked_sub(1)?;
        let number = self.plain(number, DEPTH_MAX)?;
        let outer = self.get(number)?;
        if !matches!(outer.kind(), kind::STRUCT | kind::UNION) {
            return None;
        }
        for index in 0..outer.members() {
            let word = |part: usize| word(&self.bytes, outer.rest + 12 * index + 4 * part);
            let (own_name, inner, bits) = (word(0)?, word(1)?, word(2)?);
            // With `kind_flag` set, the upper byte is the size of a bit field.
            let is_bits = outer.info >> 31 == 1 && bits >> 24 > 0;
            let offset = (bits & 0xff_ffff) / 8;
            if self.is_named(own_name, name) {
                return (!is_bits).then_some((inner, offset));
            }
            if self.is_named(own_name, "")
                && let Some((inner, within)) = self.member(inner, name, left)
            {
                return Some((inner, offset.checked_add(within)?));
            }
        }
        None
    }

    /// The type without typedefs and qualifiers.
    fn plain(&self, mut number: u32, depth: u32) -> Option<u32> {
        for _ in 0..depth {
            let found = self.get(number)?;
            match found.kind() {
                kind::TYPEDEF..=kind::RESTRICT | kind::TYPE_TAG => number = found.size_or_type,
                _ => return Some(number),
            }
        }
        None
    }

    fn size(&self, number: u32, depth: u32) -> Option<u32> {
        let found = self.get(self.plain(number, depth)?)?;
        match found.kind() {
            kind::PTR => Some(size_of::<u64>() as u32),
            kind::ARRAY if depth > 0 => {
                let of = self.size(word(&self.bytes, found.rest)?, depth - 1)?;
                of.checked_mul(word(&self.bytes, found.rest + 8)?)
            }
            kind::INT | kind::STRUCT | kind::UNION | kind::ENUM | kind::ENUM64 => {
                Some(found.size_or_type)
            }
            _ => None,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `struct task { int a:3; struct { long b; }; const int c[4]; struct task *next; }` and `f`.
    fn made_up() -> Vec<u8> {
        let names = b"\0task\0a\0b\0c\0next\0int\0long\0f\0";
        let at = |name: &[u8]| {
            let name = [b"\0", name, b"\0"].concat();
            names.windows(name.len()).position(|w| w == name).unwrap() as u32 + 1
        };
        let types: Vec<u32> = [
            [at(b"int"), kind::INT << 24, 4, 32].as_slice(), // 1
            &[at(b"long"), kind::INT << 24, 8, 64],          // 2
            &[0, kind::STRUCT << 24 | 1, 8, at(b"b"), 2, 0], // 3
            &[0, 10 << 24, 1],                               // 4: const int
            &[0, kind::ARRAY << 24, 0, 4, 1, 4],             // 5
            &[0, kind::PTR << 24, 7],                        // 6
            &[at(b"task"), 1 << 31 | kind::STRUCT << 24 | 4, 40], // 7
            &[at(b"a"), 1, 3 << 24],
            &[0, 3, 64],
            &[at(b"c"), 5, 128],
            &[at(b"next"), 6, 256],
            &[at(b"f"), kind::FUNC << 24, 1], // 8
        ]
        .concat();
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        let type_len = 4 * types.len() as u32;
        for word in [24, 0, type_len, type_len, names.len() as u32].into_iter().chain(types) {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(names);
        bytes
    }

    #[test]
    fn fields_of_a_synthetic_table() {
        let btf = Btf::parse(made_up()).unwrap();
        let field = |path| btf.field(7, path).map(|f| (f.offset, f.size));
        assert_eq!((btf.structure("task"), btf.structure("tas")), (Some(7), None));
        assert_eq!(field("a"), None, "a bit field has no address");
        assert_eq!(field("b"), Some((8, 8)));
        assert_eq!(field("c"), Some((16, 16)));
        assert_eq!(field("next"), Some((32, 8)));
        assert_eq!(field("next.c"), None, "pointers are not followed");
        assert_eq!(field("d"), None);
        assert_eq!((btf.function("f"), btf.function("task")), (Some(8), None));
    }

    #[test]
    fn a_truncated_table_is_rejected() {
        let whole = made_up();
        let types = whole.len() - b"\0task\0a\0b\0c\0next\0int\0long\0f\0".len();
        for len in 0..types {
            assert!(Btf::parse(whole[..len].to_vec()).is_none(), "{len}");
        }
    }

    proptest! {
        #[test]
        fn a_damaged_table_does_no_harm(at in 2_usize..200, byte: u8) {
            let mut bytes = made_up();
            let at = at.min(bytes.len() - 1);
            bytes[at] = byte;
            if let Some(btf) = Btf::parse(bytes) {
                for path in ["a", "b", "c", "next"] {
                    let _ = btf.structure("task").map(|number| btf.field(number, path));
                }
            }
        }
    }

    #[test]
    fn the_running_kernel() {
        let path = Path::new("/sys/kernel/btf/vmlinux");
        if !path.exists() {
            return;
        }
        let btf = Btf::read(path).unwrap();
        let task = btf.structure("task_struct").unwrap();
        let size = |path| btf.field(task, path).map(|field| field.size);
        assert_eq!(size("pid"), Some(4));
        assert_eq!(size("comm"), Some(16));
        assert_eq!(size("se.sum_exec_runtime"), Some(8));
        assert_eq!(size("real_parent"), Some(8));
        assert!(btf.function("vfs_read").is_some());
    }
}
