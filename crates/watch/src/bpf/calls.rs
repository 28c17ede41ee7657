//! The bpf(2) commands used here.

use super::code::Code;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_long = 0;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const ITER_CREATE: libc::c_long = 33;
const MAP_TYPE_ARRAY: u32 = 2;
const PROG_TYPE_TRACING: u32 = 26;
const TRACE_ITER: u32 = 28;
/// Some helpers are reserved for GPL-compatible programs. fathom's own code is MIT-licensed.
const LICENSE: &[u8] = b"Dual MIT/GPL\0";

#[derive(Debug)]
pub(crate) struct Array(OwnedFd);

#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

/// An iterator link: its program runs for every object when [`Iterator::begin`]'s file is read.
#[derive(Debug)]
pub(crate) struct Iterator {
    link: OwnedFd,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
    /// BTF of the program itself: none.
    own_types: [u32; 9],
    attach_type_id: u32,
    attach_program: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct IterCreate {
    link: u32,
    flags: u32,
}

impl Array {
    pub fn new(value_size: u32) -> Result<Self, Errno> {
        let attr = MapCreate { map_type: MAP_TYPE_ARRAY, key_size: 4, value_size, max_entries: 1 };
        bpf(MAP_CREATE, &attr).map(Self)
    }

    pub fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

impl Program {
    /// Loads and verifies `code` as a program for the iterator whose function has this BTF ID.
    /// `name` appears in `bpftool prog`.
    pub fn load(code: &Code, name: &str, iterator: u32) -> Result<Self, Errno> {
        let code = code.instructions();
        let mut attr = ProgLoad {
            prog_type: PROG_TYPE_TRACING,
            count: code.len() as u32,
            instructions: code.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            attach_type: TRACE_ITER,
            attach_type_id: iterator,
            ..ProgLoad::default()
        };
        // The last byte stays 0.
        attr.name.iter_mut().zip(name.bytes().take(15)).for_each(|(to, from)| *to = from);
        bpf(PROG_LOAD, &attr).map(Self)
    }
}

impl Iterator {
    pub fn new(program: &Program) -> Result<Self, Errno> {
        let program = program.0.as_raw_fd() as u32;
        let attr = LinkCreate { program, attach_type: TRACE_ITER, ..LinkCreate::default() };
        bpf(LINK_CREATE, &attr).map(|link| Self { link })
    }

    /// A file whose contents are written by the program, once for each object.
    pub fn begin(&self) -> Result<OwnedFd, Errno> {
        bpf(ITER_CREATE, &IterCreate { link: self.link.as_raw_fd() as u32, flags: 0 })
    }
}

/// A command that returns a descriptor. `A` is the part of `union bpf_attr` used by `command`.
fn bpf<A>(command: libc::c_long, attr: &A) -> Result<OwnedFd, Errno> {
    // SAFETY: `attr` is initialized, has the stated size and the kernel's layout; whatever it
    // points to outlives the call, which only reads it.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attr, size_of::<A>()) };
    if fd < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
    }
    // SAFETY: the call above returned this descriptor, with close-on-exec set, and nothing else
    // owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
