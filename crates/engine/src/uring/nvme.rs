//! NVMe commands other than plain reads, writes and flushes: `write_mode`, `readfua`, `writefua`, and deallocation.

use super::mode::{Mode, NVME_WRITE, Passthrough, TargetView};
use super::ring::Sqe;
use crate::error::{EngineError, Operation};
use crate::files::{FileKind, OpenFile};
use crate::nvme;
use crate::queue::{Op, Request};
use crate::source::{RangeTable, below};
use crc::{CRC_16_T10_DIF, Crc, Table};
use fathom_model::Dir;
use fathom_model::facts::NvmeMetadata;
use fathom_model::plan::{Directive, NvmeCommands, PlacementSelect, Protection, WriteMode};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::rc::Rc;

const NVME_WRITE_UNCORRECTABLE: u8 = 4;
const NVME_WRITE_ZEROES: u8 = 8;
const NVME_DATASET_MANAGEMENT: u8 = 9;
const NVME_VERIFY: u8 = 12;
const NVME_ZONE_APPEND: u8 = 0x7d;
/// As in fio, a job uses no more of those that a device lists.
const PLACEMENTS_MAX: usize = 128;
/// Bits of command dword 12.
const FORCE_UNIT_ACCESS: u64 = 1 << 30;
const DEALLOCATE: u64 = 1 << 25;
/// The controller adds and removes protection information, and what it checks of it.
const ACTION: u64 = 1 << 29;
const CHECK_GUARD: u64 = 1 << 28;
const CHECK_APPLICATION: u64 = 1 << 27;
const CHECK_REFERENCE: u64 = 1 << 26;
/// Bytes of protection information with a checksum of 16 bits (NVM Command Set Specification, Protection Information).
const TUPLE: usize = 8;
/// The application tag of blocks that are not checked, such as those never written.
const UNCHECKED: u16 = 0xffff;
static GUARD: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_T10_DIF);
/// Attribute of Dataset Management, in command dword 11.
const ATTRIBUTE_DEALLOCATE: u64 = 4 << 32;

pub(crate) struct Commands {
    inner: Passthrough,
    plan: NvmeCommands,
    /// Length of the zones that writes are appended to.
    zone_bytes: u64,
    /// The placements that writes to each file may have, and the number of the next.
    placed: Vec<(Vec<u16>, usize)>,
    random: Xoshiro256PlusPlus,
    /// Where the source puts the ranges of a deallocation that has several.
    table: Option<Rc<RangeTable>>,
    /// The ranges of each slot as the command has them, and how many.
    ranges: Vec<Vec<[u64; 2]>>,
    /// The metadata of each slot's blocks, where they are transferred, and what to check of them when they are read.
    metadata: Vec<Vec<u8>>,
    reads: Vec<Option<Protected>>,
}

/// Blocks in memory, and their metadata's format.
#[derive(Clone, Copy)]
struct Protected {
    address: u64,
    bytes: u32,
    lba_bytes: u32,
    /// The first one's address on the disk.
    lba: u64,
    format: NvmeMetadata,
}

impl Protected {
    /// The data of each block.
    fn blocks(&self) -> impl Iterator<Item = &[u8]> {
        // SAFETY: a request's buffer is mapped as long as the queue, and nobody else writes it between the request's
        // preparation and its completion being reported.
        let all =
            unsafe { std::slice::from_raw_parts(self.address as *const u8, self.bytes as usize) };
        all.chunks_exact(self.lba_bytes as usize)
    }

    /// Where the protection information is in a block's metadata.
    fn at(&self) -> usize {
        if self.format.leads { 0 } else { usize::from(self.format.bytes) - TUPLE }
    }

    /// The checksum of a block, and of the metadata before it.
    fn guard(&self, block: &[u8], metadata: &[u8]) -> [u8; 2] {
        let mut digest = GUARD.digest();
        digest.update(block);
        digest.update(&metadata[..self.at()]);
        digest.finalize().to_be_bytes()
    }

