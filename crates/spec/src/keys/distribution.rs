//! `random_distribution`.

use crate::job::Job;
use crate::value::{KeyValue, absolute_zones, zones};
use fathom_model::plan::Distribution;

const SEQUENCE_MAX: usize = 1024;

pub(super) fn distribution(job: &mut Job, v: KeyValue<'_>) -> Result<(), String> {
    let (kind, rest) = match v.text.split_once(':') {
        Some((kind, rest)) => (kind, Some(rest)),
        None => (v.text, None),
    };
    if kind.contains('=') {
        return Err(format!("':' follows the kind, not '='; use {}", v.text.replacen('=', ":", 1)));
    }
    let list = |example: &str| {
        let missing = format!("{kind} needs a list; use {kind}:{example}, for example");
        rest.filter(|rest| !rest.is_empty()).ok_or(missing)
    };
    job.random_distribution = match kind {
        "random" => None,
        // Ranks are scattered over the region, so that a center makes no difference.
        "zipf" => match numbers(v.text, rest, 1.1, 100.0)?.0 {
            1.0 => return Err("zipf's theta must not be 1; use 0.99 or 1.01".into()),
            theta => Some(Distribution::Zipf { theta }),
        },
        "pareto" => Some(Distribution::Pareto { h: numbers(v.text, rest, 0.2, 1.0)?.0 }),
        "normal" | "gauss" => {
            // Without a number, fio takes the mean of 12 uniform numbers (lib/gauss.c), whose deviation this is.
            let (deviation_percent, center) = numbers(v.text, rest, 100.0 / 12.0, 100.0)?;
            let center_percent = center.unwrap_or(0.5) * 100.0;
            Some(Distribution::Normal { deviation_percent, center_percent })
        }
        "zoned" => Some(Distribution::Zoned(zones(one_direction(list("60/10:40/90")?)?)?)),
        "zoned_abs" => {
            let zones = one_direction(list("60/10g:40/90g")?)?;
            Some(Distribution::ZonedAbs(absolute_zones(v.with(zones))?))
        }
        "sequence" => {
            let blocks = sequence(list("2,0,1")?)?;
            Some(Distribution::Sequence { blocks, stride: false })
        }
        other => {
            let known = "random, zipf, pareto, normal, zoned, zoned_abs, sequence";
            return Err(format!("invalid distribution '{other}'; valid values are {known}"));
        }
    };
    Ok(())
}

/// The parameter of a distribution, above 0 and below `high`, and its center, from 0 to 1.
fn numbers(
    text: &str,
    rest: Option<&str>,
    default: f64,
    high: f64,
) -> Result<(f64, Option<f64>), String> {
    let Some(rest) = rest else { return Ok((default, None)) };
    let (first, center) = rest.split_once(':').map_or((rest, None), |(a, b)| (a, Some(b)));
    let parameter = first.parse::<f64>().ok().filter(|n| *n > 0.0 && *n < high);
    let parameter = parameter.ok_or_else(|| {
        format!("invalid parameter in '{text}'; use a number between 0 and {high}, exclusive")
    })?;
    match center.map(str::parse::<f64>) {
        None => Ok((parameter, None)),
        Some(Ok(center)) if (0.0..=1.0).contains(&center) => Ok((parameter, Some(center))),
        Some(_) => Err(format!("invalid center in '{text}'; use a number from 0 to 1")),
    }
}

fn one_direction(zones: &str) -> Result<&str, String> {
    match zones.contains(',') {
        true => Err("zones per direction are not supported; use one job per direction".into()),
        false => Ok(zones),
    }
}

fn sequence(text: &str) -> Result<Vec<u64>, String> {
    let block = |part: &str| {
        let number = part.trim().parse::<u32>().map(u64::from);
        number.map_err(|_| format!("invalid block '{part}' in the sequence; use numbers from 0"))
    };
    let blocks = text.split(',').map(block).collect::<Result<Vec<u64>, _>>()?;
    if blocks.len() > SEQUENCE_MAX {
        let count = blocks.len();
        return Err(format!("the sequence has {count} blocks; use at most {SEQUENCE_MAX}"));
    }
    Ok(blocks)
}
