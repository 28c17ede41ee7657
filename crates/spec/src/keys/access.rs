//! I/O pattern: direction, block size, offsets.

use super::accept_flag;
use super::distribution::distribution;
use crate::job::Job;
use crate::value::{KeyValue, block_split, triple};
use fathom_model::Dir;
use fathom_model::plan::{BlockSizes, Distribution, Mix, Order};

/// Largest length of an I/O in bytes.
const BLOCK_MAX: u64 = u32::MAX as u64;

keys! { Access;
    value("KIND[:N]") "rw" | "readwrite": "I/O pattern: read, write, trim, randread, randwrite, randtrim, rw, randrw, \
         trimwrite or randtrimwrite",
        "With `trimwrite`, a write waits for the trim of its block." = rw;
    value("PERCENT") "rwmixread": "Percentage of reads in a mixed workload"
        => rwmixread = percent();
    value("PERCENT") "rwmixwrite": "Percentage of writes in a mixed workload"
        => |job, v| job.rwmixread = 100 - v.percent()?;
    value("SIZE[,SIZE[,SIZE]]") "bs" | "blocksize": "Block size, for reads,writes,trims",
        "A job's own `bs`, `bsrange` or `bssplit` overrides any of them in `[global]`; two in one section are an error."
        = |job, v| triple(v, &mut job.access.block_sizes, |v| Ok(BlockSizes::Fixed(one_block(v)?)));
    value("SIZE-SIZE[,…]") "bsrange" | "blocksize_range": "Range of block sizes, in multiples of the lower bound"
        = |job, v| triple(v, &mut job.access.block_sizes, range);
    any "bs_unaligned" | "blocksize_unaligned": "Draw any number of bytes from bsrange, not only multiples of its lower bound"
        -> any_size;
    value("SIZE/PERCENT:…[,…]") "bssplit": "Block sizes and the percentage of I/Os of each",
        "Percentages that add up to more than 100 are an error." = |job, v| {
            triple(v, &mut job.access.block_sizes, |v| {
                let split = block_split(v)?;
                match split.iter().find(|(size, _)| *size > BLOCK_MAX) {
                    Some((size, _)) => Err(too_large(*size)),
                    None => Ok(BlockSizes::Split(split)),
                }
            })
        };
    value("SIZE[,SIZE[,SIZE]]") "blockalign" | "ba": "Alignment of random offsets"
        = |job, v| triple(v, &mut job.access.align, KeyValue::size);
    any "norandommap": "Choose random offsets without tracking which blocks were already accessed",
        "Without it, a permutation in constant memory visits each block once per pass." -> norandommap;
    flag "softrandommap": "Continue without a random map if it cannot be allocated",
        "No effect: fathom allocates no map." = accept_flag;
    value("NAME") "random_generator": "Random generator: tausworthe, lfsr or tausworthe64",
        "All select fathom's own generator. As in fio, blocks never repeat within a pass with lfsr, whatever `norandommap` says."
        => each_once = choice(&[("tausworthe", false), ("lfsr", true), ("tausworthe64", false)]);
    value("KIND[:N]") "random_distribution": "Distribution of random offsets: random, zipf:θ, pareto:h, normal:%, \
         zoned:…, zoned_abs:… or sequence:…",
        "Zones per direction are refused. A `sequence` is followed in each file, by all directions together, and \
         begins again before it leaves the file."
        = distribution;
    flag "random_sequence_stride": "Let each repetition of a sequence begin after the blocks of the previous one"
        -> random_sequence_stride;
    flag "sprandom": "Bring an SSD to the steady state of random writes, writing each region once",
        "Always writes as many bytes as the flash memory has." -> sprandom;
    value("COUNT") "spr_num_regions": "Number of regions, which are written one after the other (sprandom)"
        => steady_state.regions = count32(1, 1_000_000);
    value("FRACTION") "spr_op": "Over-provisioning of the flash memory, as a fraction of the logical size (sprandom)"
        => |job, v| {
            let fraction = v.text.parse::<f64>().ok().filter(|n| *n > 0.0 && *n < 1.0);
            let invalid = || format!("invalid fraction '{}'; use a number between 0 and 1, exclusive", v.text);
            job.steady_state.over_provisioning = fraction.ok_or_else(invalid)?;
        };
    value("SIZE") "spr_cs": "Size of the device's write cache (sprandom)"
        => steady_state.cache_bytes = bytes();
    value("KIND") "rw_sequencer": "Offsets of a run of I/Os (rw=randread:8): sequential or identical"
        => access.repeat_offset = choice(&[("sequential", false), ("identical", true)]);
    value("PERCENT[,PERCENT[,PERCENT]]") "percentage_random": "Percentage of random I/Os in a random workload; the \
         others continue at the previous one"
        = |job, v| triple(v, &mut job.access.random_percent, KeyValue::percent);
    flag "randrepeat" | "allrandrepeat": "Use the same random sequence in every run" -> randrepeat;
    value("NUMBER") "randseed": "Seed of the random generator" => |job, v| job.randseed = Some(v.bytes()?);
}

fn rw(job: &mut Job, v: KeyValue<'_>) -> Result<(), String> {
    let (word, postfix) = match v.text.split_once(':') {
        Some((word, postfix)) => (word, Some(postfix.trim())),
        None => (v.text, None),
    };
    let mixed = Mix::ReadWrite { read_percent: job.rwmixread };
    let (mix, random) = v.with(word).choice(&[
        ("read", (Mix::Only(Dir::Read), false)),
        ("write", (Mix::Only(Dir::Write), false)),
        ("trim", (Mix::Only(Dir::Trim), false)),
        ("randread", (Mix::Only(Dir::Read), true)),
        ("randwrite", (Mix::Only(Dir::Write), true)),
        ("randtrim", (Mix::Only(Dir::Trim), true)),
        ("rw", (mixed, false)),
        ("readwrite", (mixed, false)),
        ("randrw", (mixed, true)),
        ("trimwrite", (Mix::TrimThenWrite, false)),
        ("randtrimwrite", (Mix::TrimThenWrite, true)),
    ])?;
    job.access.order = if random {
        let run = postfix.map(|n| v.with(n).signed(1, i64::from(u32::MAX))).transpose()?;
        Order::Random { distribution: Distribution::EachOnce, run: run.unwrap_or(1) as u32 }
    } else {
        let skip = postfix.map(|n| v.with(n).signed(i64::MIN, i64::MAX)).transpose()?;
        Order::Sequential { skip: skip.unwrap_or(0) }
    };
    job.access.mix = mix;
    Ok(())
}

fn one_block(v: KeyValue<'_>) -> Result<u64, String> {
    match v.text.split_once('-') {
        Some((low, high)) if block(v.with(low)).is_ok() && block(v.with(high)).is_ok() => {
            Err(format!(
                "'{low}-{high}' is a range; use bsrange={low}-{high}, or what fio makes of it: bs={low},{high}"
            ))
        }
        _ => block(v),
    }
}

fn block(v: KeyValue<'_>) -> Result<u64, String> {
    match v.size()? {
        size if size > BLOCK_MAX => Err(too_large(size)),
        size => Ok(size),
    }
}

fn too_large(size: u64) -> String {
    format!("block size of {size} bytes exceeds the maximum; use less than 4g")
}

fn range(v: KeyValue<'_>) -> Result<BlockSizes, String> {
    if !v.text.contains(['-', ':']) {
        return Err(format!("invalid range '{}'; write it as 4k-64k", v.text));
    }
    let (min, max) = v.range(&['-', ':'], block)?;
    Ok(if min == max { BlockSizes::Fixed(min) } else { BlockSizes::Range { min, max } })
}
