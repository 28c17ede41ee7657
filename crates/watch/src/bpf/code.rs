//! Instructions, one after the other (Documentation/bpf/standardization/instruction-set.rst).

use super::btf::Field;

/// A register. `R1` to `R5` are lost in calls, `R6` to `R8` are not; `R0` is what a call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R6 = 6,
    R7,
    R8,
}

/// An instruction as the kernel takes it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    code: u8,
    /// Destination in the lower half, source in the upper one.
    registers: u8,
    offset: i16,
    value: i32,
}

/// A jump whose end is still to come.
#[must_use]
#[derive(Debug)]
pub(crate) struct Jump(usize);

/// Instructions, as they are put down.
#[derive(Debug, Default)]
pub(crate) struct Code(Vec<Instruction>);

impl Code {
    fn add(&mut self, code: u8, to: Reg, from: u8, offset: i16, value: i32) {
        let registers = to as u8 | from << 4;
        self.0.push(Instruction { code, registers, offset, value });
    }

    /// `to` = the `size` bytes at `from` + `offset`: 1, 2, 4 or 8 of them.
    pub fn load(&mut self, to: Reg, from: Reg, offset: i16, size: u32) {
        let code = match size {
            1 => 0x71,
            2 => 0x69,
            4 => 0x61,
            _ => 0x79,
        };
        self.add(code, to, from as u8, offset, 0);
    }

    /// `to` = the field of the structure to which `from` points; none where it is no number, or too far
    /// from its beginning.
    pub fn load_field(&mut self, to: Reg, from: Reg, field: Field) -> Option<()> {
        let is_number = matches!(field.size, 1 | 2 | 4 | 8);
        let offset = i16::try_from(field.offset).ok().filter(|_| is_number)?;
        self.load(to, from, offset, field.size);
        Some(())
    }

    /// The 8 bytes at `to` + `offset` = `from`.
    pub fn store(&mut self, to: Reg, offset: i16, from: Reg) {
        self.add(0x7b, to, from as u8, offset, 0);
    }

    /// `to` = `from`.
    pub fn copy(&mut self, to: Reg, from: Reg) {
        self.add(0xbf, to, from as u8, 0, 0);
    }

    /// `to` = `value`.
    pub fn set(&mut self, to: Reg, value: i32) {
        self.add(0xb7, to, 0, 0, value);
    }

    /// `to` += `value`.
    pub fn increase(&mut self, to: Reg, value: i32) {
        self.add(0x07, to, 0, 0, value);
    }

    /// `to` = the address of the first value of the array `map`, a descriptor.
    pub fn address_of(&mut self, to: Reg, map: i32) {
        // BPF_PSEUDO_MAP_VALUE; the second half holds the offset within the value.
        self.add(0x18, to, 2, 0, map);
        self.add(0, Reg::R0, 0, 0, 0);
    }

    /// Calls a helper of the kernel by its number.
    pub fn call(&mut self, helper: i32) {
        self.add(0x85, Reg::R0, 0, 0, helper);
    }

    /// Jumps where `reg` is 0, to [`Code::land`].
    pub fn jump_if_zero(&mut self, reg: Reg) -> Jump {
        self.add(0x15, reg, 0, 0, 0);
        Jump(self.0.len() - 1)
    }

    /// `jump` goes on here.
    pub fn land(&mut self, jump: Jump) {
        let distance = self.0.len() - jump.0 - 1;
        // Programs here are a hundred instructions long.
        self.0[jump.0].offset = distance as i16;
    }

    /// Returns 0.
    pub fn end(&mut self) {
        self.set(Reg::R0, 0);
        self.add(0x95, Reg::R0, 0, 0, 0);
    }

    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_those_of_the_manual() {
        let mut code = Code::default();
        code.load(Reg::R7, Reg::R6, 8, 8);
        let jump = code.jump_if_zero(Reg::R7);
        code.load(Reg::R1, Reg::R7, -4, 4);
        code.store(Reg::R8, 16, Reg::R1);
        code.land(jump);
        code.end();
        let bytes: Vec<[u8; 8]> = { code.instructions().iter() }
            .map(|i| {
                let ([o0, o1], [v0, v1, v2, v3]) = (i.offset.to_ne_bytes(), i.value.to_ne_bytes());
                [i.code, i.registers, o0, o1, v0, v1, v2, v3]
            })
            .collect();
        let expected: [[u8; 8]; 6] = [
            [0x79, 0x67, 8, 0, 0, 0, 0, 0],
            [0x15, 0x07, 2, 0, 0, 0, 0, 0],
            [0x61, 0x71, 0xfc, 0xff, 0, 0, 0, 0],
            [0x7b, 0x18, 16, 0, 0, 0, 0, 0],
            [0xb7, 0, 0, 0, 0, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        if cfg!(target_endian = "little") {
            assert_eq!(bytes, expected);
        }
    }
}
