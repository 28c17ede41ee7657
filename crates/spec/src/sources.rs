//! Inputs of the parser: files, environment, and machine properties.

use crate::{SpecError, keys};

pub const JOB_FILE_BYTES_MAX: usize = 16 << 20;

pub const INCLUDE_DEPTH_MAX: usize = 16;

pub trait Sources {
    /// The contents of a job file; `-` is standard input. Reads at most `limit_bytes` + 1 bytes,
    /// since the path may name an endless device.
    fn read(&self, path: &str, limit_bytes: usize) -> Result<Vec<u8>, String>;

    /// Whether `path` is a regular file: opening anything else may wait for another program.
    fn is_regular(&self, _path: &str) -> bool {
        true
    }

    /// The regular files in a directory and below, at most `most`, in order; those without data only if `with_empty`.
    fn files_below(
        &self,
        directory: &str,
        _most: usize,
        _with_empty: bool,
    ) -> Result<Vec<String>, String> {
        Err(format!("cannot read {directory}"))
    }

    fn env(&self, name: &str) -> Option<String>;

    fn machine(&self) -> MachineNumbers;

    fn random(&self) -> u64;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineNumbers {
    pub cpus: u64,
    pub page_bytes: u64,
    pub memory_mib: u64,
}

pub(crate) fn read_text(sources: &dyn Sources, path: &str) -> Result<String, SpecError> {
    let shown = if path == "-" { "standard input" } else { path };
    let bytes = sources.read(path, JOB_FILE_BYTES_MAX).map_err(|why| {
        SpecError::new(format!("cannot read job file {shown}: {why}{}", hint(path)))
    })?;
    if bytes.len() > JOB_FILE_BYTES_MAX {
        let message = format!(
            "{shown} exceeds the maximum job file size of {} MiB; if it is a target, use \
             --filename=",
            JOB_FILE_BYTES_MAX >> 20
        );
        return Err(SpecError::new(message));
    }
    if bytes.contains(&0) {
        return Err(SpecError::new(format!(
            "{shown} is binary, not a job file; if it is a target, use --filename="
        )));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        let offset = e.utf8_error().valid_up_to();
        SpecError::new(format!(
            "{shown} is not UTF-8 text (byte {offset}); convert it, or name a job file"
        ))
    })?;
    Ok(without_mark(&text).to_string())
}

/// The text after the byte order mark that some editors begin a file with.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// A suggestion if a "job file" that cannot be read looks like a key without its dashes.
fn hint(path: &str) -> String {
    let name = path.split('=').next().unwrap_or_default();
    match path.contains('=') && keys::find(name).is_some() {
        true => format!("; did you mean --{path}?"),
        false => String::new(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::HashMap;

    #[derive(Default)]
    pub(crate) struct MemorySources {
        files: HashMap<String, Vec<u8>>,
        env: HashMap<String, String>,
    }

    impl MemorySources {
        pub(crate) fn new(files: &[(&str, &str)]) -> Self {
            let files = files.iter().map(|(n, t)| ((*n).to_string(), t.as_bytes().to_vec()));
            Self { files: files.collect(), env: HashMap::new() }
        }

        pub(crate) fn with_file(mut self, name: &str, bytes: Vec<u8>) -> Self {
            self.files.insert(name.into(), bytes);
            self
        }

        pub(crate) fn with_env(mut self, name: &str, value: &str) -> Self {
            self.env.insert(name.into(), value.into());
            self
        }
    }

    impl Sources for MemorySources {
        fn read(&self, path: &str, limit_bytes: usize) -> Result<Vec<u8>, String> {
            let bytes = self.files.get(path).ok_or("No such file or directory")?;
            Ok(bytes[..bytes.len().min(limit_bytes + 1)].to_vec())
        }
        fn env(&self, name: &str) -> Option<String> {
            self.env.get(name).cloned()
        }
        fn machine(&self) -> MachineNumbers {
            MachineNumbers { cpus: 4, page_bytes: 4096, memory_mib: 1000 }
        }
        fn random(&self) -> u64 {
            7
        }
    }

    #[test]
    fn a_key_without_dashes_is_suggested() {
        let error =
            |path: &str| read_text(&MemorySources::default(), path).unwrap_err().to_string();
        assert!(error("rw=read").ends_with("; did you mean --rw=read?"), "{}", error("rw=read"));
        assert!(error("a=b").ends_with("No such file or directory"), "{}", error("a=b"));
        assert!(error("rw").ends_with("No such file or directory"), "{}", error("rw"));
    }

    #[test]
    fn a_byte_order_mark_is_no_text() {
        let sources = MemorySources::new(&[("marked", "\u{feff}[a]\nrw=read\n")]);
        assert_eq!(read_text(&sources, "marked").unwrap(), "[a]\nrw=read\n");
    }

    #[test]
    fn binary_and_oversized_files_are_rejected() {
        let mut sources = MemorySources::default();
        sources.files.insert("zero".into(), b"[a]\0".to_vec());
        sources.files.insert("latin1".into(), b"[a]\n#\xe9".to_vec());
        sources.files.insert("big".into(), vec![b' '; JOB_FILE_BYTES_MAX + 9]);
        for (path, part) in
            [("zero", "binary"), ("latin1", "byte 5"), ("big", "exceeds"), ("none", "No such")]
        {
            let error = read_text(&sources, path).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(path), "{error}");
        }
    }
}
