//! Text as a shell takes it.

use std::borrow::Cow;

/// `text` so that a shell passes it on as one word, as it is: in single quotes where that needs them.
#[must_use]
pub fn quoted(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-@:+,%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_come_through_a_shell_as_they_are() {
        assert_eq!(quoted("/dev/sda@S1-2"), "/dev/sda@S1-2");
        assert_eq!(quoted("/dev/sda@A B"), "'/dev/sda@A B'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("--bs=4k"), "--bs=4k");
    }
}
