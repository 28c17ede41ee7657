//! Parses `--sampling`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use fathom_model::watch::Level;

/// Parses `off`, `default` and `full`.
pub fn parser() -> impl TypedValueParser<Value = Level> {
    PossibleValuesParser::new(Level::NAMES.map(|(name, _)| name)).map(|given| {
        let named = Level::NAMES.iter().find(|(name, _)| *name == given);
        named.map_or_else(Level::default, |(_, level)| *level)
    })
}
