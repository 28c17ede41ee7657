//! Small BPF programs, assembled at run time for the running kernel: field offsets come from its
//! type information (BTF).

mod btf;
mod calls;
mod code;

pub(crate) use btf::{Btf, BtfField};
pub(crate) use calls::{Array, Iterator, Program};
pub(crate) use code::{Code, Reg};
