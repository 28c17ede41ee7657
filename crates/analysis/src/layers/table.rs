//! The table that maps kernel functions to layers.

use super::Layer;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Lines of a key and a pattern, which a tab divides.
const TEXT: &str = include_str!("table.txt");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableEntry {
    Layer(Layer),
    /// Lock primitive, attributed to its caller's layer.
    Lock,
    Caller,
}

/// What is known of the function `symbol`, with or without its module: `name` or `name [module]`.
pub(super) fn class(symbol: &str) -> Option<TableEntry> {
    static TABLE: OnceLock<Table> = OnceLock::new();
    let table = TABLE.get_or_init(|| Table::parse(TEXT));
    let (name, module) = symbol.split_once(' ').unwrap_or((symbol, ""));
    // The module is sure; that names begin alike may be chance.
    table.find(module).or_else(|| table.find(plain(name)))
}

/// A function's name without what compilers and the kernel's naming put around it:
/// `__blk_mq_free_request.part.0` is `blk_mq_free_request`, `__pi_memcpy` is `memcpy`.
fn plain(name: &str) -> &str {
    let name = name.split('.').next().unwrap_or(name).trim_start_matches('_');
    name.strip_prefix("pi_").map_or(name, |rest| rest.trim_start_matches('_'))
}

/// The patterns, taken apart for looking them up.
struct Table {
    whole: HashMap<&'static str, TableEntry>,
    beginnings: HashMap<&'static str, TableEntry>,
}

impl Table {
    /// Lines that do not fit are left out; tests see to it that there are none.
    fn parse(text: &'static str) -> Self {
        let mut table = Self { whole: HashMap::new(), beginnings: HashMap::new() };
        for (key, pattern) in rows(text) {
            let Some(class) = class_of(key) else { continue };
            match beginning(pattern) {
                Some(start) => table.beginnings.insert(start, class),
                None => table.whole.insert(pattern, class),
            };
        }
        table
    }

    /// The class of the longest pattern that fits.
    fn find(&self, text: &str) -> Option<TableEntry> {
        self.whole.get(text).copied().or_else(|| {
            let starts = (1..=text.len()).rev().filter_map(|end| text.get(..end));
            starts.filter_map(|start| self.beginnings.get(start)).copied().next()
        })
    }
}

fn rows(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('\t'))
}

pub(super) fn class_of(key: &str) -> Option<TableEntry> {
    match key {
        "lock" => Some(TableEntry::Lock),
        "caller" => Some(TableEntry::Caller),
        _ => {
            let known = Layer::KEYS.iter().find(|(word, _)| *word == key && !key.is_empty());
            known.map(|(_, layer)| TableEntry::Layer(*layer))
        }
    }
}

/// What names that fit begin with, where the pattern is of that kind: `blk_mq_*`, `[nvme*]`.
fn beginning(pattern: &str) -> Option<&str> {
    pattern.strip_suffix('*').or_else(|| pattern.strip_suffix("*]"))
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
