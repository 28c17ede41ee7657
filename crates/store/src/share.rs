//! Copies of runs to give to others (`fathom runs export --share`). Each string of a record is treated by its field: what
//! identifies a machine, its users and their files and programs is replaced by a keyed hash, and so is every string of a
//! field that is not known here.

use crate::archive::NamedRun;
use crate::dir::{HeldDir, with_path};
use crate::read::LINE_MAX;
use crate::run_dir::{RunDir, TAGS};
use crate::stored::RECORD_MAX;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

/// What becomes of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Treatment {
    /// It stays: a word of fathom or of the kernel, a model, a process name.
    Keep,
    /// It is removed, because it is of no use elsewhere.
    Remove,
    /// Names of other fields, and paths, are replaced in it.
    Text,
    /// Paths are replaced in it.
    Paths,
    /// It is replaced as a name of this kind.
    Name(&'static str),
    /// The same without its port.
    Address,
    /// What a device is called, by its maker or by the administrator.
    Label,
    /// The same of all words as one.
    Command,
    /// The value of a key of fio; of a condition's job, KEY=VALUE.
    Key,
}

/// Fields whose strings stay.
const KEEP: &str = "\
    advice arch axes below boot_id by call cause claim class clocksource comm confidence \
    controller cpu_model cpus cpus_allowed daemons damage device devices direction directive disks distribution \
    driver engine event exit_what fallocate fathom_version features figure file_service file_system \
    fill firmware function group_by held_by host_id idleness irq irqs kernel kind kstack layer level \
    limit members memory method metric mix model name only op outcome phase process psync \
    rate_process refused_flags revisions rule run_id run_name rw sampler sampling scheduler select setup_flags \
    severity slot standard stat state sync_io syscall unified unit verdict version view \
    virtualization wchan write write_cache write_life write_modes";
/// Fields of words for users.
const TEXTS: &str = "\
    Err allow because cell cost_missing costs_missing counter_evidence evidence experiment \
    fallbacks first_error inconclusive limited_by message next_step notes nvme_missing \
    question reason refused rejected remedy samples_lost settings source summary \
    target_changes text value what why";
/// Fields of paths.
const PATHS: &str = "\
    after before bw cgroup dump dumped file filename hist iops lat listed mounts named path point resolved \
    scratch_dir state_file targets within";
/// Keys of fio whose values are words of fio.
const KEYS: &str = "\
    continue_on_error exit_what fadvise_hint fallocate file_service_type iomem ioengine mem \
    random_distribution random_generator rate_process readwrite rw stat_type sync verify \
    verify_policy write_hint zonemode";
/// Names of jobs that say nothing of their owner, and are words in what fathom prints.
const PLAIN_JOBS: &str = "\
    bench device disk flush job jobs latency mixed queue randread randrw randtrim randwrite read reads rw seq test \
    trim trims verify write writes";
/// Commands that make records.
const COMMANDS: &str = "blocks confirm limit record run stacks sweep threads top try verify watch";
/// Lists of block devices.
const DEVICES: &str = "device devices disks partitions volumes wiring";
/// Shorter names are not looked for in texts, and shorter than the second one only as whole words.
const NAME_MIN: usize = 3;
const NAME_LONG: usize = 8;

fn is_in(words: &str, word: &str) -> bool {
    words.split(' ').any(|one| one == word)
}

