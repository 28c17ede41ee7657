//! Names of kernel functions in samples.

use super::kallsyms::{Kallsyms, KallsymsReader};
use super::retpoline;
use super::table::NameTable;
use fathom_model::watch::Unavailable;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of addresses cached.
const ADDRESSES: usize = 1 << 16;
/// Minimum time between reads of the symbols, which change when modules are loaded.
const RELOAD: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct KernelNames {
    proc_root: PathBuf,
    table: Arc<Kallsyms>,
    read_at: Option<Instant>,
    /// How long samples may be deferred until the symbols have been read.
    patience: Duration,
    reader: Option<KallsymsReader>,
    /// Thread ID of the reader, kept after it exits.
    reader_tid: Option<i32>,
    reader_ns: u64,
    known: HashMap<u64, u32>,
    interrupts: HashSet<u32>,
    entries: HashSet<u32>,
    ids: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Chain<'a> {
    pub ids: &'a [u32],
    pub interrupted: bool,
}

impl KernelNames {
    /// Reads the symbols at once, unless this program has before, so that other samplers are not delayed later, or defers
    /// this if `patience` allows. `Unavailable` if they are hidden from this user.
    pub fn open(proc_root: &Path, patience: Duration) -> (Self, Option<Unavailable>) {
        let (table, read_at) = Kallsyms::last(proc_root).unzip();
        let mut this = Self {
            proc_root: proc_root.into(),
            table: table.unwrap_or_default(),
            read_at,
            patience,
            reader: None,
            reader_tid: None,
            reader_ns: 0,
            known: HashMap::new(),
            interrupts: HashSet::new(),
            entries: HashSet::new(),
            ids: Vec::new(),
        };
        let missing = hidden(proc_root);
        if missing.is_none() && patience.is_zero() && read_at.is_none() {
            this.read();
        }
        (this, missing)
    }

    /// Whether names can be resolved. Starts the deferred reader if it is not running.
    pub fn is_ready(&mut self) -> bool {
        if self.read_at.is_some() || self.patience.is_zero() {
            return true;
        }
        match &self.reader {
            // If no thread can be created, symbols are read on first use.
            None => match KallsymsReader::start(&self.proc_root) {
                Ok(reader) => {
                    self.reader_tid = Some(reader.tid);
                    self.reader = Some(reader);
                }
                Err(_) => self.patience = Duration::ZERO,
            },
            Some(reader) if reader.is_done() || reader.began.elapsed() >= self.patience => {
                self.finish();
            }
            Some(_) => {}
        }
        self.reader.is_none()
    }

    pub fn finish(&mut self) {
        self.patience = Duration::ZERO;
        if let Some(reader) = self.reader.take() {
            let (table, ns) = reader.finish();
            self.table = table.unwrap_or_default().share(&self.proc_root);
            self.reader_ns += ns;
            self.read_at = Some(Instant::now());
        }
    }

    pub fn is_reader(&self, tid: i32) -> bool {
        self.reader_tid == Some(tid)
    }

    pub fn take_reader_ns(&mut self) -> u64 {
        std::mem::take(&mut self.reader_ns)
    }

    /// The names of a chain, innermost first. For a chain that ends at a retpoline, `registers` (if
    /// sampled) give the call target.
    pub fn ids(&mut self, chain: &[u64], registers: &[u64], names: &mut NameTable) -> Chain<'_> {
        self.ids.clear();
        for (at, address) in chain.iter().enumerate() {
            // Callers' addresses are return addresses, which may lie after the function's end.
            let id = self.id(address.wrapping_sub(u64::from(at > 0)), names);
            self.ids.push(id);
        }
        if let [only] = self.ids[..]
            && let Some(target) = retpoline::target(names.name(only), registers)
        {
            let target = self.id(target, names);
            self.ids.insert(0, target);
        }
        self.chain(0)
    }

    /// Like [`KernelNames::ids`], for the context that was interrupted when the chain was recorded.
    pub fn ids_before_interrupt(&mut self, chain: &[u64], names: &mut NameTable) -> Chain<'_> {
        self.ids(chain, &[], names);
        let entry = self.ids.iter().position(|id| self.entries.contains(id));
        self.chain(entry.map_or(0, |at| at + 1))
    }

    fn chain(&self, from: usize) -> Chain<'_> {
        let ids = &self.ids[from..];
        Chain { ids, interrupted: ids.iter().any(|id| self.interrupts.contains(id)) }
    }

    fn id(&mut self, address: u64, names: &mut NameTable) -> u32 {
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
        if is_entry(name) {
            self.entries.insert(id);
        }
        if self.known.len() >= ADDRESSES {
            self.known.clear();
        }
        self.known.insert(address, id);
        id
    }

    fn read(&mut self) {
        if self.read_at.is_none_or(|at| at.elapsed() >= RELOAD) {
            // On failure the previous table is kept.
            if let Ok(table) = Kallsyms::read(&self.proc_root) {
                self.table = table.share(&self.proc_root);
            }
            self.read_at = Some(Instant::now());
        }
    }
}

