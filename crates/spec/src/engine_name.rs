//! Names of I/O engines.

use fathom_model::plan::NameOp;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EngineName {
    #[default]
    IoUring,
    IoUringCmd,
    Libaio,
    Psync,
    Sync,
    Pvsync,
    Pvsync2,
    Vsync,
    Mmap,
    Splice,
    Posixaio,
    Sg,
    Falloc,
    Ftruncate,
    Names(NameOp),
    Nop,
    Null,
}

impl EngineName {
    pub const fn name(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::IoUringCmd => "io_uring_cmd",
            Self::Libaio => "libaio",
            Self::Psync => "psync",
            Self::Sync => "sync",
            Self::Pvsync => "pvsync",
            Self::Pvsync2 => "pvsync2",
            Self::Vsync => "vsync",
            Self::Mmap => "mmap",
            Self::Splice => "splice",
            Self::Posixaio => "posixaio",
            Self::Sg => "sg",
            Self::Falloc => "falloc",
            Self::Ftruncate => "ftruncate",
            Self::Names(op) => op.name(),
            Self::Nop => "nop",
            Self::Null => "null",
        }
    }

    pub const fn moves_data(self) -> bool {
        !matches!(self, Self::Names(_))
    }

    /// Whether the engine sends commands to the device, past the block layer and the page cache.
    pub const fn is_passthrough(self) -> bool {
        matches!(self, Self::IoUringCmd | Self::Sg)
    }

    pub const fn is_ring(self) -> bool {
        matches!(self, Self::IoUring | Self::IoUringCmd | Self::Nop)
    }
}