/// The treatment of the strings in the field `key` of the object or list in the field `parent`.
fn treatment(parent: &str, key: &str) -> Treatment {
    match (parent, key) {
        ("global_options" | "options", _) | ("load", "job") => Treatment::Key,
        ("texts", "loop/backing_file") => Treatment::Name("path"),
        ("missing" | "texts", _) | ("mounts", "options") => Treatment::Text,
        ("jobs", "name") => Treatment::Name("job"),
        ("targets", "name") | ("logs" | "replay", "trace") => Treatment::Name("path"),
        ("conditions", "targets") | ("interrupts_by" | "soft_interrupts_by", "source") => {
            Treatment::Keep
        }
        ("conditions" | "counter_evidence" | "evidence" | "experiment" | "subject", "name") => {
            Treatment::Text
        }
        // Functions in stacks.
        ("", "user") | (_, "io_control" | "io_limits") => Treatment::Paths,
        (_, "next_command") => Treatment::Remove,
        ("first", "expected" | "found") => Treatment::Name("data"),
        (_, "hostname") => Treatment::Name("host"),
        (_, "serial") => Treatment::Name("serial"),
        (_, "user") => Treatment::Name("user"),
        (_, "description") => Treatment::Name("text"),
        (_, "alias") => Treatment::Name("volume"),
        (_, "address") => Treatment::Address,
        (_, "label") => Treatment::Label,
        (_, "argv" | "cmdline" | "command") => Treatment::Command,
        (_, key) if is_in(KEEP, key) => Treatment::Keep,
        (_, key) if is_in(PATHS, key) => Treatment::Name("path"),
        (_, key) if is_in(TEXTS, key) => Treatment::Text,
        _ => Treatment::Name("hidden"),
    }
}

/// Writes copies of `runs` without names to `to`. All have the same hash for the same name, and no tags.
pub(crate) fn share(runs: &[NamedRun], to: &HeldDir) -> io::Result<Vec<NamedRun>> {
    let mut key = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut key)?;
    let mut names = Names { key, ..Names::default() };
    let files = || RunDir::FILES.into_iter().filter(|file| *file != TAGS);
    for (_, dir) in runs {
        // Stacks have functions only.
        for file in files().filter(|file| *file != "stacks.ndjson") {
            each_value(dir, file, &mut |mut value| {
                names.rewrite(&mut value, "", "");
                Ok(())
            })?;
        }
    }
    names.complete();
    let mut copies = Vec::new();
    for (run, dir) in runs {
        let copy = to.make_dir(run)?;
        for file in files().filter(|file| !matches!(dir.regular(file), Ok(None))) {
            let mut out = BufWriter::new(copy.create(file)?);
            each_value(dir, file, &mut |mut value| {
                names.rewrite(&mut value, "", "");
                if let (true, Value::Object(record)) = (file == "record.json", &mut value) {
                    record.insert("shared".into(), true.into());
                }
                serde_json::to_writer(&mut out, &value)?;
                out.write_all(b"\n")
            })?;
            out.flush()?;
        }
        copies.push((run.clone(), copy));
    }
    Ok(copies)
}

/// Passes the record, or what each line of another file holds, to `take`; of damaged lines, which count, an empty object.
fn each_value(
    dir: &HeldDir,
    file: &str,
    take: &mut dyn FnMut(Value) -> io::Result<()>,
) -> io::Result<()> {
    let bad = |error: io::Error| with_path(&dir.path().join(file), error);
    if dir.regular(file)?.is_none() {
        return Ok(());
    }
    if file == "record.json" {
        let record = serde_json::from_slice(&dir.read(file, RECORD_MAX)?);
        return take(record.map_err(|e| bad(e.into()))?);
    }
    let (mut lines, mut line) = (BufReader::new(dir.open_file(file)?), Vec::new());
    loop {
        line.clear();
        (&mut lines).take(LINE_MAX as u64 + 1).read_until(b'\n', &mut line).map_err(bad)?;
        if line.len() > LINE_MAX {
            let why = format!("it has a line of more than {LINE_MAX} bytes");
            return Err(bad(io::Error::new(io::ErrorKind::FileTooLarge, why)));
        }
        // The last line of a killed run is not complete.
        if !line.ends_with(b"\n") {
            return Ok(());
        }
        take(serde_json::from_slice(&line).unwrap_or_else(|_| Map::new().into()))?;
    }
}

/// Names and what replaces them.
#[derive(Default)]
struct Names {
    /// Random, and not kept anywhere: without it, names cannot be guessed from their hashes.
    key: [u8; 32],
    known: HashMap<String, String>,
    /// Kernel names of block devices.
    devices: HashSet<String>,
    /// Those that are looked for in texts, the longest first; none while they are collected.
    in_texts: Option<Vec<(String, String)>>,
}