/// Whether a function is an interrupt entry point of x86 or arm64: its callers were interrupted.
fn is_entry(name: &str) -> bool {
    ["asm_common_interrupt", "el1h_64_irq", "el0t_64_irq"].contains(&name)
        || name.starts_with("asm_sysvec_")
}

fn hidden(proc_root: &Path) -> Option<Unavailable> {
    let why = match Kallsyms::shown(proc_root) {
        Ok(true) => return None,
        Ok(false) => "addresses are hidden from this user".into(),
        Err(error) => error.to_string(),
    };
    Some(Unavailable {
        source: "names of kernel functions".into(),
        reason: format!("{}: {why}", proc_root.join("kallsyms").display()),
        remedy: "run as root or with CAP_SYSLOG, or set kernel.kptr_restrict to 0".into(),
    })
}

/// Whether a function only occurs in interrupts or softirqs of x86 or arm64.
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
    fn chains_are_resolved_and_interrupts_detected() {
        let proc = tempfile::tempdir().unwrap();
        let text = "1000 T do_idle\n2000 T handle_softirqs\n3000 t ends_in_a_call\n3010 t next\n";
        std::fs::write(proc.path().join("kallsyms"), text).unwrap();
        let ((mut kernel, missing), mut names) =
            (KernelNames::open(proc.path(), Duration::ZERO), NameTable::new());
        assert_eq!(missing, None);
        std::fs::remove_file(proc.path().join("kallsyms")).unwrap();
        let chain = kernel.ids(&[0x3010, 0x3010, 0x1004], &[], &mut names);
        let found: Vec<&str> = chain.ids.iter().map(|id| names.name(*id)).collect();
        assert_eq!((found, chain.interrupted), (vec!["next", "ends_in_a_call", "do_idle"], false));
        assert!(kernel.ids(&[0x3010, 0x2004, 0x1004], &[], &mut names).interrupted);
        assert!(!kernel.ids(&[], &[], &mut names).interrupted);
    }

    #[test]
    fn retpolines_show_their_target() {
        let proc = tempfile::tempdir().unwrap();
        let text = "1000 T __x86_indirect_thunk_rbx\n2000 T io_nop\n3000 T io_issue_sqe\n";
        std::fs::write(proc.path().join("kallsyms"), text).unwrap();
        let (mut kernel, _) = KernelNames::open(proc.path(), Duration::ZERO);
        let mut names = NameTable::new();
        let mut found = |chain: &[u64], registers: &[u64]| {
            let ids = kernel.ids(chain, registers, &mut names).ids.to_vec();
            ids.iter().map(|id| names.name(*id).to_string()).collect::<Vec<_>>().join(" ")
        };
        let registers = [0x3000, 0x2000];
        assert_eq!(found(&[0x1004], &registers), "io_nop __x86_indirect_thunk_rbx");
        assert_eq!(found(&[0x1004], &[]), "__x86_indirect_thunk_rbx");
        assert_eq!(found(&[0x1004, 0x3004], &registers), "__x86_indirect_thunk_rbx io_issue_sqe");
        assert_eq!(found(&[0x2004], &registers), "io_nop");
    }

    #[test]
    fn the_interrupted_context_excludes_the_interrupt() {
        let proc = tempfile::tempdir().unwrap();
        let text = "1000 T do_idle\n2000 T handle_softirqs\n3000 t asm_sysvec_apic_timer_interrupt\n\
            4000 t hrtimer_interrupt\n5000 t asm_common_interrupt\n6000 t vfs_read\n";
        std::fs::write(proc.path().join("kallsyms"), text).unwrap();
        let (mut kernel, _) = KernelNames::open(proc.path(), Duration::ZERO);
        let mut names = NameTable::new();
        let mut before = |chain: &[u64]| {
            let chain = kernel.ids_before_interrupt(chain, &mut names);
            let found: Vec<String> =
                chain.ids.iter().map(|id| names.name(*id).to_string()).collect();
            (found.join(" "), chain.interrupted)
        };
        assert_eq!(before(&[0x4004, 0x3004, 0x6004]), ("vfs_read".into(), false));
        assert_eq!(before(&[0x4004, 0x3004]), (String::new(), false), "user mode");
        // The tick interrupted a softirq at the end of another interrupt of an idle CPU.
        let nested = [0x4004, 0x3004, 0x2004, 0x5004, 0x1004];
        let expected = "handle_softirqs asm_common_interrupt do_idle".to_string();
        assert_eq!(before(&nested), (expected, true));
        // A chain without an entry point is left as it is.
        assert_eq!(before(&[0x4004]), ("hrtimer_interrupt".into(), false));
    }

    #[test]
    fn reading_may_be_deferred() {
        let mut names = NameTable::new();
        // Until the reader is done; not at all; until finish().
        for (patience_ms, polls) in [(20, usize::MAX), (0, 1), (3_600_000, 1)] {
            let proc = tempfile::tempdir().unwrap();
            std::fs::write(proc.path().join("kallsyms"), "1000 T do_idle\n").unwrap();
            let patience = Duration::from_millis(patience_ms);
            let (mut kernel, _) = KernelNames::open(proc.path(), patience);
            while !kernel.is_ready() && polls > 1 {
                std::thread::sleep(Duration::from_millis(1));
            }
            kernel.finish();
            assert!(kernel.is_ready());
            let id = kernel.ids(&[0x1004], &[], &mut names).ids[0];
            assert_eq!(names.name(id), "do_idle");
            assert_eq!(kernel.take_reader_ns() > 0, patience_ms > 0);
            assert!(!kernel.is_reader(1));
        }
    }

    #[test]
    fn symbols_that_were_read_are_not_read_again() {
        let proc = tempfile::tempdir().unwrap();
        std::fs::write(proc.path().join("kallsyms"), "1000 T do_idle\n").unwrap();
        // Another test may read its own between the two.
        let again = || {
            KernelNames::open(proc.path(), Duration::ZERO);
            let kernel = KernelNames::open(proc.path(), Duration::from_secs(3600)).0;
            kernel.read_at.is_some().then_some(kernel)
        };
        let mut kernel = std::iter::repeat_with(again).flatten().next().unwrap();
        assert!(kernel.is_ready() && kernel.reader.is_none());
        let mut names = NameTable::new();
        let id = kernel.ids(&[0x1004], &[], &mut names).ids[0];
        assert_eq!((names.name(id), kernel.take_reader_ns()), ("do_idle", 0));
    }

    #[test]
    fn hidden_symbols_are_missing() {
        let proc = tempfile::tempdir().unwrap();
        std::fs::write(proc.path().join("kallsyms"), "0000 T do_idle\n").unwrap();
        let ((mut kernel, missing), mut names) =
            (KernelNames::open(proc.path(), Duration::ZERO), NameTable::new());
        let id = kernel.ids(&[0xffff_8000_0000_0000], &[], &mut names).ids[0];
        assert_eq!(names.name(id), "[unknown]");
        let missing = missing.unwrap().to_string();
        assert!(missing.contains("kallsyms: addresses are hidden"), "{missing}");
        let missing =
            KernelNames::open(Path::new("/nowhere"), Duration::ZERO).1.unwrap().to_string();
        assert!(missing.contains("/nowhere/kallsyms"), "{missing}");
    }
}