    fn reference(&self, index: usize) -> [u8; 4] {
        (self.lba as u32).wrapping_add(index as u32).to_be_bytes()
    }

    /// Type 3 does not define reference tags.
    fn has_references(&self) -> bool {
        self.format.protection < 3
    }

    fn write(&self, plan: &Protection, metadata: &mut [u8]) {
        let of_blocks = metadata.chunks_exact_mut(self.format.bytes.into());
        for (index, (block, metadata)) in self.blocks().zip(of_blocks).enumerate() {
            let guard = self.guard(block, metadata);
            let tuple = &mut metadata[self.at()..][..TUPLE];
            tuple[..2].copy_from_slice(&guard);
            tuple[2..4].copy_from_slice(&plan.tag.to_be_bytes());
            let reference = if self.has_references() { self.reference(index) } else { [0; 4] };
            tuple[4..].copy_from_slice(&reference);
        }
    }

    /// Whether what was read is as `plan` expects it.
    fn holds(&self, plan: &Protection, metadata: &[u8]) -> bool {
        let of_blocks = metadata.chunks_exact(self.format.bytes.into());
        self.blocks().zip(of_blocks).enumerate().all(|(index, (block, metadata))| {
            let tuple = &metadata[self.at()..][..TUPLE];
            let tag = u16::from_be_bytes([tuple[2], tuple[3]]);
            let is_unchecked =
                tag == UNCHECKED && (self.has_references() || tuple[4..] == [0xff; 4]);
            is_unchecked
                || (!plan.guard || tuple[..2] == self.guard(block, metadata))
                    && (!plan.application || (tag ^ plan.tag) & plan.mask == 0)
                    && (!plan.reference
                        || !self.has_references()
                        || tuple[4..] == self.reference(index))
        })
    }
}

/// The placements that writes to each of `files` may have.
pub(crate) fn placements(
    plan: &NvmeCommands,
    files: &[OpenFile],
) -> Result<Vec<Vec<u16>>, EngineError> {
    let Some(plan) = &plan.placement else { return Ok(Vec::new()) };
    let of_file = |file: &OpenFile| match (plan.directive, file.kind) {
        (Directive::Placement, FileKind::NvmeGeneric { nsid, .. }) => {
            let failed = |error: std::io::Error| {
                EngineError::by_kernel(Operation::ReadPlacements, &error).on(&file.path)
            };
            let listed = nvme::placements(file.raw(), nsid).map_err(failed)?;
            chosen(&plan.ids, &listed).map_err(|error| error.on(&file.path))
        }
        _ => Ok(plan.ids.clone()),
    };
    files.iter().map(of_file).collect()
}

/// Those of the placements `listed` by a device that these indices name, or all.
fn chosen(indices: &[u16], listed: &[u16]) -> Result<Vec<u16>, EngineError> {
    let count = listed.len();
    if indices.is_empty() && count > 0 {
        return Ok(listed.iter().take(PLACEMENTS_MAX).copied().collect());
    }
    let of = |index: &u16| listed.get(usize::from(*index)).copied();
    let missing =
        indices.iter().find(|index| of(index).is_none()).or(indices.is_empty().then_some(&0));
    match missing {
        Some(index) => Err(EngineError::new(Operation::UsePlacement { index: *index, count })),
        None => Ok(indices.iter().filter_map(of).collect()),
    }
}

impl Commands {
    pub fn apply(plan: &NvmeCommands, files: &[OpenFile], trims: bool) -> bool {
        let has_metadata =
            |file: &OpenFile| matches!(file.kind, FileKind::NvmeGeneric { metadata: Some(_), .. });
        trims || *plan != NvmeCommands::default() || files.iter().any(has_metadata)
    }

