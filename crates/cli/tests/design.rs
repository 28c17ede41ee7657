//! Keeps the code as ARCHITECTURE.md says it is: which crate may use which, where `unsafe`,
//! printing and exiting may be, that every dependency has a reason, and that files stay short.
//! Each failure says where and what to do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Which of fathom's crates each crate may depend on.
const ARROWS: [(&str, &[&str]); 9] = [
    ("model", &[]),
    ("spec", &["model"]),
    ("machine", &["model"]),
    ("engine", &["model"]),
    ("watch", &["model"]),
    ("analysis", &["model"]),
    ("report", &["model", "analysis"]),
    ("store", &["model"]),
    ("cli", &["model", "spec", "machine", "engine", "watch", "analysis", "report", "store"]),
];
/// The crates that may use `unsafe`.
const UNSAFE: [&str; 2] = ["engine", "watch"];
/// The one file elsewhere that may: ioctls have no safe form.
const IOCTLS: &str = "crates/machine/src/ioctl.rs";
/// The crates that may print and exit: the program, and what only builders run.
const PRINTS: [&str; 2] = ["cli", "xtask"];
const LINES_MAX: usize = 500;

#[test]
fn crates_depend_only_as_designed() {
    let mut faults = Vec::new();
    for member in members() {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == member.name) else {
            if member.name != "xtask" {
                faults.push(format!(
                    "crate {} is not in the design: add it to ARROWS here and to \
                     ARCHITECTURE.md, with the rule that needs a crate of its own",
                    member.name
                ));
            }
            continue;
        };
        for used in member.dependencies.iter().filter_map(|name| name.strip_prefix("fathom-")) {
            if !allowed.contains(&used) {
                faults.push(format!(
                    "{}: {} must not depend on {used}, only on {allowed:?}; move what both need \
                     to model, or hand it over as a value",
                    member.manifest.display(),
                    member.name
                ));
            }
        }
    }
    none(&faults);
}

#[test]
fn unsafe_is_in_engine_watch_and_ioctls_only() {
    let mut faults = Vec::new();
    for member in members().iter().filter(|member| !UNSAFE.contains(&member.name.as_str())) {
        for source in member.sources.iter().filter(|source| !source.path.ends_with(IOCTLS)) {
            let code = code_of(&source.text);
            faults.extend(words(&code).filter(|(_, word)| *word == "unsafe").map(|(line, _)| {
                let place = source.path.display();
                format!(
                    "{place}:{line}: unsafe: use rustix's safe calls, or move it to engine or watch"
                )
            }));
            let is_root =
                ["src/lib.rs", "src/main.rs"].iter().any(|name| source.path.ends_with(name));
            let level = if member.name == "machine" { "deny" } else { "forbid" };
            if is_root && !code.contains(&format!("#![{level}(unsafe_code)]")) {
                let place = source.path.display();
                faults
                    .push(format!("{place}: put #![{level}(unsafe_code)] below its first comment"));
            }
        }
    }
    none(&faults);
}

#[test]
fn only_the_program_prints_and_exits() {
    const MACROS: [&str; 5] = ["print", "println", "eprint", "eprintln", "dbg"];
    let mut faults = Vec::new();
    for member in members().iter().filter(|member| !PRINTS.contains(&member.name.as_str())) {
        for source in member.sources.iter().filter(|source| !source.is_test) {
            let code = without_tests(&code_of(&source.text));
            let found = words_with_rest(&code).filter(|(_, word, rest)| {
                let prints = MACROS.contains(word) && rest.starts_with('!');
                let ends = ["::exit", "::abort"].iter().any(|call| rest.starts_with(call));
                prints || (*word == "process" && ends)
            });
            faults.extend(found.map(|(line, word, _)| {
                format!(
                    "{}:{line}: {word}: only crates/cli prints and exits; return the text, or an \
                     error, to the caller",
                    source.path.display()
                )
            }));
        }
    }
    none(&faults);
}

#[test]
fn only_one_module_prints_and_no_thread_is_created_without_a_result() {
    const MACROS: [&str; 5] = ["print", "println", "eprint", "eprintln", "dbg"];
    let mut faults = Vec::new();
    for member in members() {
        for source in member.sources.iter().filter(|source| !source.is_test) {
            let code = without_tests(&code_of(&source.text));
            for (line, word, rest) in words_with_rest(&code) {
                let place = source.path.display();
                if matches!(word, "thread" | "scope") && spawns(rest) {
                    faults.push(format!(
                        "{place}:{line}: {word}{rest}: it panics where there may be no more threads; use \
                         thread::Builder with a name, and go on without the thread or say what to do"
                    ));
                }
                if member.name == "cli" && MACROS.contains(&word) && rest.starts_with('!') {
                    faults.push(format!(
                        "{place}:{line}: {word}!: it panics where nothing can be written, and prints names as \
                         they are; use crates/cli/src/stdio.rs"
                    ));
                }
            }
        }
    }
    none(&faults);
}

