//! I/O pattern: direction, block size, offsets.

use super::{Key, accept_flag};
use crate::job::{JobSpec, Rw, RwKind};
use crate::value::{Value, block_split, triple, zones};
use fathom_model::plan::{BlockSizes, Distribution};

/// Largest length of an I/O in bytes.
const BLOCK_MAX: u64 = u32::MAX as u64;

pub(super) const KEYS: &[Key] = &[
    Key::value("rw", "KIND[:N]", "I/O pattern: read, write, trim, randread, randwrite, randtrim, rw or randrw", rw)
        .aliases(&["readwrite"])
        .differs("`trimwrite` and `randtrimwrite` are refused."),
    Key::value("rwmixread", "PERCENT", "Percentage of reads in a mixed workload", |job, v| {
        job.work.read_percent = v.count32(0, 100)?;
        Ok(())
    }),
    Key::value("rwmixwrite", "PERCENT", "Percentage of writes in a mixed workload", |job, v| {
        job.work.read_percent = 100 - v.count32(0, 100)?;
        Ok(())
    }),
    Key::value("bs", "SIZE[,SIZE[,SIZE]]", "Block size, for reads,writes,trims", |job, v| {
        triple(v, &mut job.work.sizes, |v| Ok(BlockSizes::Fixed(block(v)?)))
    })
    .aliases(&["blocksize"])
    .differs("A job's own `bs`, `bsrange` or `bssplit` overrides any of them in `[global]`; two in one section are an error."),
    Key::value("bsrange", "SIZE-SIZE[,…]", "Range of block sizes, in multiples of the lower bound", |job, v| {
        triple(v, &mut job.work.sizes, range)
    })
    .aliases(&["blocksize_range"]),
    Key::value("bssplit", "SIZE/PERCENT:…[,…]", "Block sizes and the percentage of I/Os of each", |job, v| {
        triple(v, &mut job.work.sizes, |v| {
            let split = block_split(v)?;
            match split.iter().find(|(size, _)| *size > BLOCK_MAX) {
                Some((size, _)) => Err(too_large(*size)),
                None => Ok(BlockSizes::Split(split)),
            }
        })
    })
    .differs("Percentages that add up to more than 100 are an error."),
    Key::value("blockalign", "SIZE[,SIZE[,SIZE]]", "Alignment of random offsets", |job, v| {
        triple(v, &mut job.work.align, |v| v.size().map(Some))
    })
    .aliases(&["ba"]),
    Key::flag("norandommap", "Choose random offsets without tracking which blocks were already accessed", |job, v| {
        job.work.no_map = v.flag()?;
        Ok(())
    })
    .differs("Without it, a permutation in constant memory visits each block once per pass."),
    Key::flag("softrandommap", "Continue without a random map if it cannot be allocated", accept_flag)
        .differs("No effect: fathom allocates no map."),
    Key::value("random_generator", "NAME", "Random generator: tausworthe, lfsr or tausworthe64", |_, v| {
        v.choice(&[("tausworthe", ()), ("lfsr", ()), ("tausworthe64", ())])
    })
    .differs("All select fathom's own generator; only `norandommap` determines whether blocks repeat."),
    Key::value("random_distribution", "KIND[:N]", "Distribution of random offsets: random, zipf:θ, pareto:h, normal:% or zoned:…", distribution)
        .differs("`zoned_abs`, `sequence`, a center and zones per direction are refused."),
    Key::value("percentage_random", "PERCENT[,PERCENT[,PERCENT]]", "Percentage of random I/Os in a random workload; the others continue at the previous one", |job, v| {
        triple(v, &mut job.work.random_percent, |v| v.count32(0, 100))
    }),
    Key::flag("randrepeat", "Use the same random sequence in every run", |job, v| {
        job.work.repeat = v.flag()?;
        Ok(())
    })
    .aliases(&["allrandrepeat"]),
    Key::value("randseed", "NUMBER", "Seed of the random generator", |job, v| {
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
        return Err(format!("'{word}' is not supported; use one trim and one write job"));
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
    format!("block size of {size} bytes exceeds the maximum; use less than 4g")
}

fn range(v: Value<'_>) -> Result<BlockSizes, String> {
    let (min, max) = v
        .text
        .split_once(['-', ':'])
        .ok_or_else(|| format!("invalid range '{}'; write it as 4k-64k", v.text))?;
    let (min, max) = (block(v.with(min.trim()))?, block(v.with(max.trim()))?);
    match (min, max) {
        (min, max) if min > max => {
            Err(format!("invalid range '{}': the lower bound exceeds the upper; swap them", v.text))
        }
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
        Some(_) => Err(format!(
            "invalid parameter in '{}'; use a number between {low} and {high}, exclusive",
            v.text
        )),
    };
    job.work.distribution = match kind {
        "random" => None,
        "zipf" => match number(1.1, 0.0, 100.0)? {
            1.0 => return Err("zipf's theta must not be 1; use 0.99 or 1.01".into()),
            theta => Some(Distribution::Zipf { theta }),
        },
        "pareto" => Some(Distribution::Pareto { h: number(0.2, 0.0, 1.0)? }),
        "normal" | "gauss" => match rest {
            None => {
                return Err(
                    "normal needs a standard deviation in percent; use normal:10, for example"
                        .into(),
                );
            }
            Some(_) => Some(Distribution::Normal { deviation_percent: number(0.0, 0.0, 100.0)? }),
        },
        "zoned" => match rest {
            Some(rest) if !rest.contains(',') => Some(Distribution::Zoned(zones(rest)?)),
            Some(_) => {
                return Err(
                    "zones per direction are not supported; use one job per direction".into()
                );
            }
            None => {
                return Err(
                    "zoned needs a list of zones; use zoned:60/10:40/90, for example".into()
                );
            }
        },
        "zoned_abs" => {
            return Err("zoned_abs is not supported; use zoned, with sizes in percent".into());
        }
        "sequence" => return Err("sequence is not supported; use zipf, pareto or zoned".into()),
        other => {
            let known = "random, zipf, pareto, normal, zoned";
            return Err(format!("invalid distribution '{other}'; valid values are {known}"));
        }
    };
    Ok(())
}