    pub fn new(
        slots: u32,
        plan: &NvmeCommands,
        zone_bytes: u64,
        table: Option<Rc<RangeTable>>,
        seed: u64,
    ) -> Self {
        let most = plan.ranges.max(1) as usize;
        Self {
            inner: Passthrough::new(slots),
            plan: plan.clone(),
            zone_bytes,
            placed: Vec::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            table,
            ranges: (0..slots).map(|_| Vec::with_capacity(most)).collect(),
            metadata: vec![Vec::new(); slots as usize],
            reads: vec![None; slots as usize],
        }
    }

    /// Gives writes to each file these placements, as [`placements`] finds them.
    pub fn placing(self, ids: Vec<Vec<u16>>) -> Self {
        Self { placed: ids.into_iter().map(|ids| (ids, 0)).collect(), ..self }
    }

    /// Type of the directive of a write, in dword 12, and its identifier, in dword 13.
    fn directive(&mut self, request: &Request) -> u64 {
        let Some(plan) = &self.plan.placement else { return 0 };
        let kind: u64 = match plan.directive {
            Directive::Streams => 1,
            Directive::Placement => 2,
        };
        let id = match (plan.select, self.placed.get_mut(request.file as usize)) {
            (PlacementSelect::ByOffset, _) => {
                let at = request.offset;
                let holds = |(start, end, _): &&(u64, u64, u16)| (*start..*end).contains(&at);
                plan.by_offset.iter().find(holds).map(|range| range.2)
            }
            (PlacementSelect::RoundRobin, Some((ids, next))) => {
                let id = ids.get(*next).copied();
                *next = (*next + 1) % ids.len().max(1);
                id
            }
            (PlacementSelect::Random, Some((ids, _))) => {
                ids.get(below(&mut self.random, ids.len() as u64) as usize).copied()
            }
            (_, None) => None,
        };
        kind << 20 | u64::from(id.unwrap_or(0)) << 48
    }

    fn write_mode(&mut self) -> WriteMode {
        let modes = &self.plan.write_modes;
        let Some((last, _)) = modes.last() else { return WriteMode::Write };
        let mut pick = if modes.len() > 1 { below(&mut self.random, 100) as u32 } else { 0 };
        for (mode, percent) in modes {
            if pick < *percent {
                return *mode;
            }
            pick -= percent;
        }
        *last
    }

    /// Bits of dword 12 for a write.
    fn write_bits(&self, mode: WriteMode) -> u64 {
        // As in fio, in a mix only plain writes have it.
        let fua =
            self.plan.write_fua && (mode == WriteMode::Write || self.plan.write_modes.len() == 1);
        let deallocate = self.plan.deallocate && mode == WriteMode::Zeroes;
        let bit = |on: bool, bit: u64| if on { bit } else { 0 };
        bit(fua, FORCE_UNIT_ACCESS) | bit(deallocate, DEALLOCATE)
    }

    /// Puts the ranges of a deallocation into the slot; `None` if they are not whole blocks.
    fn fill_ranges(&mut self, slot: u32, lba_bytes: u32, request: &Request) -> Option<()> {
        let ranges = &mut self.ranges[slot as usize];
        let whole = |offset: u64, len: u32| {
            let whole =
                len.is_multiple_of(lba_bytes) && offset.is_multiple_of(u64::from(lba_bytes));
            let blocks = u64::from(len / lba_bytes) << 32;
            (whole && len > 0).then_some([blocks, offset / u64::from(lba_bytes)])
        };
        match &self.table {
            // A request that is repeated has its ranges already.
            Some(_) if request.buffer_offset == 0 => {}
            Some(table) => {
                ranges.clear();
                for (offset, len) in table.of(request.buffer_offset) {
                    ranges.push(whole(offset, len)?);
                }
            }
            None => {
                ranges.clear();
                ranges.push(whole(request.offset, request.len)?);
            }
        }
        Some(())
    }

