//! Results to standard output or to a file.

use crate::folder;
use fathom_model::RunRecord;
use fathom_report::summary::Style;
use fathom_report::{fio_json, summary, terse};
use fathom_spec::{Format, Output};
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// Renders `record` in every form asked for and writes it where asked.
///
/// # Errors
/// When it cannot be written; names the place.
pub fn write(record: &RunRecord, output: &Output) -> Result<(), String> {
    let to_file = output.file.is_some();
    let color = !to_file && io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let style = Style { color, ..Style::default() };
    let formats: &[Format] =
        if output.formats.is_empty() { &[Format::Normal] } else { &output.formats };
    let version =
        terse::Version::from_number(output.terse_version.unwrap_or(3)).unwrap_or_default();
    let text: String = formats
        .iter()
        .map(|format| match format {
            Format::Normal => summary::render(record, style),
            Format::Json => fio_json::render(record, false),
            Format::JsonPlus => fio_json::render(record, true),
            Format::Terse => terse::render(record, version),
        })
        .collect();
    emit(&text, output.file.as_deref())
}

/// Writes `text` to the file `path`, or to standard output.
///
/// # Errors
/// When it cannot be written; names the place.
pub fn emit(text: &str, path: Option<&str>) -> Result<(), String> {
    match path {
        Some(path) => folder::replace(Path::new(path), text.as_bytes()),
        None => {
            let mut stdout = io::stdout().lock();
            let result = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
            result.map_err(|error| format!("cannot write to standard output: {error}"))
        }
    }
}
