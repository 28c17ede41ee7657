//! Escapes external text (names, paths, command lines) for a terminal.
//!
//! Characters that a terminal would interpret, or that reorder or end a line, become `\x1b` or
//! `\u{202e}`. Backslashes are kept, as names of systemd units contain many.

use std::borrow::Cow;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whether a character must not reach a terminal: control characters (C0, DEL, C1), line and
/// paragraph separators, bidirectional controls and invisible characters.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes a name or sentence for a single line, including line breaks.
pub fn text(text: &str) -> Cow<'_, str> {
    replace(text, is_unsafe)
}

/// Escapes several lines, except line breaks.
pub fn lines(text: &str) -> Cow<'_, str> {
    replace(text, |c| c != '\n' && is_unsafe(c))
}

/// Escapes several lines, except line breaks and color sequences.
pub fn colored_lines(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut out = lines(parts.next().unwrap_or_default()).into_owned();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(part.len());
        let is_color = part[digits..].starts_with('m');
        out.push_str(if is_color { "\x1b[" } else { "\\x1b[" });
        out.push_str(&lines(part));
    }
    out
}

/// Escapes a JSON document, whose strings may contain such characters beyond ASCII.
pub fn json(text: &str) -> Cow<'_, str> {
    let is_raw = |c: char| !c.is_ascii_whitespace() && is_unsafe(c);
    if !text.contains(is_raw) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_raw(c) {
            let mut units = [0; 2];
            // Writing to a string cannot fail.
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Escapes a name that may not be UTF-8; invalid bytes become `\xff`.
pub fn bytes(name: &[u8]) -> String {
    text(&invalid(name)).into_owned()
}

/// Escapes only the bytes that are not UTF-8, as `\xff`.
pub fn invalid(name: &[u8]) -> String {
    let mut out = String::new();
    for chunk in name.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// Escapes a path or other text from the system.
pub fn path(path: impl AsRef<Path>) -> String {
    bytes(path.as_ref().as_os_str().as_bytes())
}

fn replace(text: &str, is_unsafe: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        let code = u32::from(c);
        let _ = match (is_unsafe(c), code) {
            (false, _) => out.write_char(c),
            (true, ..=0xff) => write!(out, "\\x{code:02x}"),
            (true, _) => write!(out, "\\u{{{code:x}}}"),
        };
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_are_escaped() {
        assert_eq!(text("a\x1b[31m\n\t\x7f\u{9b}z"), r"a\x1b[31m\x0a\x09\x7f\x9bz");
        assert_eq!(text("\u{202e}x\u{2066}\u{2028}"), r"\u{202e}x\u{2066}\u{2028}");
        assert!(matches!(text(r"dev-disk\x2duuid é 漢 ▁█"), Cow::Borrowed(_)));
        assert_eq!(bytes(b"caf\xc3\xa9\xff\x1b"), r"café\xff\x1b");
        assert_eq!(path("a\nb"), r"a\x0ab");
    }

    #[test]
    fn line_breaks_and_colors_are_kept_where_wanted() {
        assert_eq!(lines("a\nb\r\x1b[0m"), "a\nb\\x0d\\x1b[0m");
        assert_eq!(colored_lines("\x1b[1;31mred\x1b[0m\n"), "\x1b[1;31mred\x1b[0m\n");
        assert_eq!(colored_lines("\x1b[2J\x1b]0;t\x07\x1b["), r"\x1b[2J\x1b]0;t\x07\x1b[");
    }

    #[test]
    fn json_remains_the_same_document() {
        let value = serde_json::json!({ "a": "x\u{9b}\u{202e}\u{7f}\u{e0001}\n" });
        let text = format!("{value:#}\n");
        let safe = json(&text);
        assert!(!safe.chars().any(|c| c != '\n' && is_unsafe(c)), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
        assert!(matches!(json("{\n}\n"), Cow::Borrowed(_)));
    }
}