    fn deallocate(&mut self, words: [[u64; 8]; 2], slot: u32) -> [[u64; 8]; 2] {
        let [mut entry, mut rest] = words;
        let ranges = &self.ranges[slot as usize];
        (entry[3], entry[5]) = (0, 0);
        entry[6] = entry[6] & !0xff | u64::from(NVME_DATASET_MANAGEMENT);
        rest[1] = ranges.as_ptr() as u64;
        rest[2] = (ranges.len() as u64 * 16) << 32;
        rest[3] = (ranges.len() as u64).saturating_sub(1) | ATTRIBUTE_DEALLOCATE;
        rest[4] = 0;
        self.inner.expect(slot, 0);
        [entry, rest]
    }

    fn command(&mut self, target: &TargetView<'_>, slot: u32, request: &Request) -> [[u64; 8]; 2] {
        if request.op != Op::Io(Dir::Trim) {
            return self.transfer(target, slot, request);
        }
        let FileKind::NvmeGeneric { lba_bytes, .. } = target.files[request.file as usize].kind
        else {
            return Passthrough::INVALID;
        };
        self.reads[slot as usize] = None;
        if lba_bytes == 0 || self.fill_ranges(slot, lba_bytes, request).is_none() {
            return Passthrough::INVALID;
        }
        // Namespace and addressing are those of any command; offset and length are in the ranges.
        let any = Request { op: Op::Fsync, buffer_offset: 0, ..*request };
        let words = self.inner.entry(target, slot, &any);
        self.deallocate(words, slot)
    }

    fn transfer(&mut self, target: &TargetView<'_>, slot: u32, request: &Request) -> [[u64; 8]; 2] {
        let [mut entry, mut rest] = self.inner.entry(target, slot, request);
        self.reads[slot as usize] = None;
        if [entry, rest] != Passthrough::INVALID {
            self.protect(&mut rest, target, slot, request);
        }
        match request.op {
            Op::Io(Dir::Read) if self.plan.read_fua => rest[4] |= FORCE_UNIT_ACCESS,
            Op::Io(Dir::Write) => {
                let mode = self.write_mode();
                rest[4] |= self.write_bits(mode) | self.directive(request);
                let opcode = match mode {
                    WriteMode::Write => return [entry, rest],
                    WriteMode::Zeroes => NVME_WRITE_ZEROES,
                    WriteMode::Uncorrectable => NVME_WRITE_UNCORRECTABLE,
                    WriteMode::Verify => NVME_VERIFY,
                    WriteMode::Append => {
                        self.append(&mut entry, &mut rest, target, request);
                        return [entry, rest];
                    }
                };
                if entry[6] as u8 != NVME_WRITE {
                    return [entry, rest];
                }
                // These transfer no data.
                (entry[3], entry[5]) = (0, 0);
                entry[6] = entry[6] & !0xff | u64::from(opcode);
                (rest[0], rest[1], rest[2]) = (0, 0, 0);
            }
            _ => {}
        }
        [entry, rest]
    }

    /// Makes a write append to its zone, which its address names by the first block.
    fn append(
        &self,
        entry: &mut [u64; 8],
        rest: &mut [u64; 8],
        target: &TargetView<'_>,
        request: &Request,
    ) {
        let FileKind::NvmeGeneric { lba_bytes, .. } = target.files[request.file as usize].kind
        else {
            return;
        };
        if entry[6] as u8 == NVME_WRITE {
            entry[6] = entry[6] & !0xff | u64::from(NVME_ZONE_APPEND);
            let into = request.offset % self.zone_bytes.max(1);
            rest[3] -= into / u64::from(lba_bytes);
        }
    }

