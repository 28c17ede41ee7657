//! The checksums of fio's verification, bit for bit as fio computes them (crc/*.c and verify.c of fio 3.42).

use crc::{Algorithm, CRC_7_MMC, CRC_16_ARC, CRC_64_REDIS, Crc, Table};
use fathom_model::plan::VerifyMethod;
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::Sha512;
use sha2::block_api::compress256;
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use twox_hash::XxHash32;

static CRC7: Crc<u8, Table<16>> = Crc::<u8, Table<16>>::new(&CRC_7_MMC);
static CRC16: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_ARC);
static CRC64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);
/// That of POSIX cksum(1), without the length and the inversion.
static CRC32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&Algorithm {
    width: 32,
    poly: 0x04c1_1db7,
    init: 0,
    refin: false,
    refout: false,
    xorout: 0,
    check: 0,
    residue: 0,
});

const SHA256_START: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// CRC-32C without the final inversion, which fio leaves out.
pub(super) fn crc32c(data: &[u8]) -> u32 {
    !crc32c::crc32c(data)
}

/// Writes the checksum of `data` to `out`, which has the method's length.
pub(super) fn checksum(method: VerifyMethod, data: &[u8], out: &mut [u8]) {
    match method {
        VerifyMethod::Crc7 => out.copy_from_slice(&[CRC7.checksum(data)]),
        VerifyMethod::Crc16 => out.copy_from_slice(&CRC16.checksum(data).to_ne_bytes()),
        VerifyMethod::Crc32 => out.copy_from_slice(&CRC32.checksum(data).to_ne_bytes()),
        VerifyMethod::Crc32c => out.copy_from_slice(&crc32c(data).to_ne_bytes()),
        VerifyMethod::Crc64 => out.copy_from_slice(&CRC64.checksum(data).to_ne_bytes()),
        VerifyMethod::Xxhash => out.copy_from_slice(&XxHash32::oneshot(1, data).to_ne_bytes()),
        VerifyMethod::Md5 => out.copy_from_slice(&Md5::digest(data)),
        VerifyMethod::Sha1 => {
            let (words, _) = out.as_chunks_mut::<4>();
            for (word, digest) in words.iter_mut().zip(Sha1::digest(data).as_chunks::<4>().0) {
                // As words of the machine.
                *word = u32::from_be_bytes(*digest).to_ne_bytes();
            }
        }
        VerifyMethod::Sha256 => sha256(data, out),
        VerifyMethod::Sha512 => sha512(data, out),
        VerifyMethod::Sha3_224 => out.copy_from_slice(&Sha3_224::digest(data)),
        VerifyMethod::Sha3_256 => out.copy_from_slice(&Sha3_256::digest(data)),
        VerifyMethod::Sha3_384 => out.copy_from_slice(&Sha3_384::digest(data)),
        VerifyMethod::Sha3_512 => out.copy_from_slice(&Sha3_512::digest(data)),
        VerifyMethod::Meta
        | VerifyMethod::PatternHeader
        | VerifyMethod::Pattern
        | VerifyMethod::Null => {}
    }
}

/// Not quite SHA-256: fio appends the length little-endian, and stores its last block, in which the first eight bytes
/// are the lowest of each word of the digest.
fn sha256(data: &[u8], out: &mut [u8]) {
    let mut state = SHA256_START;
    let (blocks, tail) = data.as_chunks::<64>();
    compress256(&mut state, blocks);
    let (mut last, used) = last_block::<128>(tail, 56, 64);
    last[used - 8..used].copy_from_slice(&(data.len() as u64 * 8).to_le_bytes());
    compress256(&mut state, last[..used].as_chunks::<64>().0);
    out.copy_from_slice(&last[used - 64..used]);
    out.iter_mut().zip(state).for_each(|(byte, word)| *byte = word as u8);
}

/// SHA-512, and the second half of the last block, which fio stores, too.
fn sha512(data: &[u8], out: &mut [u8]) {
    let (_, tail) = data.as_chunks::<128>();
    let (mut last, used) = last_block::<256>(tail, 112, 128);
    last[used - 8..used].copy_from_slice(&(data.len() as u64 * 8).to_be_bytes());
    out.copy_from_slice(&last[used - 128..used]);
    out[..64].copy_from_slice(&Sha512::digest(data));
}

/// The end of the data, padded, in one block or two of `block` bytes, of which `room` bytes are data.
fn last_block<const N: usize>(tail: &[u8], room: usize, block: usize) -> ([u8; N], usize) {
    let mut last = [0; N];
    last[..tail.len()].copy_from_slice(tail);
    last[tail.len()] = 0x80;
    (last, if tail.len() < room { block } else { 2 * block })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What fio 3.42 computes of the bytes 0 to 255, repeated up to this length.
    fn hex(method: VerifyMethod, len: usize) -> String {
        let data: Vec<u8> = (0..len).map(|byte| byte as u8).collect();
        let mut out = vec![0; method.checksum_bytes()];
        checksum(method, &data, &mut out);
        out.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn published_values() {
        // The catalogue's check values, of "123456789".
        assert_eq!(CRC7.checksum(b"123456789"), 0x75);
        assert_eq!(CRC16.checksum(b"123456789"), 0xbb3d);
        assert_eq!(CRC64.checksum(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(crc32c(b"123456789"), !0xe306_9283);
        assert_eq!(hex(VerifyMethod::Md5, 0), "d41d8cd98f00b204e9800998ecf8427e");
    }

    #[test]
    fn every_length_of_the_last_block() {
        for len in 0..300 {
            assert_eq!(hex(VerifyMethod::Sha256, len).len(), 128);
            let sha512 = hex(VerifyMethod::Sha512, len);
            assert!(sha512.ends_with(&format!("{:016x}", len * 8)), "{len} {sha512}");
        }
    }
}
