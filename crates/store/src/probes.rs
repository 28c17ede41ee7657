//! What sampling costs on this machine: `probes.json` beside the runs, measured once per boot.

use crate::dir::{HeldDir, Readers};
use crate::run_dir::state_dir;
use fathom_model::watch::MachineProbes;
use std::path::Path;

const FILE: &str = "probes.json";
/// Longer files are not fathom's.
const BYTES_MAX: u64 = 1 << 16;

/// What was measured in the boot `boot_id`, as far as it is stored; otherwise nothing is known.
pub fn load_probes(boot_id: &str) -> MachineProbes {
    let stored = state_dir("").ok().and_then(|dir| load(&dir));
    let of_boot = |probes: &MachineProbes| !boot_id.is_empty() && probes.boot_id == boot_id;
    let none = || MachineProbes { boot_id: boot_id.into(), ..MachineProbes::default() };
    stored.filter(of_boot).unwrap_or_else(none)
}

/// Stores results; replaces those of an earlier boot.
pub fn save_probes(probes: &MachineProbes) -> Result<(), String> {
    save(&state_dir("")?, probes)
}

fn load(dir: &Path) -> Option<MachineProbes> {
    let bytes = HeldDir::open(dir).ok()?.read(FILE, BYTES_MAX).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn save(dir: &Path, probes: &MachineProbes) -> Result<(), String> {
    let text = serde_json::to_vec_pretty(probes).map_err(|e| format!("cannot write JSON: {e}"))?;
    let failed = |error| format!("cannot write {error}");
    let (dir, mut new) = HeldDir::make_all(dir).map_err(failed)?;
    dir.replace(FILE, &text, Readers::Owner).map_err(failed)?;
    new.keep();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::CountingCost;

    #[test]
    fn probes_are_stored_and_damage_is_ignored() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("state/fathom");
        assert_eq!(load(&dir), None);
        let cost = CountingCost { without_ns: 1800.0, added_ns: 5300.0 };
        let probes = MachineProbes {
            boot_id: "b".into(),
            cpu_counting: Some(cost),
            timer_interrupt_ns: Some(4000.0),
            ..MachineProbes::default()
        };
        save(&dir, &probes).unwrap();
        assert_eq!(load(&dir), Some(probes.clone()));
        save(&dir, &MachineProbes { boot_id: "c".into(), ..MachineProbes::default() }).unwrap();
        assert_eq!(load(&dir).unwrap().cpu_counting, None);
        std::fs::write(dir.join(FILE), "{").unwrap();
        assert_eq!(load(&dir), None);
        // Without the ID of the boot, nothing applies.
        assert_eq!(load_probes("").timer_interrupt_ns, None);
    }
}
