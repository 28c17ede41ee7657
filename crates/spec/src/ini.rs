//! Job file syntax: sections, lines, comments, `include`.

use crate::error::{Place, SpecError};
use crate::expand::expand;
use crate::sources::{INCLUDE_DEPTH_MAX, Sources, read_text};

/// Maximum number of lines in a job file, including included files.
const LINES_MAX: usize = 1 << 20;

/// A section of a job file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    pub name: String,
    pub place: Place,
    pub lines: Vec<Line>,
}

/// `key=value`, or a key alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub key: String,
    pub value: Option<String>,
    pub place: Option<Place>,
}

impl Line {
    /// Splits `key=value` and trims both.
    pub(crate) fn split(text: &str, place: Option<Place>) -> Self {
        match text.split_once('=') {
            Some((key, value)) => {
                let value = Some(value.trim().to_string());
                Line { key: key.trim().to_string(), value, place }
            }
            None => Line { key: text.trim().to_string(), value: None, place },
        }
    }
}

/// The sections of the job file at `path`, in order.
pub(crate) fn read(path: &str, sources: &dyn Sources) -> Result<Vec<Section>, SpecError> {
    let text = read_text(sources, path)?;
    let mut reader = Reader { sources, open: vec![path.to_string()], lines_left: LINES_MAX };
    let mut sections: Vec<Section> = Vec::new();
    for (line, place) in lines(&text, path) {
        if let Some(rest) = line.strip_prefix('[') {
            sections.push(Section { name: section_name(rest, &place)?, place, lines: Vec::new() });
            continue;
        }
        let Some(section) = sections.last_mut() else {
            let message =
                format!("'{}' is before the first [section]; move it below one", shorten(line));
            return Err(SpecError::new(message).at(Some(&place)));
        };
        reader.line(line, place, &mut section.lines)?;
    }
    if sections.is_empty() {
        return Err(SpecError::new(format!(
            "{path} has no [section]; a job file needs at least one"
        )));
    }
    Ok(sections)
}

/// Non-empty lines, without comments (from `;` or `#`, as in fio).
fn lines<'a>(text: &'a str, path: &'a str) -> impl Iterator<Item = (&'a str, Place)> {
    text.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.split([';', '#']).next().unwrap_or("").trim();
        (!line.is_empty()).then(|| (line, Place { file: path.to_string(), line: index + 1 }))
    })
}

fn section_name(rest: &str, place: &Place) -> Result<String, SpecError> {
    let bad = |message: String| Err(SpecError::new(message).at(Some(place)));
    let Some((name, after)) = rest.rsplit_once(']') else {
        return bad(format!("missing ] in '[{}'; add it", shorten(rest)));
    };
    let name = name.trim();
    if !after.is_empty() {
        return bad(format!("unexpected '{}' after the section name; remove it", shorten(after)));
    }
    if name.is_empty() || name.len() > 255 {
        return bad("invalid length of section name; use 1 to 255 bytes".to_string());
    }
    Ok(name.to_string())
}

struct Reader<'a> {
    sources: &'a dyn Sources,
    /// Stack of files being read, innermost last.
    open: Vec<String>,
    lines_left: usize,
}

