//! A BPF assembler (Documentation/bpf/standardization/instruction-set.rst).

use super::btf::BtfField;

/// A register. Calls clobber `R1` to `R5`, preserve `R6` to `R8`, and return their result in `R0`.
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

#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    code: u8,
    /// Destination in the low nibble, source in the high nibble.
    registers: u8,
    offset: i16,
    value: i32,
}

/// A jump whose target is not known yet.
#[derive(Debug)]
pub(crate) struct Jump(usize);

#[derive(Debug, Default)]
pub(crate) struct Code(Vec<Instruction>);

impl Code {
    fn add(&mut self, code: u8, to: Reg, from: u8, offset: i16, value: i32) {
        let registers = to as u8 | from << 4;
        self.0.push(Instruction { code, registers, offset, value });
    }

    /// `to` = the `size` bytes (1, 2, 4 or 8) at `from` + `offset`.
    pub fn load(&mut self, to: Reg, from: Reg, offset: i16, size: u32) {
        let code = match size {
            1 => 0x71,
            2 => 0x69,
            4 => 0x61,
            _ => 0x79,
        };
        self.add(code, to, from as u8, offset, 0);
    }

    /// `to` = a field of the structure at `from`; `None` if its size or offset cannot be encoded.
    pub fn load_field(&mut self, to: Reg, from: Reg, field: BtfField) -> Option<()> {
        let is_number = matches!(field.size, 1 | 2 | 4 | 8);
        let offset = i16::try_from(field.offset).ok().filter(|_| is_number)?;
        self.load(to, from, offset, field.size);
        Some(())
    }

    /// The 8 bytes at `to` + `offset` = `from`.
    pub fn store(&mut self, to: Reg, offset: i16, from: Reg) {
        self.add(0x7b, to, from as u8, offset, 0);
    }

    pub fn copy(&mut self, to: Reg, from: Reg) {
        self.add(0xbf, to, from as u8, 0, 0);
    }

    pub fn set(&mut self, to: Reg, value: i32) {
        self.add(0xb7, to, 0, 0, value);
    }

    pub fn increase(&mut self, to: Reg, value: i32) {
        self.add(0x07, to, 0, 0, value);
    }

    /// `to` = the address of the value of the array map with descriptor `map`.
    pub fn address_of(&mut self, to: Reg, map: i32) {
        // BPF_PSEUDO_MAP_VALUE; the second half holds the offset within the value.
        self.add(0x18, to, 2, 0, map);
        self.add(0, Reg::R0, 0, 0, 0);
    }

    pub fn call(&mut self, helper: i32) {
        self.add(0x85, Reg::R0, 0, 0, helper);
    }

    /// Jumps to [`Code::land`] if `reg` is 0.
    pub fn jump_if_zero(&mut self, reg: Reg) -> Jump {
        self.add(0x15, reg, 0, 0, 0);
        Jump(self.0.len() - 1)
    }

    /// Sets the target of `jump` to the next instruction.
    pub fn land(&mut self, jump: Jump) {
        let distance = self.0.len() - jump.0 - 1;
        // Programs here have about a hundred instructions.
        self.0[jump.0].offset = distance as i16;
    }

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
    fn encoding_follows_the_specification() {
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
