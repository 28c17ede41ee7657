//! Interned texts: comparing and counting need no copies.

use std::collections::HashMap;
use std::sync::Arc;

/// ID of a text in [`TextTable`].
pub(super) type TextId = u32;

/// The empty text.
pub(super) const NONE: TextId = 0;

/// Number of texts at which the table is cleared.
const NAMES_MAX: usize = 65_536;

/// All interned texts.
#[derive(Debug)]
pub(super) struct TextTable {
    numbers: HashMap<Arc<[u8]>, TextId>,
    texts: Vec<Arc<[u8]>>,
}

impl Default for TextTable {
    fn default() -> Self {
        let empty: Arc<[u8]> = Arc::from([]);
        Self { numbers: HashMap::from([(Arc::clone(&empty), NONE)]), texts: vec![empty] }
    }
}

impl TextTable {
    /// The ID of `text`; known texts need no memory.
    pub fn intern(&mut self, text: &[u8]) -> TextId {
        if let Some(name) = self.numbers.get(text) {
            return *name;
        }
        let text: Arc<[u8]> = text.into();
        let name = self.texts.len() as TextId;
        self.numbers.insert(Arc::clone(&text), name);
        self.texts.push(text);
        name
    }

    /// Like [`Self::intern`], faster if `text` equals the text `likely`.
    pub fn intern_like(&mut self, text: &[u8], likely: TextId) -> TextId {
        if self.bytes(likely) == text { likely } else { self.intern(text) }
    }

    pub fn bytes(&self, name: TextId) -> &[u8] {
        &self.texts[name as usize]
    }

    pub fn text(&self, name: TextId) -> String {
        fathom_model::escape::bytes(self.bytes(name))
    }

    /// Whether the table should be cleared to bound its memory.
    pub fn is_full(&self) -> bool {
        self.texts.len() > NAMES_MAX
    }
}