impl Reader<'_> {
    fn line(&mut self, text: &str, place: Place, out: &mut Vec<Line>) -> Result<(), SpecError> {
        self.lines_left = self.lines_left.checked_sub(1).ok_or_else(|| {
            SpecError::new("more than a million lines, counting included files; remove some")
                .at(Some(&place))
        })?;
        let text =
            expand(text, self.sources).map_err(|why| SpecError::new(why).at(Some(&place)))?;
        let included = text
            .strip_prefix("include")
            .filter(|rest| rest.starts_with([' ', '\t', '=']))
            .map(|rest| rest[1..].trim());
        match included {
            Some(name) => self.include(name, &place, out),
            None => {
                out.push(Line::split(&text, Some(place)));
                Ok(())
            }
        }
    }

    fn include(&mut self, name: &str, at: &Place, out: &mut Vec<Line>) -> Result<(), SpecError> {
        let fail = |message: String| Err(SpecError::new(message).at(Some(at)));
        if name == "-" {
            return fail("standard input cannot be included; name a file".to_string());
        }
        if self.open.len() >= INCLUDE_DEPTH_MAX {
            return fail(format!(
                "cannot include '{name}': more than {INCLUDE_DEPTH_MAX} levels deep; nest fewer files"
            ));
        }
        let (path, text) = self.find(name, at)?;
        if self.open.contains(&path) {
            return fail(format!("'{path}' includes itself; remove that include"));
        }
        self.open.push(path.clone());
        for (line, place) in lines(&text, &path) {
            if line.starts_with('[') {
                let message = "an included file must not have sections; remove the section name";
                return Err(SpecError::new(message).at(Some(&place)));
            }
            self.line(line, place, out)?;
        }
        self.open.pop();
        Ok(())
    }

    /// As in fio, resolves `name` as given, else relative to the including file.
    fn find(&self, name: &str, at: &Place) -> Result<(String, String), SpecError> {
        let first = match read_text(self.sources, name) {
            Ok(text) => return Ok((name.to_string(), text)),
            Err(error) => error,
        };
        let relative = match at.file.rsplit_once('/') {
            Some((dir, _)) if !name.starts_with('/') => format!("{dir}/{name}"),
            _ => return Err(first.at(Some(at))),
        };
        match read_text(self.sources, &relative) {
            Ok(text) => Ok((relative, text)),
            Err(second) => {
                Err(SpecError::new(format!("{}; {}", first.message, second.message)).at(Some(at)))
            }
        }
    }
}

/// `text`, truncated for use in a message.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::tests::Memory;
    use proptest::prelude::*;

    fn error(files: &[(&str, &str)]) -> String {
        read("job", &Memory::new(files)).unwrap_err().to_string()
    }

    #[test]
    fn sections_comments_and_lines() {
        let text = "; first\n[global]\n bs = 4k # four\n\n[a]\ntime_based\n[global]\nbs=8k\n[b]\n";
        let sections = read("job", &Memory::new(&[("job", text)])).unwrap();
        let names: Vec<&str> = sections.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["global", "a", "global", "b"]);
        assert_eq!(sections[0].lines[0].key, "bs");
        assert_eq!(sections[0].lines[0].value.as_deref(), Some("4k"));
        assert_eq!(sections[1].lines[0].value, None);
        assert_eq!(sections[1].lines[0].place.as_ref().map(|p| p.line), Some(6));
    }

    #[test]
    fn includes_resolve_relative_to_the_file() {
        let files = [("d/job", "[a]\ninclude x\nbs=1k\n"), ("d/x", "rw=read\n")];
        let sections = read("d/job", &Memory::new(&files)).unwrap();
        let keys: Vec<&str> = sections[0].lines.iter().map(|l| l.key.as_str()).collect();
        assert_eq!(keys, ["rw", "bs"]);
    }

    #[test]
    fn errors_have_a_position() {
        assert!(error(&[("job", "bs=4k\n[a]")]).contains("job:1: 'bs=4k' is before"));
        assert!(error(&[("job", "[a")]).contains("missing ]"));
        assert!(error(&[("job", "# nothing")]).contains("no [section]"));
        assert!(error(&[("job", "[a]\ninclude job")]).contains("job:2: 'job' includes itself"));
        let cycle = [("job", "[a]\ninclude x"), ("x", "include y"), ("y", "include x")];
        assert!(error(&cycle).contains("y:1: 'x' includes itself"));
        assert!(error(&[("job", "[a]\ninclude x"), ("x", "[b]")]).contains("x:1: an included"));
        assert!(
            error(&[("job", "[a]\ninclude none")]).contains("job:2: cannot read job file none")
        );
    }

    #[test]
    fn include_depth_is_limited() {
        let names: Vec<String> = (0..20).map(|n| format!("f{n}")).collect();
        let texts: Vec<String> = (1..=20).map(|n| format!("include f{n}")).collect();
        let mut files = vec![("job", "[a]\ninclude f0")];
        files.extend(names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)));
        assert!(error(&files).contains("more than 16 levels deep"));
    }

    #[test]
    fn number_of_lines_is_limited() {
        let names: Vec<String> = (0..14).map(|n| format!("f{n}")).collect();
        let texts: Vec<String> = (1..=14).map(|n| format!("include f{n}\n").repeat(16)).collect();
        let mut files = vec![("job", "[a]\ninclude f0"), ("f14", "bs=4k")];
        files.extend(names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)));
        assert!(error(&files).contains("million lines"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(\\PC|[\\[\\]=;#$\n]){0,200}") {
            let _ = read("job", &Memory::new(&[("job", &text)]));
        }
    }
}
