//! Patterns for process names.

/// A pattern for the name or arguments of a process: alternatives separated by `|`, one of which
/// must occur in the text; `*` matches any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<Vec<String>>);

impl Pattern {
    pub fn parse(text: &str) -> Result<Self, String> {
        let part = |part: &str| {
            let pieces: Vec<String> =
                part.split('*').filter(|piece| !piece.is_empty()).map(Into::into).collect();
            if pieces.is_empty() {
                return Err(format!(
                    "`{text}` would match every process; give part of a program's name"
                ));
            }
            Ok(pieces)
        };
        text.split('|').map(part).collect::<Result<_, _>>().map(Self)
    }

    pub fn matches(&self, text: &[u8]) -> bool {
        self.0.iter().any(|pieces| {
            let mut rest = Some(text);
            for piece in pieces {
                rest = rest.and_then(|rest| after(rest, piece.as_bytes()));
            }
            rest.is_some()
        })
    }
}

/// The text after the first occurrence of `piece`. /proc separates arguments by NUL, users by a
/// space.
fn after<'t>(text: &'t [u8], piece: &[u8]) -> Option<&'t [u8]> {
    let same = |(byte, want): (&u8, &u8)| byte == want || (*byte == 0 && *want == b' ');
    let found = |window: &[u8]| window.iter().zip(piece).all(same);
    let at = text.windows(piece.len()).position(found)?;
    text.get(at + piece.len()..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(text.as_bytes())
    }

    #[test]
    fn parts_and_wildcards() {
        assert!(matches("fio", "/usr/bin/fio job.fio"));
        assert!(!matches("fio", "postgres"));
        assert!(matches("post|kwork", "kworker/0:1"));
        assert!(matches("post*writer", "postgres: background writer"));
        assert!(!matches("writer*post", "postgres: background writer"));
        assert!(matches("*fio*", "fio"));
        assert!(!matches("aa*a", "aa"));
        assert!(!matches("fio", ""));
        assert!(matches("fio --name", "/usr/bin/fio\0--name=x\0"));
    }

    #[test]
    fn patterns_that_match_everything_are_rejected() {
        for text in ["", "*", "a|", "|", "**"] {
            let error = Pattern::parse(text).unwrap_err();
            assert!(error.contains("every process"), "{error}");
        }
    }
}