impl Names {
    /// All names are known: from now on they are replaced in texts, too.
    fn complete(&mut self) {
        let is_secret =
            |name: &str| !self.devices.contains(name.strip_prefix("/dev/").unwrap_or(name));
        let is_word = |name: &str| is_number(name) && name.len() < NAME_LONG;
        let known = self
            .known
            .iter()
            .filter(|(name, _)| name.len() >= NAME_MIN && !is_word(name) && is_secret(name));
        let mut names: Vec<_> = known.map(|(name, new)| (name.clone(), new.clone())).collect();
        names.sort_by_key(|(name, _)| (std::cmp::Reverse(name.len()), name.clone()));
        self.in_texts = Some(names);
    }

    /// Replaces names in all strings of `value`, which is in the field `key` of an object in `parent`.
    fn rewrite(&mut self, value: &mut Value, parent: &str, key: &str) {
        match value {
            Value::Object(object) if key == "peaks" => {
                let peaks = std::mem::take(object).into_iter();
                *object = peaks.map(|(cell, peak)| (self.text(&cell), peak)).collect();
            }
            Value::Object(object) => {
                let kind = object.get("kind").and_then(Value::as_str);
                let is_named = matches!(kind, Some("mapped" | "loop"));
                for (field, value) in object.iter_mut() {
                    let is_name = is_named && field == "label";
                    self.rewrite(value, key, if is_name { "alias" } else { field.as_str() });
                }
            }
            Value::Array(words) if matches!(key, "argv" | "command") => {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                *value = self.command(&words, parent.is_empty()).into();
            }
            Value::Array(values) => {
                values.iter_mut().for_each(|value| self.rewrite(value, parent, key));
            }
            Value::String(text) => match treatment(parent, key) {
                Treatment::Remove => *value = Value::Null,
                treatment => {
                    if key == "name" && is_in(DEVICES, parent) {
                        self.devices.insert(text.clone());
                    }
                    *text = self.replaced(treatment, key, text);
                }
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn replaced(&mut self, treatment: Treatment, key: &str, text: &str) -> String {
        match treatment {
            Treatment::Name(kind) => self.name(kind, text),
            Treatment::Command => self.name("command", text),
            Treatment::Text => self.text(text),
            Treatment::Paths => self.paths(text),
            Treatment::Label if text.contains("addr=") => self.name("address", text),
            Treatment::Address => {
                let (host, port) = match text.rsplit_once(':') {
                    Some((host, port)) if host.ends_with(']') || !host.contains(':') => {
                        (host, format!(":{port}"))
                    }
                    _ => (text, String::new()),
                };
                self.name("address", host.trim_matches(['[', ']'])) + &port
            }
            Treatment::Key => match text.split_once('=').filter(|_| key == "job") {
                Some((key, value)) => format!("{key}={}", self.value(key, value)),
                None => self.value(key, text),
            },
            Treatment::Keep | Treatment::Remove | Treatment::Label => text.to_string(),
        }
    }

    /// What replaces the name `text` of this kind.
    fn name(&mut self, kind: &str, text: &str) -> String {
        let text = text.trim();
        // A command is a secret even if its program is a file of the kernel.
        let is_command = kind == "command";
        let is_plain = kind == "job" && is_in(PLAIN_JOBS, text);
        if text.is_empty() || is_plain || !is_command && self.is_public(text) {
            return text.to_string();
        }
        let mut hash = |name: &str| {
            let hash = Sha256::new().chain_update(self.key).chain_update(text).finalize();
            let digits: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
            let kind = if text.starts_with('/') && !is_command { "/path" } else { kind };
            let new = format!("{kind}-{digits}");
            self.known.entry(name.to_string()).or_insert(new).clone()
        };
        if let Some((_, file)) = text.rsplit_once('/').filter(|(_, file)| is_file_name(file)) {
            hash(file);
        }
        hash(text)
    }

    /// A command line as one word after those that are no secret: of fathom itself, its name and that of its command.
    fn command(&mut self, words: &[&str], is_own: bool) -> Vec<String> {
        let own = match words.get(1).filter(|word| is_in(COMMANDS, word)) {
            Some(command) if is_own => vec!["fathom".to_string(), command.to_string()],
            _ => Vec::new(),
        };
        let rest = &words[own.len().min(words.len())..];
        for word in rest {
            let value = word.split_once('=').map_or(*word, |(_, value)| value);
            if value.contains(['/', '.', '@']) && is_file_name(value) {
                self.name("word", value);
            }
        }
        let rest = self.name("command", &rest.join(" "));
        own.into_iter().chain(Some(rest).filter(|rest| !rest.is_empty())).collect()
    }

    /// The value of a key of fio.
    fn value(&mut self, key: &str, value: &str) -> String {
        let is_plain = is_in(KEYS, key) || is_number(value);
        if is_plain { value.to_string() } else { self.name("word", value) }
    }

    fn text(&mut self, text: &str) -> String {
        let Some(names) = &self.in_texts else { return text.to_string() };
        let mut text = text.to_string();
        for (name, new) in names {
            if text.contains(name) {
                text = without(&text, name, new);
            }
        }
        self.paths(&text)
    }

    /// `text` with its absolute paths replaced.
    fn paths(&mut self, text: &str) -> String {
        let begins = |c: char| c.is_whitespace() || "\"'`(=:,;<>[{|~".contains(c);
        let ends = |c: char| c.is_whitespace() || "\"'`),;<>]}|".contains(c);
        let (mut out, mut at) = (String::new(), 0);
        while let Some(slash) = text[at..].find('/').map(|found| at + found) {
            let end = text[slash..].find(ends).map_or(text.len(), |len| slash + len);
            let path = text[slash..end].trim_end_matches(['.', ':']);
            out.push_str(&text[at..slash]);
            if text[..slash].chars().next_back().is_none_or(begins) {
                out.push_str(&self.name("path", path));
                at = slash + path.len();
            } else {
                out.push('/');
                at = slash + 1;
            }
        }
        out + &text[at..]
    }

    /// Whether a name is the same everywhere: files of the kernel, block devices, or what has replaced another name.
    fn is_public(&self, name: &str) -> bool {
        let is_device =
            |name: &str| ["null", "zero"].contains(&name) || self.devices.contains(name);
        let is_hash = |rest: &str| rest.len() == 12 && rest.bytes().all(|b| b.is_ascii_hexdigit());
        matches!(name, "/" | "[SWAP]")
            || name.strip_prefix("/dev/").is_some_and(is_device)
            || name.strip_prefix("/path-").is_some_and(is_hash)
            || name.starts_with("/proc/")
            || name.starts_with("/sys/") && !name.starts_with("/sys/fs/cgroup/")
    }
}

/// `text` with `name` replaced where it is not a part of another name.
fn without(text: &str, name: &str, new: &str) -> String {
    let (is_path, is_short) = (name.starts_with('/'), name.len() < NAME_LONG);
    let is_inner = |c: char| c.is_alphanumeric() || c == '_' || is_path && "/-".contains(c);
    let (mut out, mut from) = (String::new(), 0);
    for (at, _) in text.match_indices(name) {
        let rest = &text[at + name.len()..];
        let before = text[..at].chars().next_back().is_some_and(is_inner);
        let after = rest.trim_start_matches(if is_path { "." } else { "" });
        let after = after.chars().next().is_some_and(is_inner);
        if (is_short || is_path) && (before || after) {
            continue;
        }
        out.push_str(&text[from..at]);
        out.push_str(new);
        from = at + name.len();
    }
    out + &text[from..]
}

/// Whether a text is a number, or a list of numbers, with or without units: `4k`, `1.5`, `0-3,8`, `70:30`.
fn is_number(text: &str) -> bool {
    let is_one = |part: &str| {
        let unit = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let is_unit = unit == "%" || unit.bytes().all(|b| b.is_ascii_alphabetic());
        let number = &part[..part.len() - unit.len()];
        number.parse::<f64>().is_ok() && unit.len() <= 3 && is_unit
    };
    text.split([',', ':', '/', '-']).all(is_one)
}

/// Whether a word would hardly be found in a text unless it is meant.
fn is_file_name(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || "-_".contains(c);
    word.len() > NAME_MIN && !word.chars().all(is_plain) && !is_number(word)
}

#[cfg(test)]
mod tests;
