//! Operations on the names of files and directories.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A job whose I/Os are operations on names, one for each file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Names {
    /// The operation.
    pub op: NameOp,
    /// The system call of `filestat` and `dirstat` (`stat_type`).
    pub stat: StatCall,
    /// The files or directories.
    pub paths: Paths,
    /// The directory that they must not leave.
    pub within: Option<String>,
    /// Size of files that are laid out for the job, in bytes.
    pub size_bytes: u64,
    /// Whether names that the job needs and that are missing may be created.
    pub create: bool,
    /// At the end, remove files created for the job or by it (`unlink`).
    pub unlink: bool,
}

impl Names {
    /// A job without names yet.
    pub fn new(op: NameOp) -> Self {
        let (stat, paths) = (StatCall::Stat, Paths::Listed(Vec::new()));
        Self { op, stat, paths, within: None, size_bytes: 0, create: true, unlink: false }
    }
}

crate::named! {
    /// An operation on a name.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum NameOp {
        /// Create a file: openat(2) with O_CREAT.
        CreateFile = "filecreate",
        /// Read a file's status: stat(2).
        StatFile = "filestat",
        /// Remove a file: unlinkat(2).
        DeleteFile = "filedelete",
        /// Create a directory: mkdirat(2).
        CreateDir = "dircreate",
        /// Read a directory's status: stat(2).
        StatDir = "dirstat",
        /// Remove a directory: unlinkat(2) with AT_REMOVEDIR.
        DeleteDir = "dirdelete",
    }
}

impl NameOp {
    /// Whether the names are those of directories.
    pub const fn is_on_dirs(self) -> bool {
        matches!(self, Self::CreateDir | Self::StatDir | Self::DeleteDir)
    }

    /// Whether the operation leaves everything as it is, so that it can be repeated.
    pub const fn is_stat(self) -> bool {
        matches!(self, Self::StatFile | Self::StatDir)
    }

    /// Whether the operation removes a name.
    pub const fn deletes(self) -> bool {
        matches!(self, Self::DeleteFile | Self::DeleteDir)
    }
}

/// How a status is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatCall {
    /// stat(2).
    #[default]
    Stat,
    /// lstat(2).
    Lstat,
    /// statx(2), all fields.
    Statx,
}

/// Paths of a job, which may be many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Paths {
    /// All of them.
    Listed(Vec<String>),
    /// `before`, a number from 0 to `count` - 1, and `after`.
    Numbered {
        /// What precedes the number.
        before: String,
        /// What follows it.
        after: String,
        /// How many there are.
        count: u32,
    },
}

impl Paths {
    /// `paths`, in the shortest form.
    pub fn new(paths: Vec<String>) -> Self {
        let (Some(first), Ok(count)) = (paths.first(), u32::try_from(paths.len())) else {
            return Self::Listed(paths);
        };
        let zeros = first.char_indices().filter(|(_, letter)| *letter == '0');
        let found = zeros.rev().find_map(|(at, _)| {
            let (before, after) = (&first[..at], &first[at + 1..]);
            let is_numbered = |(number, path): (usize, &String)| {
                let middle = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
                middle.is_some_and(|middle| middle == number.to_string())
            };
            paths.iter().enumerate().all(is_numbered).then(|| (before.into(), after.into()))
        });
        match found {
            Some((before, after)) => Self::Numbered { before, after, count },
            None => Self::Listed(paths),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        match self {
            Self::Listed(paths) => paths.len(),
            Self::Numbered { count, .. } => *count as usize,
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.count()).map(move |number| match self {
            Self::Listed(paths) => paths[number].clone(),
            Self::Numbered { before, after, .. } => format!("{before}{number}{after}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_paths_are_stored_as_a_pattern() {
        let names = |range: std::ops::Range<u32>| -> Vec<String> {
            range.map(|number| format!("/d/t0.0.{number}.x")).collect()
        };
        let paths = Paths::new(names(0..1200));
        assert!(matches!(&paths, Paths::Numbered { before, .. } if before == "/d/t0.0."));
        assert_eq!((paths.count(), paths.iter().collect::<Vec<_>>()), (1200, names(0..1200)));
        for listed in [names(1..3), vec!["a".into(), "b".into()], vec!["a0".into(), "a2".into()]] {
            let paths = Paths::new(listed.clone());
            assert_eq!((&paths, paths.iter().collect()), (&Paths::Listed(listed.clone()), listed));
        }
    }
}
