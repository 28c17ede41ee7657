//! What a job file may refer to outside of itself.

use crate::SpecError;
use crate::keys;

/// The largest job file that is read, in bytes.
pub const JOB_FILE_BYTES_MAX: usize = 16 << 20;

/// How deep `include` may nest.
pub const INCLUDE_DEPTH_MAX: usize = 16;

/// Where files, environment and machine come from.
pub trait Sources {
    /// The contents of a job file; `-` is standard input. An implementation stops reading
    /// after `limit_bytes` + 1 bytes, so that an endless device does no harm.
    ///
    /// # Errors
    /// Why it cannot be read, in words and without the path.
    fn read(&self, path: &str, limit_bytes: usize) -> Result<Vec<u8>, String>;

    /// The environment variable `name`.
    fn env(&self, name: &str) -> Option<String>;

    /// What the words `$ncpus`, `$pagesize` and `$mb_memory` stand for.
    fn machine(&self) -> MachineNumbers;

    /// A number that differs from run to run, for `randrepeat=0`.
    fn random(&self) -> u64;
}

/// What the words `$ncpus`, `$pagesize` and `$mb_memory` stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineNumbers {
    /// Processors online.
    pub cpus: u64,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
}

/// The text of a job file, which must be text and of sensible size.
pub(crate) fn read_text(sources: &dyn Sources, path: &str) -> Result<String, SpecError> {
    let shown = if path == "-" { "standard input" } else { path };
    let bytes = sources.read(path, JOB_FILE_BYTES_MAX).map_err(|why| {
        SpecError::new(format!("cannot read job file {shown}: {why}{}", hint(path)))
    })?;
    if bytes.len() > JOB_FILE_BYTES_MAX {
        let message = format!(
            "{shown} is larger than the {} MiB that a job file may have: is it a target? \
             Targets are given with --filename=",
            JOB_FILE_BYTES_MAX >> 20
        );
        return Err(SpecError::new(message));
    }
    if bytes.contains(&0) {
        return Err(SpecError::new(format!(
            "{shown} is binary, not a job file; targets are given with --filename="
        )));
    }
    String::from_utf8(bytes).map_err(|e| {
        let offset = e.utf8_error().valid_up_to();
        SpecError::new(format!("{shown} is not UTF-8 text (byte {offset}), so not a job file"))
    })
}

/// What was perhaps meant by a "job file" that cannot be read: a key without its dashes.
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

    /// Files and environment in memory.
    #[derive(Default)]
    pub(crate) struct Memory {
        files: HashMap<String, Vec<u8>>,
        env: HashMap<String, String>,
    }

    impl Memory {
        pub(crate) fn new(files: &[(&str, &str)]) -> Self {
            let files = files.iter().map(|(n, t)| ((*n).to_string(), t.as_bytes().to_vec()));
            Self { files: files.collect(), env: HashMap::new() }
        }

        pub(crate) fn with_env(mut self, name: &str, value: &str) -> Self {
            self.env.insert(name.into(), value.into());
            self
        }
    }

    impl Sources for Memory {
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
    fn a_key_without_dashes_is_known() {
        let error = |path: &str| read_text(&Memory::default(), path).unwrap_err().to_string();
        assert!(error("rw=read").ends_with("; did you mean --rw=read?"), "{}", error("rw=read"));
        assert!(error("a=b").ends_with("No such file or directory"), "{}", error("a=b"));
        assert!(error("rw").ends_with("No such file or directory"), "{}", error("rw"));
    }

    #[test]
    fn only_text_of_sensible_size_is_read() {
        let mut sources = Memory::default();
        sources.files.insert("zero".into(), b"[a]\0".to_vec());
        sources.files.insert("latin1".into(), b"[a]\n#\xe9".to_vec());
        sources.files.insert("big".into(), vec![b' '; JOB_FILE_BYTES_MAX + 9]);
        for (path, part) in
            [("zero", "binary"), ("latin1", "byte 5"), ("big", "larger than"), ("none", "No such")]
        {
            let error = read_text(&sources, path).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(path), "{error}");
        }
    }
}