    /// Adds to a read or write what the namespace's metadata and their protection need.
    fn protect(
        &mut self,
        rest: &mut [u64; 8],
        target: &TargetView<'_>,
        slot: u32,
        request: &Request,
    ) {
        let FileKind::NvmeGeneric { lba_bytes, metadata: Some(format), .. } =
            target.files[request.file as usize].kind
        else {
            return;
        };
        let Op::Io(dir) = request.op else { return };
        let plan = &self.plan.protection;
        let blocks = Protected {
            address: target.buffers.address(slot, request),
            bytes: request.len,
            lba_bytes,
            lba: request.offset / u64::from(lba_bytes),
            format,
        };
        let is_protected = format.protection > 0;
        if is_protected {
            let bit = |on: bool, bit: u64| if on { bit } else { 0 };
            rest[4] |= bit(!plan.by_host, ACTION)
                | bit(plan.guard, CHECK_GUARD)
                | bit(plan.application, CHECK_APPLICATION)
                | bit(plan.reference && blocks.has_references(), CHECK_REFERENCE);
            rest[5] = u64::from(blocks.lba as u32)
                | u64::from(plan.tag) << 32
                | u64::from(plan.mask) << 48;
        }
        if is_protected && !plan.by_host && usize::from(format.bytes) == TUPLE {
            return;
        }
        let metadata = &mut self.metadata[slot as usize];
        metadata.resize((request.len / lba_bytes) as usize * usize::from(format.bytes), 0);
        (rest[0], rest[2]) = (metadata.as_ptr() as u64, rest[2] | metadata.len() as u64);
        match dir {
            Dir::Write if is_protected && plan.by_host => blocks.write(plan, metadata),
            Dir::Read if is_protected && plan.by_host => self.reads[slot as usize] = Some(blocks),
            _ => {}
        }
    }
}

impl Mode for Commands {
    const WIDE: bool = true;

    fn encode(&mut self, sqe: &mut Sqe<'_>, target: &TargetView<'_>, slot: u32, request: &Request) {
        [*sqe.words(), *sqe.extension()] = self.command(target, slot, request);
    }

