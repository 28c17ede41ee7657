//! `buffer_pattern`: a sequence of strings in double quotes, decimal and hexadecimal numbers, and files in single quotes.

use crate::sources::Sources;

/// Maximum length of a pattern in bytes: records hold it.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// The pattern with the contents of its files, if it names any, as hexadecimal numbers.
pub(crate) fn with_files(text: &str, sources: &dyn Sources) -> Result<String, String> {
    let (mut read, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['"', '\'']) {
        let (before, quoted) = rest.split_at(at);
        read.push_str(before);
        let (quote, quoted) = quoted.split_at(1);
        let end =
            quoted.find(quote).ok_or_else(|| format!("missing {quote} in '{text}'; add it"))?;
        let (inner, more) = quoted.split_at(end);
        rest = &more[1..];
        match quote {
            "'" => read.push_str(&contents(inner, sources)?),
            _ => read.extend([quote, inner, quote]),
        }
    }
    read.push_str(rest);
    Ok(read)
}

fn contents(path: &str, sources: &dyn Sources) -> Result<String, String> {
    if path == "-" || !sources.is_regular(path) {
        return Err(format!("cannot read the pattern '{path}': not a regular file; name one"));
    }
    let bytes = sources
        .read(path, PATTERN_BYTES_MAX)
        .map_err(|why| format!("cannot read the pattern '{path}': {why}; check the name"))?;
    match bytes.len() {
        0 => Err(format!("the pattern '{path}' is empty; name another file")),
        n if n > PATTERN_BYTES_MAX => Err(format!(
            "the pattern '{path}' is too long; use a file of at most {} MiB",
            PATTERN_BYTES_MAX >> 20
        )),
        _ => Ok(bytes.iter().fold("0x".to_string(), |hex, byte| hex + &format!("{byte:02x}"))),
    }
}

pub(crate) fn pattern(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        rest = if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').ok_or_else(|| format!("missing \" in '{text}'; add it"))?;
            bytes.extend_from_slice(&quoted.as_bytes()[..end]);
            &quoted[end + 1..]
        } else if rest.starts_with('\'') {
            return Err(format!("'{text}': no pattern is read from a file here; use 0x… or \"…\""));
        } else if let Some(hex) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            hexadecimal(hex, &mut bytes)
                .ok_or_else(|| format!("no digits after 0x in '{text}'; add them"))?
        } else {
            decimal(rest, &mut bytes).ok_or_else(|| not_a_pattern(text))?
        };
    }
    match bytes.len() {
        0 => Err("empty pattern; use \"text\" or 0x…".to_string()),
        n if n > PATTERN_BYTES_MAX => {
            Err(format!("pattern of {n} bytes is too long; use at most {PATTERN_BYTES_MAX}"))
        }
        _ => Ok(bytes),
    }
}

/// `verify_pattern`: the same, in which `%o` is 8 bytes for an offset; the pattern, and where these are.
pub(crate) fn verify_pattern(text: &str) -> Result<(Vec<u8>, Vec<u32>), String> {
    let (mut bytes, mut offsets) = (Vec::new(), Vec::new());
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(more) = rest.strip_prefix("%o") {
            offsets.push(bytes.len() as u32);
            bytes.extend([0; 8]);
            rest = more;
            continue;
        }
        // Within quotes, these are characters like others.
        let quoted = rest.strip_prefix('"').and_then(|inner| inner.find('"'));
        let end = quoted.map(|end| end + 2).or_else(|| rest.find(['%', '"']).filter(|at| *at > 0));
        let (part, more) = rest.split_at(end.unwrap_or(rest.len()));
        bytes.extend(pattern(part)?);
        rest = more;
    }
    match bytes.len() {
        0 => Err("empty pattern; use \"text\", 0x… or %o".to_string()),
        n if n > PATTERN_BYTES_MAX => {
            Err(format!("pattern of {n} bytes is too long; use at most {PATTERN_BYTES_MAX}"))
        }
        _ => Ok((bytes, offsets)),
    }
}

