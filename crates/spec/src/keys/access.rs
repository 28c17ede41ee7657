//! Directions, sizes and places.

use super::{Key, accept_flag};
use crate::job::{JobSpec, Rw, RwKind};
use crate::value::{Value, block_split, triple, zones};
use fathom_model::plan::{BlockSizes, Distribution};

/// The greatest I/O: Linux moves less than 2 GiB at once (MAX_RW_COUNT).
const BLOCK_MAX: u64 = 1 << 30;

pub(super) const KEYS: &[Key] = &[
    Key::value("rw", "KIND[:N]", "read, write, trim, randread, randwrite, randtrim, rw or randrw", rw)
        .aliases(&["readwrite"])
        .differs("`trimwrite` and `randtrimwrite` are refused."),
    Key::value("rwmixread", "PERCENT", "Share of reads in a mix", |job, v| {
        job.work.read_percent = v.count32(0, 100)?;
        Ok(())
    }),
    Key::value("rwmixwrite", "PERCENT", "Share of writes in a mix", |job, v| {
        job.work.read_percent = 100 - v.count32(0, 100)?;
        Ok(())
    }),
    Key::value("bs", "SIZE[,SIZE[,SIZE]]", "Size of each I/O; read,write,trim", |job, v| {
        triple(v, &mut job.work.sizes, |v| Ok(BlockSizes::Fixed(block(v)?)))
    })
    .aliases(&["blocksize"])
    .differs("Of `bs`, `bsrange` and `bssplit` a job's own counts against `[global]`; two in one section conflict."),
    Key::value("bsrange", "SIZE-SIZE[,…]", "Sizes between two, in multiples of the lower", |job, v| {
        triple(v, &mut job.work.sizes, range)
    })
    .aliases(&["blocksize_range"]),
    Key::value("bssplit", "SIZE/PERCENT:…[,…]", "Sizes with their shares", |job, v| {
        triple(v, &mut job.work.sizes, |v| {
            let split = block_split(v)?;
            match split.iter().find(|(size, _)| *size > BLOCK_MAX) {
                Some((size, _)) => Err(too_large(*size)),
                None => Ok(BlockSizes::Split(split)),
            }
        })
    })
    .differs("Shares that are all given must add up to 100."),
    Key::value("blockalign", "SIZE[,SIZE[,SIZE]]", "Random offsets are multiples of this", |job, v| {
        triple(v, &mut job.work.align, |v| v.size().map(Some))
    })
    .aliases(&["ba"]),
    Key::flag("norandommap", "Draw each random block independently", |job, v| {
        job.work.no_map = v.flag()?;
        Ok(())
    })
    .differs("Without it each block is visited once per pass by a permutation in constant memory."),
    Key::flag("softrandommap", "Do without the map where it cannot be allocated", accept_flag)
        .differs("Changes nothing: there is no map to allocate."),
    Key::value("random_generator", "NAME", "tausworthe, lfsr or tausworthe64", |_, v| {
        v.choice(&[("tausworthe", ()), ("lfsr", ()), ("tausworthe64", ())])
    })
    .differs("All give fathom's own generator; whether blocks repeat is up to `norandommap` alone."),
    Key::value("random_distribution", "KIND[:N]", "random, zipf:θ, pareto:h, normal:% or zoned:…", distribution)
        .differs("`zoned_abs`, `sequence`, a centre and zones per direction are refused."),
    Key::value("percentage_random", "PERCENT", "Share of random I/Os", |_, v| match v.text {
        "100" => Ok(()),
        _ => Err("only 100 is taken; use one job of random and one of sequential I/O".into()),
    })
    .differs("Only 100 is taken."),
    Key::flag("randrepeat", "The same random sequence in every run", |job, v| {
        job.work.repeat = v.flag()?;
        Ok(())
    })
    .aliases(&["allrandrepeat"]),
    Key::value("randseed", "NUMBER", "Seed of the random sequence", |job, v| {
        job.work.seed = Some(v.bytes()?);
        Ok(())
    }),
];

