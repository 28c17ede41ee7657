//! Small programs in the kernel (BPF), put together here instruction by instruction for the kernel
//! at hand: where a field stands in its structures is looked up in what it tells of its types (BTF).

mod btf;
mod calls;
mod code;

pub(crate) use btf::{Btf, Field};
pub(crate) use calls::{Array, Iterator, Program};
pub(crate) use code::{Code, Reg};