/// As in fio, bytes in the order written; with an odd number of digits, the first is a byte.
fn hexadecimal<'a>(digits: &'a str, bytes: &mut Vec<u8>) -> Option<&'a str> {
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    let end = before_hexadecimal(digits, end);
    let (first, pairs) = digits.as_bytes()[..end].split_at(end % 2);
    for pair in first.chunks(1).chain(pairs.chunks(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        bytes.push(u8::from_str_radix(pair, 16).ok()?);
    }
    (end > 0).then_some(&digits[end..])
}

/// As in fio, a little-endian 32-bit number without trailing zero bytes.
fn decimal<'a>(text: &'a str, bytes: &mut Vec<u8>) -> Option<&'a str> {
    let sign = usize::from(text.starts_with('-'));
    let digits = text[sign..].find(|c: char| !c.is_ascii_digit());
    let end = digits.map_or(text.len(), |n| n + sign);
    let end = before_hexadecimal(text, end);
    let number: i64 = text[..end].parse().ok()?;
    let word = i32::try_from(number).map(|n| n as u32).or_else(|_| u32::try_from(number)).ok()?;
    let length = (4 - word.leading_zeros() as usize / 8).max(1);
    bytes.extend_from_slice(&word.to_le_bytes()[..length]);
    Some(&text[end..])
}

/// The end of a number's digits: the zero of a hexadecimal number that follows is none of them.
fn before_hexadecimal(text: &str, end: usize) -> usize {
    let follows = text[end..].starts_with(['x', 'X']) && text[..end].ends_with('0');
    end - usize::from(follows)
}

fn not_a_pattern(text: &str) -> String {
    format!("invalid pattern '{text}'; use \"text\", 0x and digits, or a 32-bit number")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::tests::MemorySources;
    use proptest::prelude::*;

    #[test]
    fn kinds() {
        assert_eq!(pattern("\"abcd\""), Ok(b"abcd".to_vec()));
        assert_eq!(pattern("0xdeadface"), Ok(vec![0xde, 0xad, 0xfa, 0xce]));
        assert_eq!(pattern("0xabc"), Ok(vec![0x0a, 0xbc]));
        assert_eq!(pattern("255"), Ok(vec![255]));
        assert_eq!(pattern("-12"), Ok(vec![0xf4, 0xff, 0xff, 0xff]));
        assert_eq!(pattern("0xff\"ab\"1"), Ok(vec![255, b'a', b'b', 1]));
        assert_eq!(pattern("-120xdead"), Ok(vec![0xf4, 0xff, 0xff, 0xff, 0xde, 0xad]));
        assert_eq!(pattern("0xFF0X1"), Ok(vec![0xff, 1]));
        for bad in ["", "abc", "\"abc", "'file'", "0x", "99999999999"] {
            assert!(pattern(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn files_become_numbers() {
        let sources = MemorySources::new(&[("a b", "\x01\"'"), ("empty", "")]);
        let read = |text| with_files(text, &sources);
        let all = read("0xab'a b'\"it's\"-12'a b'%o").unwrap();
        assert_eq!(all, "0xab0x012227\"it's\"-120x012227%o");
        let bytes = pattern(all.strip_suffix("%o").unwrap()).unwrap();
        assert_eq!(bytes[..5], [0xab, 1, b'"', b'\'', b'i']);
        for (bad, why) in [
            ("'none'", "check the name"),
            ("'a b", "missing '"),
            ("'empty'", "empty"),
            ("'-'", "regular"),
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn patterns_with_offsets() {
        let found = verify_pattern("0xab%o\"c\"");
        assert_eq!(found, Ok(([&[0xab][..], &[0; 8], b"c"].concat(), vec![1])));
        assert_eq!(verify_pattern("\"a%o\"1%o").unwrap().1, [4]);
        assert!(verify_pattern("").is_err() && verify_pattern("%x").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_read_back(bytes in proptest::collection::vec(any::<u8>(), 1..64)) {
            let text: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            prop_assert_eq!(pattern(&format!("0x{text}")), Ok(bytes));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,24}") {
            let _ = pattern(&text);
        }
    }
}
