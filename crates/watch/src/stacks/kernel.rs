//! Kernel functions of samples, by number.

use super::kallsyms::Kallsyms;
use super::table::Names;
use fathom_model::watch::Missing;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Addresses that are remembered.
const ADDRESSES: usize = 1 << 16;
/// Between two looks for functions that came later, as those of modules do.
const RELOAD: Duration = Duration::from_secs(60);

/// Names of kernel addresses.
#[derive(Debug)]
pub(super) struct KernelNames {
    proc_root: PathBuf,
    /// Read when the first sample is there, so that beginning costs nothing.
    table: Kallsyms,
    read_at: Option<Instant>,
    known: HashMap<u64, u32>,
    /// Names that only stand in chains of interrupts.
    interrupts: HashSet<u32>,
    ids: Vec<u32>,
}

/// Functions of one chain.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    /// Numbers of names, innermost first.
    pub ids: &'a [u32],
    /// Whether an interrupt is part of it.
    pub interrupted: bool,
}

impl KernelNames {
    pub fn new(proc_root: &Path) -> Self {
        Self {
            proc_root: proc_root.into(),
            table: Kallsyms::default(),
            read_at: None,
            known: HashMap::new(),
            interrupts: HashSet::new(),
            ids: Vec::new(),
        }
    }

    /// The names of a chain, innermost first.
    pub fn ids(&mut self, chain: &[u64], names: &mut Names) -> Chain<'_> {
        self.ids.clear();
        for (at, address) in chain.iter().enumerate() {
            // Callers' addresses are those to return to, which may lie behind their function's end.
            let id = self.id(address.wrapping_sub(u64::from(at > 0)), names);
            self.ids.push(id);
        }
        let interrupted = self.ids.iter().any(|id| self.interrupts.contains(id));
        Chain { ids: &self.ids, interrupted }
    }

    fn id(&mut self, address: u64, names: &mut Names) -> u32 {
        if let Some(id) = self.known.get(&address) {
            return *id;
        }
        if self.table.name(address).is_none() {
            self.read();
        }
        let name = self.table.name(address).unwrap_or("[unknown]");
        let id = names.id(name);
        if is_interrupt(name) {
            self.interrupts.insert(id);
        }
        if self.known.len() >= ADDRESSES {
            self.known.clear();
        }
        self.known.insert(address, id);
        id
    }

    fn read(&mut self) {
        if self.read_at.is_none_or(|at| at.elapsed() >= RELOAD) {
            // What could be read before is better than nothing.
            self.table = Kallsyms::read(&self.proc_root).unwrap_or(std::mem::take(&mut self.table));
            self.read_at = Some(Instant::now());
        }
    }
}

/// Whether the names of kernel functions are hidden from this user.
pub(super) fn hidden(proc_root: &Path) -> Option<Missing> {
    let why = match Kallsyms::shown(proc_root) {
        Ok(true) => return None,
        Ok(false) => "it shows no addresses to this user".into(),
        Err(error) => error.to_string(),
    };
    Some(Missing {
        what: "names of kernel functions".into(),
        why: format!("{}: {why}", proc_root.join("kallsyms").display()),
        allow: "run as root, or with CAP_SYSLOG, or set kernel.kptr_restrict to 0".into(),
    })
}

/// Whether a function is one through which interrupts of x86 or arm64 come, or their softirqs.
fn is_interrupt(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "handle_softirqs",
        "__do_softirq",
        "do_softirq",
        "__irq_exit_rcu",
        "common_interrupt",
        "asm_common_interrupt",
        "__handle_irq_event_percpu",
        "el1_interrupt",
        "el1h_64_irq_handler",
    ];
    NAMES.contains(&name) || name.starts_with("sysvec_") || name.starts_with("asm_sysvec_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_have_names_and_interrupts_show() {
        let proc = tempfile::tempdir().unwrap();
        let text = "1000 T do_idle\n2000 T handle_softirqs\n3000 t ends_in_a_call\n3010 t next\n";
        std::fs::write(proc.path().join("kallsyms"), text).unwrap();
        let (mut kernel, mut names) = (KernelNames::new(proc.path()), Names::new());
        let chain = kernel.ids(&[0x3010, 0x3010, 0x1004], &mut names);
        let found: Vec<&str> = chain.ids.iter().map(|id| names.name(*id)).collect();
        assert_eq!((found, chain.interrupted), (vec!["next", "ends_in_a_call", "do_idle"], false));
        assert!(kernel.ids(&[0x3010, 0x2004, 0x1004], &mut names).interrupted);
        assert!(!kernel.ids(&[], &mut names).interrupted);
        assert_eq!(hidden(proc.path()), None);
    }

    #[test]
    fn hidden_names_are_missing() {
        let proc = tempfile::tempdir().unwrap();
        std::fs::write(proc.path().join("kallsyms"), "0000 T do_idle\n").unwrap();
        let (mut kernel, mut names) = (KernelNames::new(proc.path()), Names::new());
        let id = kernel.ids(&[0xffff_8000_0000_0000], &mut names).ids[0];
        assert_eq!(names.name(id), "[unknown]");
        let missing = hidden(proc.path()).unwrap().to_string();
        assert!(missing.contains("kallsyms: it shows no addresses"), "{missing}");
        let missing = hidden(Path::new("/nowhere")).unwrap().to_string();
        assert!(missing.contains("/nowhere/kallsyms"), "{missing}");
    }
}
