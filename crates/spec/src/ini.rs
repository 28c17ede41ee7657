//! Job file syntax: sections, lines, comments, `include`.

use crate::error::{Place, Problems, SpecError};
use crate::sources::{INCLUDE_DEPTH_MAX, Sources, read_text};
use crate::value::evaluate;

/// Maximum number of lines in a job file, including included files.
const LINES_MAX: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IniSection {
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

/// The sections of the job file at `path`, in order; lines that cannot be understood are left out, and
/// added to `problems`.
pub(crate) fn read(path: &str, sources: &dyn Sources, problems: &mut Problems) -> Vec<IniSection> {
    let Some(text) = problems.ok(read_text(sources, path)) else { return Vec::new() };
    let mut reader =
        IniReader { sources, problems, open: vec![path.to_string()], lines_left: LINES_MAX };
    let mut sections: Vec<IniSection> = Vec::new();
    // Lines after a section name that cannot be understood belong to no section.
    let mut orphaned = false;
    for (line, place) in lines(&text, path) {
        if reader.is_over() {
            break;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = reader.problems.ok(section_name(rest, &place));
            orphaned = name.is_none();
            sections.extend(name.map(|name| IniSection { name, place, lines: Vec::new() }));
            continue;
        }
        match sections.last_mut() {
            _ if orphaned => {}
            Some(section) => reader.line(line, place, &mut section.lines),
            None => {
                let message =
                    format!("'{}' is before the first [section]; move it below one", shorten(line));
                reader.problems.add(SpecError::new(message).at(Some(&place)));
                orphaned = true;
            }
        }
    }
    sections
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

struct IniReader<'a> {
    sources: &'a dyn Sources,
    problems: &'a mut Problems,
    /// Stack of files being read, innermost last.
    open: Vec<String>,
    lines_left: usize,
}

impl IniReader<'_> {
    fn is_over(&self) -> bool {
        self.lines_left == 0 || self.problems.is_full()
    }

    fn fail(&mut self, message: String, at: &Place) {
        self.problems.add(SpecError::new(message).at(Some(at)));
    }

    fn line(&mut self, text: &str, place: Place, out: &mut Vec<Line>) {
        self.lines_left -= 1;
        if self.lines_left == 0 {
            let message = "more than a million lines, counting included files; remove some";
            return self.fail(message.to_string(), &place);
        }
        let text = match expand(text, self.sources) {
            Ok(line) if line.unset.is_empty() => line.text,
            Ok(line) => match without_unset(&line) {
                Ok(note) => {
                    self.problems.note(format!("{place}: {note}"));
                    line.text
                }
                Err(why) => return self.fail(why, &place),
            },
            Err(why) => return self.fail(why, &place),
        };
        let included = text
            .strip_prefix("include")
            .filter(|rest| rest.starts_with([' ', '\t', '=']))
            .map(|rest| rest[1..].trim());
        match included {
            Some(name) => self.include(name, &place, out),
            None => out.push(Line::split(&text, Some(place))),
        }
    }

    fn include(&mut self, name: &str, at: &Place, out: &mut Vec<Line>) {
        if name == "-" {
            return self.fail("standard input cannot be included; name a file".to_string(), at);
        }
        if self.open.len() >= INCLUDE_DEPTH_MAX {
            let message = format!(
                "cannot include '{name}': more than {INCLUDE_DEPTH_MAX} levels deep; nest fewer files"
            );
            return self.fail(message, at);
        }
        let found = self.find(name, at);
        let Some((path, text)) = self.problems.ok(found) else { return };
        if self.open.contains(&path) {
            return self.fail(format!("'{path}' includes itself; remove that include"), at);
        }
        self.open.push(path.clone());
        for (line, place) in lines(&text, &path) {
            if self.is_over() {
                break;
            }
            if line.starts_with('[') {
                let message = "an included file must not have sections; remove the section name";
                self.fail(message.to_string(), &place);
                break;
            }
            self.line(line, place, out);
        }
        self.open.pop();
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

/// Keys whose values are paths, or become part of paths.
const PATHS: &[&str] = &["filename", "directory", "filename_format", "name"];

/// The note that unset variables expand to nothing, as in fio. An error where nothing is left, and in paths: what is
/// left of a path may name something else, such as the disk `/dev/nvme0n1` for `/dev/nvme0n1${PART}`.
fn without_unset(line: &Expanded) -> Result<String, String> {
    let names = line.unset.join(", ");
    let (key, value) = line.text.split_once('=').unwrap_or((&line.text, ""));
    let key = key.trim();
    let is_path = PATHS.contains(&key) || key.starts_with("include");
    if value.trim().is_empty() || is_path {
        return Err(format!(
            "environment variable {names} is not set; set it, for example: {}=… fathom run …",
            line.unset[0]
        ));
    }
    Ok(format!(
        "environment variable {names} is not set and expands to nothing, as in fio: {}",
        shorten(&line.text)
    ))
}

/// `text`, truncated for use in a message.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// Maximum length of an expanded line in bytes, to bound memory use.
const LINE_BYTES_MAX: usize = 64 << 10;

/// A line with its variables expanded once; the result is not expanded again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expanded {
    pub text: String,
    pub unset: Vec<String>,
}

pub(crate) fn expand(line: &str, sources: &dyn Sources) -> Result<Expanded, String> {
    let mut out = Expanded::default();
    let mut has_words = false;
    let mut rest = line;
    while let Some(at) = rest.find('$') {
        out.text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(name) = rest.strip_prefix("${") {
            let end = name.find('}').ok_or_else(|| format!("missing }} in '{rest}'; add it"))?;
            let (name, after) = (&name[..end], &name[end + 1..]);
            match sources.env(name) {
                Some(value) if value.contains(['\n', '\r', '\0']) => {
                    return Err(format!(
                        "environment variable {name} contains a line break; set it to a single line"
                    ));
                }
                Some(value) => out.text.push_str(&value),
                None => out.unset.push(name.to_string()),
            }
            rest = after;
        } else if let Some((word, value)) = machine_word(rest, sources) {
            has_words = true;
            out.text.push_str(&value.to_string());
            rest = &rest[word.len()..];
        } else {
            out.text.push('$');
            rest = &rest[1..];
        }
        if out.text.len() > LINE_BYTES_MAX {
            break;
        }
    }
    out.text.push_str(rest);
    if out.text.len() > LINE_BYTES_MAX {
        return Err(format!(
            "line exceeds {} KiB after expansion; shorten it",
            LINE_BYTES_MAX >> 10
        ));
    }
    if has_words {
        out.text = calculated(out.text)?;
    }
    Ok(out)
}

/// As in fio, a value with `$ncpus` or the like is calculated if it is an arithmetic expression. A negative result is
/// rather a range, such as `0-$ncpus`.
fn calculated(text: String) -> Result<String, String> {
    let Some((key, value)) = text.split_once('=') else { return Ok(text) };
    let is_expression = value.contains(['+', '-', '*', '/', '%'])
        && value.chars().all(|c| c.is_ascii_digit() || " +-*/%()".contains(c));
    if !is_expression {
        return Ok(text);
    }
    let number = |text: &str| text.parse().map_err(|_| format!("'{text}' is no number; use one"));
    let result = evaluate(value.trim(), &number)?;
    Ok(if result < 0 { text } else { format!("{key}={result}") })
}

fn machine_word(text: &str, sources: &dyn Sources) -> Option<(&'static str, u64)> {
    let machine = sources.machine();
    let words = [
        ("$ncpus", machine.cpus),
        ("$pagesize", machine.page_bytes),
        ("$mb_memory", machine.memory_mib),
    ];
    words.into_iter().find(|(word, _)| text.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::tests::MemorySources;
    use proptest::prelude::*;

    fn sections(path: &str, files: &[(&str, &str)]) -> Vec<IniSection> {
        let mut problems = Problems::default();
        let sections = read(path, &MemorySources::new(files), &mut problems);
        assert_eq!(problems.errors, []);
        sections
    }

    fn error(files: &[(&str, &str)]) -> String {
        let mut problems = Problems::default();
        read("job", &MemorySources::new(files), &mut problems);
        problems.to_string()
    }

    #[test]
    fn sections_comments_and_lines() {
        let text = "; first\n[global]\n bs = 4k # four\n\n[a]\ntime_based\n[global]\nbs=8k\n[b]\n";
        let sections = sections("job", &[("job", text)]);
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
        let sections = sections("d/job", &files);
        let keys: Vec<&str> = sections[0].lines.iter().map(|l| l.key.as_str()).collect();
        assert_eq!(keys, ["rw", "bs"]);
    }

    #[test]
    fn errors_have_a_position() {
        assert!(error(&[("job", "bs=4k\n[a]")]).contains("job:1: 'bs=4k' is before"));
        assert!(error(&[("job", "[a")]).contains("missing ]"));
        assert_eq!(error(&[("job", "# nothing")]), "");
        assert!(error(&[("job", "[a]\ninclude job")]).contains("job:2: 'job' includes itself"));
        let cycle = [("job", "[a]\ninclude x"), ("x", "include y"), ("y", "include x")];
        assert!(error(&cycle).contains("y:1: 'x' includes itself"));
        assert!(error(&[("job", "[a]\ninclude x"), ("x", "[b]")]).contains("x:1: an included"));
        assert!(
            error(&[("job", "[a]\ninclude none")]).contains("job:2: cannot read job file none")
        );
    }

    #[test]
    fn all_problems_are_found_at_once() {
        let text = "bs=1\nrw=read\n[a]\nx=${NONE}\n[b\nbs=4k\n[c] d\n[e]\ninclude none\nbs=8k";
        let text = error(&[("job", text)]);
        let lines: Vec<&str> = text.lines().map(|line| &line[..6]).collect();
        assert_eq!(lines, ["job:1:", "job:4:", "job:5:", "job:7:", "job:9:"], "{text}");
    }

    #[test]
    fn unset_variables_expand_to_nothing_except_in_paths() {
        let mut problems = Problems::default();
        let text = "[a]\nbs=4${NONE}k\nsize=${NONE}\nfilename=/dev/x${PART}\ninclude ${D}/x";
        let sections = read("job", &MemorySources::new(&[("job", text)]), &mut problems);
        assert_eq!(sections[0].lines.len(), 1);
        assert_eq!(sections[0].lines[0].value.as_deref(), Some("4k"));
        let note =
            "job:2: environment variable NONE is not set and expands to nothing, as in fio: bs=4k";
        assert_eq!(problems.notes, [note]);
        let errors = problems.to_string();
        assert_eq!(errors.lines().count(), 3, "{errors}");
        assert!(errors.contains("job:4: environment variable PART is not set; set it"), "{errors}");
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
            let _ = error(&[("job", &text)]);
        }
    }

    #[test]
    fn words() {
        let sources =
            MemorySources::new(&[]).with_env("DISK", "/dev/x").with_env("LOOP", "${LOOP}");
        let line = |text: &str| expand(text, &sources).map(|line| line.text);
        assert_eq!(line("filename=${DISK}1").unwrap(), "filename=/dev/x1");
        assert_eq!(line("numjobs=$ncpus").unwrap(), "numjobs=4");
        assert_eq!(line("bs=$pagesize").unwrap(), "bs=4096");
        assert_eq!(line("x=$jobname.$jobnum").unwrap(), "x=$jobname.$jobnum");
        assert_eq!(line("x=${LOOP}").unwrap(), "x=${LOOP}", "expanded once only");
        let unset = expand("x=4${NONE}k", &sources).unwrap();
        assert_eq!((unset.text.as_str(), &unset.unset[..]), ("x=4k", &["NONE".to_string()][..]));
        assert!(line("x=${DISK").unwrap_err().contains('}'));
        assert_eq!(line("numjobs=$ncpus*2").unwrap(), "numjobs=8");
        assert_eq!(line("size=5*1024*1024*$mb_memory/8").unwrap(), "size=655360000");
        assert_eq!(line("cpus_allowed=0-$ncpus").unwrap(), "cpus_allowed=0-4");
        assert_eq!(line("filename=/x/$ncpus-a").unwrap(), "filename=/x/4-a");
        assert!(line("x=$ncpus/0").unwrap_err().contains("division by zero"));
    }
}
