//! List values: `read,write,trim` triples, paths, percentages.

use super::KeyValue;
use fathom_model::plan::{AbsoluteZone, Zone};
use fathom_model::{Dir, PerDir};

/// Parses `read,write,trim` into `into`, as in fio: an empty entry leaves its direction
/// unchanged, and the last entry also applies to the directions after it unless it is empty.
pub(crate) fn triple<'a, T: Clone>(
    value: KeyValue<'a>,
    into: &mut PerDir<T>,
    mut read: impl FnMut(KeyValue<'a>) -> Result<T, String>,
) -> Result<(), String> {
    let parts: Vec<&str> = value.text.split(',').map(str::trim).collect();
    if parts.len() > 3 {
        return Err(format!("'{}' has more than three entries; use read,write,trim", value.text));
    }
    if parts.iter().all(|part| part.is_empty()) {
        return Err("missing value; add one".to_string());
    }
    let mut last = None;
    for (index, dir) in Dir::ALL.into_iter().enumerate() {
        let part = parts.get(index).copied();
        match part {
            Some("") => last = None,
            Some(text) => {
                last = Some(read(value.with(text))?);
            }
            None => {}
        }
        if let Some(new) = &last {
            into[dir] = new.clone();
        }
    }
    Ok(())
}

fn entries(text: &str, separator: char) -> impl Iterator<Item = &str> {
    text.split(separator).map(str::trim).filter(|entry| !entry.is_empty())
}

pub(crate) fn path_list(text: &str) -> Result<Vec<String>, String> {
    let mut paths = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&':') => {
                chars.next();
                push(&mut paths, ':');
            }
            ':' => paths.push(String::new()),
            _ => push(&mut paths, c),
        }
    }
    if paths.iter().any(String::is_empty) {
        return Err(format!("'{text}' contains an empty path; escape a colon in a path as \\:"));
    }
    Ok(paths)
}

fn push(paths: &mut [String], c: char) {
    if let Some(path) = paths.last_mut() {
        path.push(c);
    }
}

/// `path` as one of `filename`, in which colons separate paths.
pub fn escape_path(path: &str) -> String {
    path.replace(':', "\\:")
}

/// Numbers separated by `:`, each above 0 and at most 100, at most 20 of them.
pub(crate) fn floats(text: &str) -> Result<Vec<f64>, String> {
    let mut list = Vec::new();
    for entry in entries(text, ':') {
        match entry.parse::<f64>() {
            Ok(n) if n > 0.0 && n <= 100.0 => list.push(n),
            _ => {
                return Err(format!(
                    "invalid percentile '{entry}'; use a number above 0, up to 100"
                ));
            }
        }
    }
    if list.is_empty() || list.len() > 20 {
        return Err(format!("{} percentiles given; use 1 to 20, separated by ':'", list.len()));
    }
    list.sort_by(f64::total_cmp);
    Ok(list)
}

