//! cgroup limits that apply to a process (Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of
//! the kernel).

mod level;
#[cfg(test)]
mod tests;

use crate::proc_file::PinnedProcFile;
use fathom_model::watch::CgroupSample;
use fathom_sys::Roots;
use fathom_sys::cgroup::{self, Hierarchy};
use level::CgroupDir;
use std::borrow::Cow;
use std::io;
use std::path::Path;

/// A bit of the flags in /proc/PID/stat (include/linux/sched.h).
const PF_EXITING: u64 = 0x4;

#[derive(Debug)]
pub(super) struct Cgroups {
    roots: Roots,
    membership: PinnedProcFile,
    groups: String,
    path: String,
    /// The cgroups and their ancestors, innermost first within a hierarchy.
    levels: Vec<CgroupDir>,
}

impl Cgroups {
    pub fn open(proc: &Path, sys: &Path, pid: Option<i32>) -> io::Result<Self> {
        let pid = pid.map_or_else(|| "self".to_string(), |pid| pid.to_string());
        Ok(Self {
            membership: PinnedProcFile::open(proc.join(pid).join("cgroup"))?,
            roots: Roots { proc: proc.into(), sys: sys.into() },
            groups: String::new(),
            path: String::new(),
            levels: Vec::new(),
        })
    }

    /// The current limits; `None` if no cgroup of the process is mounted.
    pub fn read(&mut self, buffer: &mut Vec<u8>) -> Option<CgroupSample> {
        // cgroup v1 shows the root for an exiting process; earlier values remain true.
        let groups = self.membership.read(buffer).map(Cow::into_owned);
        if let Ok(groups) = groups
            && groups != self.groups
            && (self.groups.is_empty() || !self.is_exiting())
        {
            self.groups = groups;
            self.resolve();
        }
        let mut sample = CgroupSample { path: self.path.clone(), ..CgroupSample::default() };
        for level in &self.levels {
            level.add_to(&mut sample, buffer);
        }
        (!self.levels.is_empty()).then_some(sample)
    }

    /// Whether the process has begun to exit: it is a zombie only once its memory has been freed.
    fn is_exiting(&self) -> bool {
        let stat = std::fs::read(self.membership.path().with_file_name("stat")).unwrap_or_default();
        let name_end = stat.iter().rposition(|byte| *byte == b')').unwrap_or(0);
        let text = String::from_utf8_lossy(stat.get(name_end..).unwrap_or_default());
        let flags =
            text.split_ascii_whitespace().nth(7).and_then(|flags| flags.parse::<u64>().ok());
        flags.is_some_and(|flags| flags & PF_EXITING != 0)
    }

    fn resolve(&mut self) {
        let all = cgroup::hierarchies(&self.roots, &self.groups);
        let level = |hierarchy, dir| CgroupDir::open(hierarchy, dir, &self.roots);
        let levels = all.iter().flat_map(|one| one.groups().map(move |dir| level(one, dir)));
        self.levels = levels.filter(CgroupDir::has_files).collect();
        let limits_cpu = |one: &&Hierarchy| !one.is_v2 && one.has("cpu");
        let path = all.iter().find(limits_cpu).or(all.last());
        self.path = path.map_or_else(String::new, |hierarchy| hierarchy.path.clone());
    }
}
