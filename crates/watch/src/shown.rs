//! Names that programs give themselves.

/// Such a name as it may be shown: what a terminal would take for commands, or a reader of lines for
/// their end, becomes `?`.
pub fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_command_no_terminal() {
        assert_eq!(shown(b"\x1b[31m\x01<&\"\n\x7f\xc2\x9bx"), "?[31m?<&\"???x");
        assert_eq!(shown("kworker/0:1-é".as_bytes()), "kworker/0:1-é");
        assert_eq!(shown(b"\xff"), "\u{fffd}");
    }
}