fn rw(job: &mut JobSpec, v: Value<'_>) -> Result<(), String> {
    let (word, postfix) = match v.text.split_once(':') {
        Some((word, postfix)) => (word, Some(postfix.trim())),
        None => (v.text, None),
    };
    if word.ends_with("trimwrite") {
        return Err(format!("'{word}' is not there; use a job of trims and one of writes"));
    }
    let (kind, random) = v.with(word).choice(&[
        ("read", (RwKind::Read, false)),
        ("write", (RwKind::Write, false)),
        ("trim", (RwKind::Trim, false)),
        ("randread", (RwKind::Read, true)),
        ("randwrite", (RwKind::Write, true)),
        ("randtrim", (RwKind::Trim, true)),
        ("rw", (RwKind::Both, false)),
        ("readwrite", (RwKind::Both, false)),
        ("randrw", (RwKind::Both, true)),
    ])?;
    let postfix = match postfix {
        Some(n) if random => Some(v.with(n).signed(1, i64::from(u32::MAX))?),
        Some(n) => Some(v.with(n).signed(i64::MIN, i64::MAX)?),
        None => None,
    };
    job.work.rw = Rw { kind, random, postfix };
    Ok(())
}

fn block(v: Value<'_>) -> Result<u64, String> {
    match v.size()? {
        size if size > BLOCK_MAX => Err(too_large(size)),
        size => Ok(size),
    }
}

fn too_large(size: u64) -> String {
    format!("{size} bytes in one I/O; Linux moves less than 2 GiB at once, 1g is taken")
}

fn range(v: Value<'_>) -> Result<BlockSizes, String> {
    let (min, max) = v
        .text
        .split_once(['-', ':'])
        .ok_or_else(|| format!("'{}' is no range; write 4k-64k", v.text))?;
    let (min, max) = (block(v.with(min.trim()))?, block(v.with(max.trim()))?);
    match (min, max) {
        (min, max) if min > max => Err(format!("'{}' goes backwards", v.text)),
        (min, max) if min == max => Ok(BlockSizes::Fixed(min)),
        (min, max) => Ok(BlockSizes::Range { min, max }),
    }
}

fn distribution(job: &mut JobSpec, v: Value<'_>) -> Result<(), String> {
    let (kind, rest) = match v.text.split_once(':') {
        Some((kind, rest)) => (kind, Some(rest)),
        None => (v.text, None),
    };
    let number = |default: f64, low: f64, high: f64| match rest.map(str::parse::<f64>) {
        None => Ok(default),
        Some(Ok(n)) if n > low && n < high => Ok(n),
        Some(_) => Err(format!("'{}': one number above {low} and below {high} is taken", v.text)),
    };
    job.work.distribution = match kind {
        "random" => None,
        "zipf" => match number(1.1, 0.0, 100.0)? {
            1.0 => return Err("zipf's theta must differ from 1; 0.99 and 1.01 are taken".into()),
            theta => Some(Distribution::Zipf { theta }),
        },
        "pareto" => Some(Distribution::Pareto { h: number(0.2, 0.0, 1.0)? }),
        "normal" | "gauss" => match rest {
            None => return Err("normal needs its deviation in percent, as normal:10".into()),
            Some(_) => Some(Distribution::Normal { deviation_percent: number(0.0, 0.0, 100.0)? }),
        },
        "zoned" => match rest {
            Some(rest) if !rest.contains(',') => Some(Distribution::Zoned(zones(rest)?)),
            Some(_) => return Err("zones per direction are not there; use a job for each".into()),
            None => return Err("zoned needs its zones, as zoned:60/10:40/90".into()),
        },
        "zoned_abs" => return Err("zoned_abs is not there; use zoned, in percent".into()),
        "sequence" => return Err("sequence is not there; use zipf, pareto or zoned".into()),
        other => {
            let known = "random, zipf, pareto, normal, zoned";
            return Err(format!("'{other}' is none of {known}"));
        }
    };
    Ok(())
}