fn spawns(rest: &str) -> bool {
    ["::spawn(", ".spawn("].iter().any(|call| rest.starts_with(call))
}

#[test]
fn every_dependency_has_a_reason_and_a_use() {
    let reasons = std::fs::read_to_string(root().join("docs/dependencies.md")).unwrap();
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let listed: Vec<(&str, &str)> =
        reasons.lines().filter_map(|line| line.strip_prefix("* `")?.split_once('`')).collect();
    let mut faults = Vec::new();
    let mut used = BTreeSet::new();
    for member in members() {
        let code: String = member.sources.iter().map(|source| code_of(&source.text)).collect();
        let named: BTreeSet<&str> = words(&code).map(|(_, word)| word).collect();
        for name in &member.dependencies {
            if !named.contains(name.replace('-', "_").as_str()) {
                let place = member.manifest.display();
                faults.push(format!("{place}: {name} is declared and never used: take it out"));
            }
        }
        used.extend(member.dependencies);
    }
    used.retain(|name| !name.starts_with("fathom-") && name != "xtask");
    for name in &used {
        let reasons: Vec<_> = listed.iter().filter(|(have, _)| have == name).collect();
        if !matches!(reasons[..], [(_, reason)] if reason.len() > 20) {
            faults
                .push(format!("docs/dependencies.md: have one line \"* `{name}`: why this one\""));
        }
    }
    let declared = dependencies_of(&workspace, "workspace.dependencies");
    for name in declared.iter().map(String::as_str).chain(listed.iter().map(|(name, _)| *name)) {
        if !used.contains(name) && !name.starts_with("fathom-") {
            faults.push(format!(
                "no crate uses {name}: take it out of Cargo.toml and docs/dependencies.md"
            ));
        }
    }
    none(&faults);
}

#[test]
fn files_can_be_read_in_one_sitting() {
    let members = members();
    let sources = members.iter().flat_map(|member| &member.sources);
    let lengths = sources.map(|source| (source.path.display(), source.text.lines().count()));
    let faults: Vec<String> = lengths
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(place, lines)| {
            format!("{place} has {lines} lines, {LINES_MAX} are allowed: split it by what its parts are about")
        })
        .collect();
    none(&faults);
}

fn none(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

struct Member {
    /// The folder's name.
    name: String,
    manifest: PathBuf,
    /// Those for the program, for tests, for builds.
    dependencies: Vec<String>,
    sources: Vec<Source>,
}

struct Source {
    path: PathBuf,
    text: String,
    is_test: bool,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn members() -> Vec<Member> {
    let crates = std::fs::read_dir(root().join("crates")).unwrap();
    let mut dirs: Vec<PathBuf> = crates.map(|entry| entry.unwrap().path()).collect();
    dirs.push(root().join("xtask"));
    dirs.sort();
    let members: Vec<Member> = dirs.into_iter().map(member).collect();
    assert_eq!(members.len(), ARROWS.len() + 1, "a crate of ARROWS has gone: take it out there");
    members
}

fn member(dir: PathBuf) -> Member {
    let manifest = dir.join("Cargo.toml");
    let toml = std::fs::read_to_string(&manifest).unwrap();
    let dependencies = ["dependencies", "dev-dependencies", "build-dependencies"]
        .iter()
        .flat_map(|kind| dependencies_of(&toml, kind))
        .collect();
    let mut sources = Vec::new();
    collect(&dir, false, &mut sources);
    assert!(!sources.is_empty(), "{} has no source", dir.display());
    let name = dir.file_name().unwrap().to_str().unwrap().to_string();
    Member { name, manifest, dependencies, sources }
}

/// All Rust files below a directory. Folders of tests and benchmarks are not the program.
fn collect(dir: &Path, is_test: bool, sources: &mut Vec<Source>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        if path.is_dir() {
            let is_test = is_test || name == "tests" || name == "benches";
            collect(&path, is_test, sources);
        } else if name.ends_with(".rs") {
            let is_test = is_test || name.ends_with("tests.rs") || name == "build.rs";
            let text = std::fs::read_to_string(&path).unwrap();
            sources.push(Source { path, text, is_test });
        }
    }
}

/// Names in a table of dependencies of a Cargo.toml, in any of the forms that Cargo knows:
/// `name = …`, `name.workspace = true`, `[dependencies.name]`, `[target.….dependencies]`.
fn dependencies_of(toml: &str, table: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in toml.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            inside = header == table || header.ends_with(&format!("'.{table}"));
            names.extend(header.strip_prefix(&format!("{table}.")).map(String::from));
        } else if inside && !line.starts_with('#') {
            let name = line.split(['=', '.', ' ']).next().filter(|name| !name.is_empty());
            names.extend(name.map(|name| name.trim_matches('"').to_string()));
        }
    }
    names
}