    fn result(&self, slot: u32, result: i32) -> i32 {
        let read = self.reads.get(slot as usize).copied().flatten().filter(|_| result == 0);
        let metadata = || &self.metadata[slot as usize];
        match read {
            Some(read) if !read.holds(&self.plan.protection, metadata()) => -libc::EILSEQ,
            _ => self.inner.result(slot, result),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mode::RingTarget;
    use super::*;
    use crate::buffers::Slab;
    use crate::files::OpenFile;
    use fathom_model::plan::Buffers;

    fn encoded(commands: &mut Commands, request: Request) -> [[u64; 8]; 2] {
        encoded_with(commands, request, None)
    }

    fn encoded_with(
        commands: &mut Commands,
        request: Request,
        metadata: Option<NvmeMetadata>,
    ) -> [[u64; 8]; 2] {
        let slab = Slab::new(1, 4096, &Buffers::default()).unwrap();
        let kind = FileKind::NvmeGeneric { nsid: 3, lba_bytes: 512, metadata };
        let fd = tempfile::tempfile().unwrap().into();
        let files = [OpenFile { fd, kind, path: "ng".into(), created: false, trims: None }];
        commands.command(&RingTarget::new(&files, &slab).view(), 0, &request)
    }

    fn request(dir: Dir) -> Request {
        Request { op: Op::Io(dir), file: 0, offset: 8192, len: 4096, buffer_offset: 0 }
    }

    #[test]
    fn a_deallocation_has_a_range_of_whole_blocks() {
        let mut commands = Commands::new(1, &NvmeCommands::default(), 0, None, 1);
        let [entry, rest] = encoded(&mut commands, request(Dir::Trim));
        assert_eq!((entry[6], rest[2], rest[3]), (9 | 3 << 32, 16 << 32, 4 << 32));
        assert_eq!(
            (commands.ranges[0][0], rest[1]),
            ([8 << 32, 16], commands.ranges[0].as_ptr() as u64)
        );
        assert_eq!(commands.result(0, 0), 0);
        let odd = Request { len: 4000, ..request(Dir::Trim) };
        assert_eq!(encoded(&mut commands, odd), Passthrough::INVALID);
    }

    #[test]
    fn a_deallocation_has_the_ranges_of_its_table() {
        let plan = NvmeCommands { ranges: 2, ..NvmeCommands::default() };
        let table = Rc::new(RangeTable::new(4, 2));
        let entry = table.put(&[(0, 512), (1 << 20, 4096)]);
        let mut commands = Commands::new(1, &plan, 0, Some(Rc::clone(&table)), 1);
        let trim = Request { buffer_offset: entry, ..request(Dir::Trim) };
        let [_, rest] = encoded(&mut commands, trim);
        assert_eq!((rest[2], rest[3]), (32 << 32, 1 | 4 << 32));
        assert_eq!(commands.ranges[0], [[1 << 32, 0], [8 << 32, 2048]]);
        for at in 0..8 {
            table.put(&[(at << 20, 512)]);
        }
        encoded(&mut commands, request(Dir::Trim));
        assert_eq!(commands.ranges[0], [[1 << 32, 0], [8 << 32, 2048]], "the same when repeated");
    }

    #[test]
    fn writes_are_the_commands_of_their_modes() {
        use WriteMode::{Uncorrectable, Verify, Write, Zeroes};
        let opcode = |mode, plan: NvmeCommands| {
            let plan = NvmeCommands { write_modes: vec![(mode, 100)], ..plan };
            let [entry, rest] =
                encoded(&mut Commands::new(1, &plan, 0, None, 1), request(Dir::Write));
            assert_eq!(rest[3], 16, "the first block");
            (entry[6] as u8, rest[2] >> 32, rest[4])
        };
        let plain = NvmeCommands::default;
        let fua = NvmeCommands { write_fua: true, deallocate: true, ..plain() };
        assert_eq!(opcode(Write, plain()), (1, 4096, 7));
        assert_eq!(opcode(Write, fua.clone()), (1, 4096, 7 | FORCE_UNIT_ACCESS));
        assert_eq!(opcode(Zeroes, plain()), (8, 0, 7));
        assert_eq!(opcode(Zeroes, fua), (8, 0, 7 | FORCE_UNIT_ACCESS | DEALLOCATE));
        assert_eq!(opcode(Uncorrectable, plain()), (4, 0, 7));
        assert_eq!(opcode(Verify, plain()), (12, 0, 7));
        let append = NvmeCommands { write_modes: vec![(WriteMode::Append, 100)], ..plain() };
        let mut commands = Commands::new(1, &append, 6144, None, 1);
        let [entry, rest] = encoded(&mut commands, request(Dir::Write));
        // From block 16 on, in the zone that begins with block 12.
        assert_eq!((entry[6] as u8, rest[2] >> 32, rest[3], rest[4]), (0x7d, 4096, 12, 7));
        assert_ne!(rest[1], 0, "with data");
        let read = NvmeCommands { read_fua: true, ..plain() };
        let [entry, rest] = encoded(&mut Commands::new(1, &read, 0, None, 1), request(Dir::Read));
        assert_eq!((entry[6] as u8, rest[4]), (2, 7 | FORCE_UNIT_ACCESS));
    }

    #[test]
    fn protected_blocks_are_checked_as_asked() {
        let format = NvmeMetadata { bytes: 8, protection: 1, ..NvmeMetadata::default() };
        let by_host = |tag| Protection {
            by_host: true,
            guard: true,
            reference: true,
            application: true,
            tag,
            ..Protection::default()
        };
        let plan = |protection| NvmeCommands { protection, ..NvmeCommands::default() };
        let mut commands = Commands::new(1, &plan(Protection::default()), 0, None, 1);
        let [_, rest] = encoded_with(&mut commands, request(Dir::Write), Some(format));
        // The controller adds it: nothing more is transferred.
        assert_eq!((rest[0], rest[2], rest[4]), (0, 4096 << 32, 7 | ACTION));
        assert_eq!(rest[5], 16 | 0x1234 << 32 | 0xffff << 48);

        let mut commands = Commands::new(1, &plan(by_host(0x1234)), 0, None, 1);
        let [_, rest] = encoded_with(&mut commands, request(Dir::Write), Some(format));
        assert_eq!((rest[2], rest[4] >> 26), (4096 << 32 | 64, 7));
        // The checksum of zeroes is 0.
        assert_eq!(commands.metadata[0][8..16], [0, 0, 0x12, 0x34, 0, 0, 0, 17]);

        let data = [b'1', b'2', b'3', b'4', b'5', b'6', b'7', b'8', b'9'];
        let read =
            Protected { address: data.as_ptr() as u64, bytes: 9, lba_bytes: 9, lba: 17, format };
        // The check value of the catalogue of CRCs.
        let good = [0xd0, 0xdb, 0x12, 0x34, 0, 0, 0, 17];
        assert!(read.holds(&by_host(0x1234), &good));
        for (at, byte) in [(0, 0), (3, 0), (7, 18)] {
            let mut bad = good;
            bad[at] = byte;
            assert!(!read.holds(&by_host(0x1234), &bad), "{at}");
        }
        assert!(read.holds(&by_host(0x1234), &[0, 0, 0xff, 0xff, 0, 0, 0, 0]), "never written");
        let masked = Protection { mask: 0xff00, ..by_host(0x1299) };
        assert!(read.holds(&masked, &good), "of the tag, the upper half");
    }

    #[test]
    fn writes_have_the_placement_that_is_their_turn() {
        use fathom_model::plan::DataPlacement;
        let commands = |placement| {
            let plan = NvmeCommands { placement: Some(placement), ..NvmeCommands::default() };
            assert!(Commands::apply(&plan, &[], false));
            Commands::new(1, &plan, 0, None, 1).placing(vec![vec![5, 0x8001]])
        };
        let dwords = |commands: &mut Commands, dir| encoded(commands, request(dir))[1][4];
        let placed = |id: u64, kind: u64| 7 | kind << 20 | id << 48;
        let mut turns = commands(DataPlacement::default());
        let three = [(); 3].map(|()| dwords(&mut turns, Dir::Write));
        assert_eq!(three, [placed(5, 2), placed(0x8001, 2), placed(5, 2)]);
        assert_eq!(dwords(&mut turns, Dir::Read), 7, "writes alone");
        let select = PlacementSelect::Random;
        let mut random = commands(DataPlacement { select, ..DataPlacement::default() });
        assert!([placed(5, 2), placed(0x8001, 2)].contains(&dwords(&mut random, Dir::Write)));
        let by_offset = |end| {
            let (directive, select) = (Directive::Streams, PlacementSelect::ByOffset);
            let by_offset = vec![(0, 4096, 1), (4096, end, 3)];
            let plan = DataPlacement { directive, select, by_offset, ..DataPlacement::default() };
            dwords(&mut commands(plan), Dir::Write)
        };
        assert_eq!((by_offset(8193), by_offset(8192)), (placed(3, 1), placed(0, 1)));
    }

    #[test]
    fn indices_are_those_of_the_list_of_the_device() {
        let chosen = |indices: &[u16], listed: &[u16]| chosen(indices, listed).map_err(|e| e.op);
        assert_eq!(chosen(&[], &[7, 8]), Ok(vec![7, 8]));
        assert_eq!(chosen(&[1, 0], &[7, 8]), Ok(vec![8, 7]));
        let beyond = Operation::UsePlacement { index: 2, count: 2 };
        assert_eq!(chosen(&[1, 2], &[7, 8]), Err(beyond));
        assert_eq!(chosen(&[], &[]), Err(Operation::UsePlacement { index: 0, count: 0 }));
    }

    #[test]
    fn a_mix_of_writes_follows_its_percentages() {
        let write_modes = vec![(WriteMode::Write, 70), (WriteMode::Zeroes, 30)];
        let plan = NvmeCommands { write_modes, ..NvmeCommands::default() };
        let mut commands = Commands::new(1, &plan, 0, None, 1);
        let zeroes = (0..10_000).filter(|_| commands.write_mode() == WriteMode::Zeroes).count();
        assert!(zeroes.abs_diff(3000) < 200, "{zeroes}");
    }
}
