//! What rank 0 reads for all: the command line and the job files.

use crate::sources::System;
use fathom_spec::{MachineNumbers, Sources};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What rank 0 read for all.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Given {
    args: Vec<String>,
    files: BTreeMap<String, Vec<u8>>,
    /// What it made of them, for commands whose ranks do not parse them.
    text: String,
    /// Whether rank 0 could not parse it, and says so.
    pub is_refused: bool,
}

impl Given {
    /// A command line that cannot be parsed, or that runs nothing.
    pub fn refused() -> Self {
        Self { is_refused: true, ..Self::default() }
    }

    /// The command line, and what else rank 0 read, with the names of a rank in them.
    pub fn received(self, rank: u32, size: u32, host: &str) -> (Vec<String>, Reading) {
        let names = Names { rank, size, host: host.to_string() };
        let args = self.args.iter().map(|arg| names.put_in(arg)).collect();
        let is_changed = |text: &str| names.put_in(text) != text;
        let mut texts = self.files.values().filter_map(|file| std::str::from_utf8(file).ok());
        let uses_names = texts.any(is_changed) || self.args.iter().any(|arg| is_changed(arg));
        let text = names.put_in(&self.text);
        let (files, names) = (RefCell::new(self.files), Some(names));
        (args, Reading { files, names, text, uses_names, ..Reading::default() })
    }
}

/// The files that rank 0 reads, kept for the others; what these read is the same, with their names in it.
#[derive(Default)]
pub struct Reading {
    system: System,
    files: RefCell<BTreeMap<String, Vec<u8>>>,
    /// Of a rank that got the files of rank 0.
    names: Option<Names>,
    /// What rank 0 made of them.
    pub text: String,
    /// Whether the names of ranks occur in the command line or in the files.
    pub uses_names: bool,
}

impl Reading {
    /// What was read for the command line `args`, and the `text` that was made of it.
    pub fn given(&self, args: &[String], text: String) -> Given {
        let files = self.files.borrow().clone();
        Given { args: args.to_vec(), files, text, is_refused: false }
    }

    /// Paths of the job files that were read, by rank 0 or here.
    pub fn into_files(self) -> Vec<String> {
        self.files.into_inner().into_keys().chain(self.system.into_files()).collect()
    }
}

impl Sources for Reading {
    fn read(&self, path: &str, limit_bytes: usize) -> Result<Vec<u8>, String> {
        let Some(names) = &self.names else {
            let bytes = self.system.read(path, limit_bytes)?;
            self.files.borrow_mut().insert(path.to_string(), bytes.clone());
            return Ok(bytes);
        };
        let files = self.files.borrow();
        let Some(bytes) = files.get(path) else { return self.system.read(path, limit_bytes) };
        // What is not text is refused by its reader.
        let text = std::str::from_utf8(bytes).map(|text| names.put_in(text).into_bytes());
        Ok(text.unwrap_or_else(|_| bytes.clone()))
    }

    fn is_regular(&self, path: &str) -> bool {
        let is_given = self.names.is_some() && self.files.borrow().contains_key(path);
        is_given || self.system.is_regular(path)
    }

    fn env(&self, name: &str) -> Option<String> {
        self.system.env(name)
    }

    fn machine(&self) -> MachineNumbers {
        self.system.machine()
    }

    fn random(&self) -> u64 {
        self.system.random()
    }
}

/// What `$rank`, `$ranks` and `$hostname` stand for.
struct Names {
    rank: u32,
    size: u32,
    host: String,
}

impl Names {
    fn put_in(&self, text: &str) -> String {
        let names = [
            ("ranks", self.size.to_string()),
            ("rank", self.rank.to_string()),
            ("hostname", self.host.clone()),
        ];
        let mut parts = text.split('$');
        let mut new = parts.next().unwrap_or_default().to_string();
        for part in parts {
            let found = names.iter().find_map(|(name, value)| {
                let rest = part.strip_prefix(name)?;
                let is_word = |c: char| c.is_alphanumeric() || c == '_';
                (!rest.starts_with(is_word)).then(|| format!("{value}{rest}"))
            });
            match found {
                Some(text) => new.push_str(&text),
                None => new.extend(["$", part]),
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ranks_are_whole_words() {
        let names = Names { rank: 3, size: 40, host: "node3".into() };
        let put = |text: &str| names.put_in(text);
        assert_eq!(put("/mnt/$hostname/f.$rank-$ranks"), "/mnt/node3/f.3-40");
        assert_eq!(put("$ranking $jobname $ $$rank"), "$ranking $jobname $ $3");
    }
}