/// The text without comments and without what is in string and character literals. Lines stay.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| raw_string(rest, &code)).or_else(|| literal(rest));
        match skipped {
            Some(length) => {
                code.extend(rest[..length].chars().filter(|c| *c == '\n'));
                code.push(' ');
                rest = &rest[length..];
            }
            None => {
                code.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    code
}

/// Length of the comment that the text begins with.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let mut depth = 0;
    for (at, _) in text.char_indices() {
        if text[at..].starts_with("/*") {
            depth += 1;
        } else if at > 1 && text[..at].ends_with("*/") {
            depth -= 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    Some(text.len())
}

/// Length of the raw string (`r"…"`, `br#"…"#`) that the text begins with.
fn raw_string(text: &str, before: &str) -> Option<usize> {
    if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let body = text.trim_start_matches(['b', 'c']).strip_prefix('r')?;
    let quoted = body.trim_start_matches('#');
    let hashes = body.len() - quoted.len();
    let inner = quoted.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = inner.find(&end)? + end.len();
    Some(text.len() - inner.len() + length)
}

/// Length of the string or character literal that the text begins with; a lifetime is none.
fn literal(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut chars = text.char_indices().skip(1);
    if quote == '\'' {
        let mut next = text.chars().skip(1);
        let (first, second) = (next.next()?, next.next()?);
        if first != '\\' && second != '\'' {
            return None;
        }
    }
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    Some(text.len())
}

/// The code without the items that are compiled for tests only. Lines stay.
fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut kept = String::new();
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        kept.push_str(&rest[..at]);
        let item = &rest[at + MARK.len()..];
        let mut depth = 0;
        let end = item.char_indices().find(|(_, c)| {
            depth += i32::from(*c == '{') - i32::from(*c == '}');
            depth == 0 && matches!(c, '}' | ';')
        });
        let length = end.map_or(item.len(), |(at, _)| at + 1);
        kept.extend(item[..length].chars().filter(|c| *c == '\n'));
        rest = &item[length..];
    }
    kept + rest
}

/// The words of a text, each with its line.
fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    words_with_rest(code).map(|(line, word, _)| (line, word))
}

/// The words of a text, each with its line and what follows it.
fn words_with_rest(code: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    code.lines().enumerate().flat_map(|(index, line)| {
        let part = |c: char| c.is_alphanumeric() || c == '_';
        let starts =
            line.char_indices().filter(move |(at, c)| part(*c) && !line[..*at].ends_with(part));
        starts.map(move |(at, _)| {
            let rest = &line[at..];
            let length = rest.find(|c| !part(c)).unwrap_or(rest.len());
            (index + 1, &rest[..length], &rest[length..])
        })
    })
}

#[test]
fn comments_and_literals_are_no_code() {
    let text = "a // unsafe\nb /* unsafe /* unsafe */ unsafe */ c \"unsafe \\\" unsafe\" d\n\
        r#\"unsafe \" unsafe\"# e br\"unsafe\" '\"' f 'x' g '\\'' h fn i<'a>(_: &'a str) unsafe";
    let code = code_of(text);
    let found: Vec<_> = words(&code).filter(|(_, word)| *word == "unsafe").collect();
    assert_eq!(found, [(3, "unsafe")], "{code}");
    let letters: String = words(&code).map(|(_, word)| word).filter(|w| w.len() == 1).collect();
    assert_eq!(letters, "abcdefghia_a", "{code}");
}

#[test]
fn tests_are_left_out() {
    let code =
        "a();\n#[cfg(test)]\nmod tests { fn f() { b(); } }\nc();\n#[cfg(test)]\nmod x;\nd();";
    assert_eq!(without_tests(code), "a();\n\n\nc();\n\n\nd();");
}

#[test]
fn forms_of_dependencies() {
    let toml = "[package]\nname = \"x\"\n[dependencies]\n# c = 1\na.workspace = true\nb = \"1\"\n\
        [dependencies.d]\nversion = \"1\"\n[target.'cfg(unix)'.dependencies]\ne = \"2\"\n\
        [dev-dependencies]\nf = \"3\"\n";
    assert_eq!(dependencies_of(toml, "dependencies"), ["a", "b", "d", "e"]);
    assert_eq!(dependencies_of(toml, "dev-dependencies"), ["f"]);
}
