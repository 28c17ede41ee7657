//! Shell quoting.

use crate::escape;
use std::borrow::Cow;
use std::fmt::Write;

/// Quotes `text` as a single shell word: in single quotes if necessary, and as `$'…'` if it
/// contains characters that must not reach a terminal.
pub fn quoted(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-@:+,%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    if text.contains(escape::is_unsafe) {
        return Cow::Owned(escaped(text));
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

/// Octal, since shells differ in the number of hexadecimal digits they accept.
fn escaped(text: &str) -> String {
    let mut out = String::from("$'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => out.extend(['\\', c]),
            c if escape::is_unsafe(c) => {
                // Writing to a string cannot fail.
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    let _ = write!(out, "\\{byte:03o}");
                }
            }
            c => out.push(c),
        }
    }
    out + "'"
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted("/dev/sda@S1-2"), "/dev/sda@S1-2");
        assert_eq!(quoted("/dev/sda@A B"), "'/dev/sda@A B'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("--bs=4k"), "--bs=4k");
        assert_eq!(quoted("a\x1b[1m'\\\n"), r"$'a\033[1m\'\\\012'");
        assert_eq!(quoted("\u{202e}"), r"$'\342\200\256'");
    }

    #[test]
    fn a_shell_agrees() {
        for word in ["it's; rm *", "a\x1b[1m'\\1\n", "\u{9b}5é$HOME `x`"] {
            let script = format!("printf %s {}", quoted(word));
            let Ok(out) = std::process::Command::new("bash").args(["-c", &script]).output() else {
                return;
            };
            assert_eq!(String::from_utf8_lossy(&out.stdout), word);
        }
    }
}