/// Lines of `START, END, IDENTIFIER` (`dp_scheme`).
pub(crate) fn placed_ranges(text: &str) -> Result<Vec<(u64, u64, u16)>, String> {
    let range = |line: &str| {
        let mut parts = line.split(',').map(str::trim);
        let range =
            (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(range)
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let ranges: Vec<_> = lines
        .map(|(number, line)| {
            let fail = || {
                format!("line {}: expected `START, END, IDENTIFIER`, found '{line}'", number + 1)
            };
            range(line).ok_or_else(fail)
        })
        .collect::<Result<_, String>>()?;
    if ranges.is_empty() {
        return Err("there are no lines of `START, END, IDENTIFIER`".to_string());
    }
    Ok(ranges)
}

/// Block sizes with percentages, `4k/60:64k/40`. As in fio, sizes without one, or with 0, divide what
/// the others leave, whatever is left then goes to the size with the largest percentage, and of a range
/// of sizes the first counts.
pub(crate) fn block_split(value: KeyValue<'_>) -> Result<Vec<(u64, u32)>, String> {
    let mut parts: Vec<(u64, u32)> = Vec::new();
    for entry in entries(value.text, ':') {
        let (size, share) = match entry.split_once('/') {
            Some((size, "")) => (size, 0),
            Some((size, share)) => {
                let whole = share.strip_suffix('.').unwrap_or(share);
                (size, value.with(whole).count32(0, 100)?)
            }
            None => (entry, 0),
        };
        let size = size.split('-').next().unwrap_or(size);
        parts.push((value.with(size.trim()).size()?, share));
    }
    if parts.is_empty() || parts.len() > 64 {
        return Err(format!("{} block sizes given; use 1 to 64", parts.len()));
    }
    let given: u32 = parts.iter().map(|(_, share)| share).sum();
    let open = parts.iter().filter(|(_, share)| *share == 0).count() as u32;
    let left = 100_u32.checked_sub(given).ok_or_else(|| {
        format!("the percentages of '{}' add up to {given}%; change them to 100%", value.text)
    })?;
    for (_, share) in parts.iter_mut().filter(|(_, share)| *share == 0) {
        *share = left / open.max(1);
    }
    let sum: u32 = parts.iter().map(|(_, share)| share).sum();
    if let Some((_, share)) = parts.iter_mut().max_by_key(|(_, share)| *share) {
        *share += 100 - sum;
    }
    parts.retain(|(_, share)| *share > 0);
    Ok(parts)
}

/// Zones of `random_distribution=zoned:access/span:…`, in percent; zones without a span
/// divide the remainder evenly.
pub(crate) fn zones(text: &str) -> Result<Vec<Zone>, String> {
    let mut parts: Vec<(f64, Option<f64>)> = Vec::new();
    for entry in entries(text, ':') {
        let bad = || format!("invalid zone '{entry}'; use percent of accesses/percent of space");
        let percent = |n: &str| match n.trim().parse::<f64>() {
            Ok(n) if (0.0..=100.0).contains(&n) => Ok(n),
            _ => Err(bad()),
        };
        let (access, span) = entry.split_once('/').ok_or_else(bad)?;
        let span = if span.trim().is_empty() { None } else { Some(percent(span)?) };
        parts.push((percent(access)?, span));
    }
    let access: f64 = parts.iter().map(|part| part.0).sum();
    let given: f64 = parts.iter().filter_map(|part| part.1).sum();
    let open = parts.iter().filter(|part| part.1.is_none()).count();
    let is_all = |sum: f64| (sum - 100.0).abs() <= 0.01;
    if !is_all(access) || (open == 0 && !is_all(given)) || (open > 0 && given >= 100.0) {
        return Err(format!(
            "the zones of '{text}' add up to {access}% of accesses and {given}% of space; \
             change both to 100%"
        ));
    }
    let rest = (100.0 - given) / open.max(1) as f64;
    let zone = |(access_percent, span): (f64, Option<f64>)| Zone {
        access_percent,
        span_percent: span.unwrap_or(rest),
    };
    Ok(parts.into_iter().map(zone).collect())
}

/// Zones of `random_distribution=zoned_abs:access/size:…`, in percent of accesses and bytes.
pub(crate) fn absolute_zones(v: KeyValue<'_>) -> Result<Vec<AbsoluteZone>, String> {
    let mut zones = Vec::new();
    for entry in entries(v.text, ':') {
        let bad = || format!("invalid zone '{entry}'; use percent of accesses/size");
        let (access, bytes) = entry.split_once('/').ok_or_else(bad)?;
        let access = access.trim().parse::<f64>().ok().filter(|n| (0.0..=100.0).contains(n));
        let (access_percent, bytes) = (access.ok_or_else(bad)?, v.with(bytes.trim()).size()?);
        zones.push(AbsoluteZone { access_percent, bytes });
    }
    let access: f64 = zones.iter().map(|zone| zone.access_percent).sum();
    match (access - 100.0).abs() <= 0.01 {
        true => Ok(zones),
        false => {
            let text = v.text;
            Err(format!(
                "the zones of '{text}' add up to {access}% of accesses; change that to 100%"
            ))
        }
    }
}

/// Generic error numbers of Linux (include/uapi/asm-generic/errno-base.h and errno.h).
const NAMES: &str = "EPERM=1 ENOENT=2 EINTR=4 EIO=5 ENXIO=6 EBADF=9 EAGAIN=11 EWOULDBLOCK=11 ENOMEM=12 EACCES=13 \
    EFAULT=14 EBUSY=16 ENODEV=19 EINVAL=22 EFBIG=27 ENOSPC=28 EROFS=30 ENODATA=61 ETIME=62 ENOLINK=67 \
    EREMOTEIO=121 EDQUOT=122 ENOMEDIUM=123 EBADE=52 EILSEQ=84 EOPNOTSUPP=95 ETIMEDOUT=110 ESTALE=116 \
    ECANCELED=125";

pub(crate) fn errno(text: &str) -> Result<i32, String> {
    let mut names = NAMES.split(' ').filter_map(|name| name.split_once('='));
    let number = names.find(|(name, _)| *name == text).map_or(text, |(_, number)| number);
    match number.parse::<i32>() {
        Ok(number) if (1..=4095).contains(&number) => Ok(number),
        _ => Err(format!(
            "unknown error '{text}'; use a name such as EIO, or a number from 1 to 4095"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v(text: &str) -> KeyValue<'_> {
        KeyValue::strict(text, 1024)
    }

    fn sizes(text: &str) -> (u64, u64, u64) {
        let mut sizes = PerDir::splat(1);
        triple(v(text), &mut sizes, |v| v.bytes()).unwrap();
        (sizes.read, sizes.write, sizes.trim)
    }

    #[test]
    fn triples_inherit_as_in_fio() {
        assert_eq!(sizes("4k"), (4096, 4096, 4096));
        assert_eq!(sizes("4k,8k"), (4096, 8192, 8192));
        assert_eq!(sizes(",8k"), (1, 8192, 8192));
        assert_eq!(sizes("4k,"), (4096, 1, 1));
        assert_eq!(sizes("4k,,16k"), (4096, 1, 16384));
        assert_eq!(sizes(",8k,"), (1, 8192, 1));
        assert!(triple(v(","), &mut PerDir::splat(1), |v| v.bytes()).is_err());
        assert!(triple(v("1,2,3,4"), &mut PerDir::splat(1), |v| v.bytes()).is_err());
    }

    #[test]
    fn paths_with_colons() {
        assert_eq!(path_list("/dev/a:/dev/b").unwrap(), ["/dev/a", "/dev/b"]);
        assert_eq!(path_list("/x\\:0:/y").unwrap(), ["/x:0", "/y"]);
        assert!(path_list("a::b").is_err());
    }

    #[test]
    fn sizes_without_a_percentage_share_the_remainder() {
        assert_eq!(block_split(v("4k/60:64k/40")).unwrap(), [(4096, 60), (65536, 40)]);
        assert_eq!(block_split(v("4k/50:8k:16k")).unwrap(), [(4096, 50), (8192, 25), (16384, 25)]);
        assert_eq!(block_split(v("4k")).unwrap(), [(4096, 100)]);
        assert!(block_split(v("4k/60:64k/60")).unwrap_err().contains("120%"));
        assert_eq!(block_split(v("4k/60:64k/38")).unwrap(), [(4096, 62), (65536, 38)]);
        assert_eq!(
            block_split(v("4k/0:8k/34:16k")).unwrap(),
            [(4096, 33), (8192, 34), (16384, 33)]
        );
        assert_eq!(block_split(v("4k/100:8k/0")).unwrap(), [(4096, 100)]);
        assert_eq!(block_split(v("4k-8k/50:64k/50")).unwrap(), [(4096, 50), (65536, 50)]);
    }

    #[test]
    fn zones_add_up() {
        assert_eq!(zones("60/10:40/90").unwrap().len(), 2);
        assert!((zones("50/5:30/15:20/").unwrap()[2].span_percent - 80.0).abs() < 1e-9);
        assert!(zones("50/50:30/50:20/").is_err());
        assert!(zones("60/10:30/90").unwrap_err().contains("90%"));
        assert!(zones("nan/10:30/90").is_err());
        let zones = absolute_zones(v("60/1m:0/2m:40/4k")).unwrap();
        assert_eq!(zones.iter().map(|zone| zone.bytes).sum::<u64>(), (3 << 20) + 4096);
        assert!(absolute_zones(v("60/1m:30/2m")).unwrap_err().contains("90%"));
    }

    proptest! {
        #[test]
        fn any_path_reads_back(path in "[^\\\\]{1,20}") {
            prop_assert_eq!(path_list(&escape_path(&path)), Ok(vec![path]));
        }

        #[test]
        fn shares_add_up_to_100(text in "[0-9k/:]{1,30}") {
            if let Ok(split) = block_split(v(&text)) {
                prop_assert_eq!(split.iter().map(|part| part.1).sum::<u32>(), 100);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,24}") {
            let _ = (path_list(&text), floats(&text), zones(&text));
        }
    }

    #[test]
    fn placements_by_offset() {
        let read = placed_ranges("0, 4096, 1\n\n4096,18446744073709551615,65535\n");
        assert_eq!(read, Ok(vec![(0, 4096, 1), (4096, u64::MAX, 65535)]));
        for (text, said) in
            [("", "there are no lines"), ("0,1,2\n1,2", "line 2"), ("0,1,65536", "line 1")]
        {
            assert!(placed_ranges(text).unwrap_err().contains(said), "{text}");
        }
    }

    #[test]
    fn names_and_numbers() {
        assert_eq!(errno("EIO"), Ok(5));
        assert_eq!(errno("28"), Ok(28));
        assert!(errno("EWHAT").is_err());
        assert!(errno("0").is_err());
        assert!(errno("-5").is_err());
    }
}
