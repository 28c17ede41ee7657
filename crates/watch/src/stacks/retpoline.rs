//! Call chains that end at a retpoline (arch/x86/lib/retpoline.S of the kernel): it modifies its
//! own return address, so the kernel cannot unwind through it (`UNWIND_HINT_UNDEFINED`). The call
//! target is in the register that gives the retpoline its name.

/// The sampled registers, as bits of `enum perf_event_x86_regs` (asm/perf_regs.h): those of
/// [`NAMES`].
pub(super) const REGISTERS: u64 = 0x00ff_007f;
/// In the order of a sample.
const NAMES: [&str; 15] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
];
pub(super) const COUNT: usize = NAMES.len();

/// The address that `function` is about to call, if it is a retpoline.
pub(super) fn target(function: &str, registers: &[u64]) -> Option<u64> {
    let (kind, name) = function.rsplit_once("_thunk_")?;
    if !kind.contains("__x86_indirect") {
        return None;
    }
    // The symbol of the whole array is an alias of its first entry.
    let at = NAMES.iter().position(|known| *known == name).or((name == "array").then_some(0))?;
    registers.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_register_gives_the_target() {
        let registers: Vec<u64> = (100..100 + COUNT as u64).collect();
        // Their bits; samples start with the lowest.
        let bits = [0, 1, 2, 3, 4, 5, 6].into_iter().chain(16..24);
        assert!(bits.clone().eq((0..64).filter(|bit| REGISTERS >> bit & 1 == 1)));
        assert_eq!(NAMES[..7].join(" "), "rax rbx rcx rdx rsi rdi rbp");
        assert!(bits.skip(7).zip(&NAMES[7..]).all(|(bit, name)| format!("r{}", bit - 8) == **name));
        let of = |function: &str| target(function, &registers);
        assert_eq!(of("__x86_indirect_thunk_rax"), Some(100));
        assert_eq!(of("__x86_indirect_thunk_array"), Some(100));
        assert_eq!(of("__pi___x86_indirect_thunk_rdi"), Some(105));
        assert_eq!(of("__x86_indirect_call_thunk_r15"), Some(114));
        assert_eq!(of("__x86_indirect_thunk_rsp"), None);
        assert_eq!(of("__x86_return_thunk"), None);
        assert_eq!(of("own_thunk_rax"), None);
        assert_eq!(target("__x86_indirect_thunk_rbx", &[]), None);
    }
}
