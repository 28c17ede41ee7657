//! User data of a request, returned with its completion.

use fathom_model::Dir;

/// The slot of a request and its [`Tag`], as the kernel's user data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token(pub u64);

impl Token {
    /// The poll request that ends a wait from another thread; belongs to no slot.
    pub const WAKE: Self = Self(u64::MAX);

    #[inline]
    pub fn new(slot: u32, tag: Tag) -> Self {
        Self(u64::from(slot) | u64::from(tag.0) << 32)
    }

    #[inline]
    pub fn slot(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    pub fn tag(self) -> Tag {
        Tag((self.0 >> 32) as u32)
    }
}

/// Batch and direction of an I/O: I/Os with the same tag are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag(u32);

impl Tag {
    const DIR_SHIFT: u32 = 30;
    /// Flushes, retries and [`Token::WAKE`] (this tag and above): handled one by one.
    pub const SLOW_PATH: Self = Self(3 << Self::DIR_SHIFT);

    /// The tag of no request.
    pub const NONE: Self = Self(Self::SLOW_PATH.0 + 1);

    #[inline]
    pub fn new(batch: u32, dir: Dir) -> Self {
        Self(batch | (dir as u32) << Self::DIR_SHIFT)
    }

    #[inline]
    pub fn is_slow_path(self) -> bool {
        self.0 >= Self::SLOW_PATH.0
    }

    #[inline]
    pub fn batch(self) -> u32 {
        self.0 & ((1 << Self::DIR_SHIFT) - 1)
    }

    #[inline]
    pub fn dir(self) -> Dir {
        Dir::ALL[((self.0 >> Self::DIR_SHIFT) as usize).min(2)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_holds_slot_batch_and_direction() {
        for dir in Dir::ALL {
            let tag = Tag::new(32_768, dir);
            let token = Token::new(u32::MAX - 1, tag);
            assert_eq!((token.slot(), token.tag()), (u32::MAX - 1, tag));
            assert_eq!((tag.batch(), tag.dir(), tag.is_slow_path()), (32_768, dir, false));
        }
        assert!(Tag::SLOW_PATH.is_slow_path() && Token::WAKE.tag().is_slow_path());
    }
}
