//! Texts by number, so that what was seen can be compared and counted without a copy.

use std::collections::HashMap;
use std::sync::Arc;

/// A text of [`Names`].
pub(super) type Name = u32;

/// The empty text.
pub(super) const NONE: Name = 0;

/// Texts are forgotten once there are so many.
const NAMES_MAX: usize = 65_536;

/// All texts seen.
#[derive(Debug)]
pub(super) struct Names {
    numbers: HashMap<Arc<[u8]>, Name>,
    texts: Vec<Arc<[u8]>>,
}

impl Default for Names {
    fn default() -> Self {
        let empty: Arc<[u8]> = Arc::from([]);
        Self { numbers: HashMap::from([(Arc::clone(&empty), NONE)]), texts: vec![empty] }
    }
}

impl Names {
    /// The number of `text`; a text seen before costs no memory.
    pub fn name(&mut self, text: &[u8]) -> Name {
        if let Some(name) = self.numbers.get(text) {
            return *name;
        }
        let text: Arc<[u8]> = text.into();
        let name = self.texts.len() as Name;
        self.numbers.insert(Arc::clone(&text), name);
        self.texts.push(text);
        name
    }

    /// As [`Self::name`], faster where `text` is that of `likely`.
    pub fn name_like(&mut self, text: &[u8], likely: Name) -> Name {
        if self.bytes(likely) == text { likely } else { self.name(text) }
    }

    pub fn bytes(&self, name: Name) -> &[u8] {
        &self.texts[name as usize]
    }

    pub fn text(&self, name: Name) -> String {
        fathom_model::escape::bytes(self.bytes(name))
    }

    /// So many that all should be forgotten, to keep within bounds.
    pub fn is_full(&self) -> bool {
        self.texts.len() > NAMES_MAX
    }
}
