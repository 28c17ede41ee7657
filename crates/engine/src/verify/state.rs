//! fio's file that says which writes of a job took place (verify-state.h, version 7), so that another run verifies only these.

use super::checksum::crc32c;
use crate::error::{EngineError, Operation};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

const VERSION: u64 = 7;
/// Version, length of what follows, and its CRC-32C, in 8 bytes each.
const HEADER_BYTES: usize = 24;
/// Before the list of writes: depth, writes, number of the job, generator, name.
const FIXED_BYTES: usize = 144;
const NAME_AT: usize = 80;
/// Of a generator of 64 bits, in which state there is none.
const RAND_BYTES: usize = 56;
/// An entry of the list that is free.
const NONE: u64 = u64::MAX;
/// Longest file that is read: a million writes that failed.
const FILE_BYTES_MAX: usize = 8 << 20;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The writes with lower numbers took place.
    pub numbers: u64,
    /// But for these, of which nothing is known,
    pub in_flight: Vec<u64>,
    /// and these, which failed.
    pub failed: Vec<u64>,
}

impl State {
    /// The number from which on writes are not verified: as in fio, also not after one that was in flight.
    pub fn end(&self) -> u64 {
        self.in_flight.iter().copied().chain([self.numbers]).min().unwrap_or(0)
    }

    pub fn load(path: &str, depth: u32) -> Result<Self, EngineError> {
        let failed = |op| EngineError::new(Operation::LoadState(op)).on(path);
        let about = fs::metadata(path);
        let about = about
            .map_err(|error| EngineError::by_kernel(Operation::LoadState(""), &error).on(path))?;
        if !about.is_file() || about.len() > FILE_BYTES_MAX as u64 {
            return Err(failed(NO_STATE));
        }
        let bytes = fs::read(path);
        let bytes = bytes
            .map_err(|error| EngineError::by_kernel(Operation::LoadState(""), &error).on(path))?;
        Self::decode(&bytes, depth as usize).map_err(failed)
    }

    /// Whether a state may be written there: what is no state belongs to somebody.
    pub fn check_place(path: &str) -> Result<(), EngineError> {
        let by_kernel = |error| EngineError::by_kernel(Operation::SaveState(""), &error).on(path);
        let directory = Path::new(path).parent().filter(|parent| *parent != Path::new(""));
        directory.map_or(Ok(()), |parent| fs::metadata(parent).map(|_| ())).map_err(by_kernel)?;
        let about = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            about => about.map_err(by_kernel)?,
        };
        let is_state = about.is_file()
            && about.len() <= FILE_BYTES_MAX as u64
            && fs::read(path).is_ok_and(|bytes| has_header(&bytes));
        match is_state {
            true => Ok(()),
            false => Err(EngineError::new(Operation::SaveState(NO_STATE)).on(path)),
        }
    }

    pub fn save(&self, path: &str, name: &str, job: usize, depth: u32) -> Result<(), EngineError> {
        Self::check_place(path)?;
        let written = fs::write(path, self.encode(name, job as u64, depth));
        written.map_err(|error| EngineError::by_kernel(Operation::SaveState(""), &error).on(path))
    }

    fn encode(&self, name: &str, job: u64, depth: u32) -> Vec<u8> {
        let free = (depth as usize).saturating_sub(self.in_flight.len());
        let in_flight = self.in_flight.iter().copied().take(depth as usize);
        let list =
            in_flight.chain(std::iter::repeat_n(NONE, free)).chain(self.failed.iter().copied());
        let list: Vec<u64> = list.collect();
        let mut state = (list.len() as u64).to_le_bytes().to_vec();
        state.extend(self.numbers.to_le_bytes());
        state.extend(job.to_le_bytes());
        state.extend([0; RAND_BYTES]);
        let mut named = name.as_bytes().to_vec();
        // As in fio, the last byte ends the name.
        named.truncate(FIXED_BYTES - NAME_AT - 1);
        named.resize(FIXED_BYTES - NAME_AT, 0);
        state.extend(named);
        state.extend(list.iter().flat_map(|number| number.to_le_bytes()));
        let crc = u64::from(crc32c(&state));
        let header = [VERSION, state.len() as u64, crc];
        let header = header.iter().flat_map(|word| word.to_le_bytes());
        header.chain(state.iter().copied()).collect()
    }

    /// Those in flight are the first `depth` of the list, those that failed the rest.
    fn decode(bytes: &[u8], depth: usize) -> Result<Self, &'static str> {
        if bytes.len() < HEADER_BYTES + FIXED_BYTES {
            return Err(NO_STATE);
        }
        if u64_at(bytes, 0) != VERSION {
            return Err("not a verification state of fio 3.42's version");
        }
        let state = &bytes[HEADER_BYTES..];
        if u64_at(bytes, 8) != state.len() as u64 || u64_at(bytes, 16) != u64::from(crc32c(state)) {
            return Err("a damaged verification state");
        }
        let list = state[FIXED_BYTES..].as_chunks::<8>().0;
        let list: Vec<u64> = list.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (in_flight, failed) = list.split_at(depth.min(list.len()));
        let some = |list: &[u64]| list.iter().copied().filter(|n| *n != NONE).collect();
        Ok(Self { numbers: u64_at(state, 8), in_flight: some(in_flight), failed: some(failed) })
    }
}

const NO_STATE: &str = "not a verification state";

/// Whether a file has the header of a state, of any version.
fn has_header(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER_BYTES && u64_at(bytes, 8) == (bytes.len() - HEADER_BYTES) as u64
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_state_as_fio_writes_it() {
        // By fio 3.42: 20 random writes of the job `v`, without its generator.
        let state = State { numbers: 20, ..State::default() };
        let bytes = state.encode("v", 0, 1);
        assert_eq!(bytes.len(), 176);
        assert_eq!((u64_at(&bytes, 0), u64_at(&bytes, 8)), (7, 152));
        assert_eq!((u64_at(&bytes, 24), u64_at(&bytes, 32), u64_at(&bytes, 40)), (1, 20, 0));
        assert_eq!((bytes[104], bytes[105], u64_at(&bytes, 168)), (b'v', 0, u64::MAX));
    }

    proptest! {
        #[test]
        fn a_state_is_read_as_it_was_written(
            numbers in any::<u64>(),
            in_flight in proptest::collection::vec(0..NONE, 0..4),
            failed in proptest::collection::vec(0..NONE, 0..9),
            flip in 0usize..200,
        ) {
            let state = State { numbers, in_flight, failed };
            let mut bytes = state.encode(&"n".repeat(99), 3, 4);
            prop_assert_eq!(State::decode(&bytes, 4), Ok(state));
            let at = flip % bytes.len();
            bytes[at] ^= 1;
            prop_assert!(State::decode(&bytes, 4).is_err());
            prop_assert!(State::decode(&bytes[..at], 4).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = State::decode(&bytes, 2);
        }
    }

    #[test]
    fn what_is_no_state_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s").display().to_string();
        let state = State { numbers: 2, ..State::default() };
        std::fs::write(&path, "a letter that happens to have this name").unwrap();
        assert!(state.save(&path, "a", 0, 1).is_err());
        assert!(State::load(&path, 1).is_err());
        std::fs::remove_file(&path).unwrap();
        for numbers in [2, 5] {
            State { numbers, ..State::default() }.save(&path, "a", 0, 1).unwrap();
            assert_eq!(State::load(&path, 1).unwrap().end(), numbers);
        }
    }
}
