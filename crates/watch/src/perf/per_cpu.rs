//! Events on every CPU, and which CPUs are online.

use super::event::PerfEvent;
use super::ring::PerfRing;
use crate::proc_file::{read_text, with_path};
use fathom_model::cpus;
use std::io;
use std::path::Path;

#[derive(Debug)]
pub(crate) struct PerCpuEvents(Vec<PerfEvent>);

impl PerCpuEvents {
    pub fn new(events: Vec<PerfEvent>) -> Self {
        Self(events)
    }

    pub fn enable(&self) -> io::Result<()> {
        self.0.iter().try_for_each(PerfEvent::enable)
    }

    pub fn read(&self) -> io::Result<u64> {
        self.0.iter().try_fold(0, |sum: u64, event| Ok(sum.wrapping_add(event.read()?.value)))
    }

    pub fn events(&self) -> &[PerfEvent] {
        &self.0
    }

    /// A ring buffer of this size for each CPU.
    pub fn map_rings(&self, bytes: usize) -> io::Result<Vec<PerfRing>> {
        self.0.iter().map(|event| PerfRing::map(event, bytes)).collect()
    }

    /// Redirects the records to the ring buffers of `owner`, CPU by CPU.
    pub fn send_to(&self, owner: &Self) -> io::Result<()> {
        self.0.iter().zip(&owner.0).try_for_each(|(event, owner)| event.send_to(owner))
    }
}

/// The CPUs that are online, ascending.
pub(crate) fn online_cpus(sys_root: &Path) -> io::Result<Vec<u32>> {
    let path = sys_root.join("devices/system/cpu/online");
    let invalid = |why| with_path(&path, &io::Error::new(io::ErrorKind::InvalidData, why));
    cpus::parse(&read_text(&path)?).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn online_cpus_are_parsed() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("devices/system/cpu");
        std::fs::create_dir_all(&dir).unwrap();
        let of = |text: &str| {
            std::fs::write(dir.join("online"), text).unwrap();
            online_cpus(root.path())
        };
        assert_eq!(of("0-2,5,7-8\n").unwrap(), [0, 1, 2, 5, 7, 8]);
        assert_eq!(of("0\n").unwrap(), [0]);
        for bad in ["", "a-b", "0-2,x", "4294967296"] {
            assert!(of(bad).unwrap_err().to_string().contains("cpu/online"), "{bad}");
        }
    }
}
