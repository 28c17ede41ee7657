//! Compares fathom with perf: counted events of the block layer, and stack samples.

use super::{Row, SamplerFigures};
use crate::Result;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// Number of functions compared, those with the most samples in perf first.
const PLACES: usize = 12;
/// Label of user mode.
pub const USER: &str = "user mode";

/// Samples by innermost kernel function.
pub type Places = HashMap<String, u64>;

/// What perf stat counts of all devices, and the same of fathom's.
pub fn blocks(output: &str, ours: &SamplerFigures) -> Result<Vec<Row>> {
    let seen = ours.blocks.as_ref().ok_or("events of the block layer were not available")?;
    let count = |event: &str| counted(output, event);
    let sum = |of: fn(&fathom_model::watch::DeviceBlocks) -> u64| {
        seen.devices.iter().map(of).sum::<u64>() as f64
    };
    let requests = |device: &fathom_model::watch::DeviceBlocks| {
        if device.bio_based { 0 } else { device.completed }
    };
    let merged =
        ["block:block_bio_backmerge", "block:block_bio_frontmerge", "block:block_rq_merge"];
    let merged = merged.into_iter().map(count).sum::<Result<f64>>()?;
    let unplugs: u64 = seen.unplugs.iter().map(|(_, unplugs)| unplugs).sum();
    let rows = [
        ("I/Os entered", sum(|device| device.queued), count("block:block_bio_queue")?),
        ("merges", sum(|device| device.merged), merged),
        ("splits", sum(|device| device.split), count("block:block_split")?),
        ("requests issued", sum(|device| device.issued), count("block:block_rq_issue")?),
        ("requests put back", sum(|device| device.requeued), count("block:block_rq_requeue")?),
        ("requests completed", sum(requests), count("block:block_rq_complete")?),
        ("unplugs", unplugs as f64, count("block:block_unplug")?),
    ];
    let row = |(name, ours_, theirs): (&str, f64, f64)| {
        // Both start and end some milliseconds apart.
        Row::new(
            format!("{name}/s"),
            ours_ / ours.seconds,
            theirs / ours.seconds,
            5.0 / ours.seconds,
        )
    };
    Ok(rows.into_iter().map(row).collect())
}

/// A count in the output of perf stat, lines `value,unit,event,…`; it covers the whole interval.
pub fn counted(output: &str, event: &str) -> Result<f64> {
    let line = output.lines().find(|line| line.split(',').nth(2) == Some(event));
    let count = line.and_then(|line| line.split(',').next()?.parse::<f64>().ok());
    Ok(count.ok_or_else(|| format!("no {event} in the output of perf stat"))?)
}

/// Shares of samples, of perf's record in `ours.data`.
pub fn places(_: &str, ours: &SamplerFigures) -> Result<Vec<Row>> {
    shares(&script(&ours.data)?, &ours.places)
}

fn script(data: &Path) -> Result<Places> {
    let output = Command::new("perf")
        .args(["script", "-F", "comm,ip,sym", "-i"])
        .arg(data)
        .env("LC_ALL", "C")
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let mut places = Places::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some(place) = place(line) {
            *places.entry(place).or_default() += 1;
        }
    }
    Ok(places)
}

/// The function of a line `comm address symbol`; `None` for idle CPUs and for the measuring programs.
fn place(line: &str) -> Option<String> {
    let mut at = 0;
    let address = line.split(' ').find_map(|word| {
        let start = at;
        at += word.len() + 1;
        let is_long = word.len() >= 6 && start > 0 && !line[..start].trim().is_empty();
        is_long.then(|| u64::from_str_radix(word, 16).ok().map(|address| (start, address)))?
    });
    let (start, address) = address?;
    if is_left_out(line[..start].trim()) {
        return None;
    }
    // Addresses of the kernel are the upper half.
    if address >> 63 == 0 {
        return Some(USER.into());
    }
    Some(plain(line.get(at..).unwrap_or("").trim()))
}

/// Whether samples of this thread are compared: neither program's own ones are.
pub fn is_left_out(comm: &str) -> bool {
    ["swapper", "perf", "fathom-watch"].contains(&comm)
}

/// A function's name without compiler suffixes and module.
pub fn plain(name: &str) -> String {
    name.split(['.', ' ']).next().unwrap_or_default().to_string()
}

fn shares(theirs: &Places, ours: &Places) -> Result<Vec<Row>> {
    let total = |places: &Places| places.values().sum::<u64>() as f64;
    let (all, all_ours) = (total(theirs), total(ours));
    if all == 0.0 || all_ours == 0.0 {
        return Err("no samples".into());
    }
    let mut names: Vec<(&String, &u64)> = theirs.iter().collect();
    names.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
    let row = |(name, count): (&String, &u64)| {
        let theirs = *count as f64 / all;
        let own = ours.get(name).copied().unwrap_or(0) as f64 / all_ours;
        // Chance: two standard deviations of the difference of two samples of one binomial share.
        let deviation = (theirs * (1.0 - theirs) * (1.0 / all + 1.0 / all_ours)).sqrt();
        Row::new(format!("% {name}"), own * 100.0, theirs * 100.0, deviation * 200.0)
    };
    Ok(names.into_iter().take(PLACES).map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::{BlocksSample, DeviceBlocks};

    #[test]
    fn lines_of_perf_script() {
        let kernel = "            rustc  ffffffff81a0b1c2 clear_page_erms.part.0";
        assert_eq!(place(kernel).as_deref(), Some("clear_page_erms"));
        let user = "  opt cgu.0     55d3a1b2c3d4 core::fmt::write<T, U>";
        assert_eq!(place(user).as_deref(), Some(USER));
        assert_eq!(place("   kworker/0:1-ev  ffffffff81a0b1c2 foo").as_deref(), Some("foo"));
        assert_eq!(place("          swapper  ffffffff81a0b1c2 pv_native_safe_halt"), None);
        assert_eq!(place("     fathom-watch  ffffffff81a0b1c2 foo"), None);
        assert_eq!(place(""), None);
    }

    #[test]
    fn shares_differ_by_chance() {
        let places = |a, b| Places::from([("a".to_string(), a), (USER.to_string(), b)]);
        let rows = shares(&places(1000, 3000), &places(1010, 2990)).unwrap();
        assert_eq!(rows[0].figure, "% user mode");
        assert!(rows.iter().all(Row::agrees), "{rows:?}");
        let rows = shares(&places(1000, 3000), &places(1200, 2800)).unwrap();
        assert!(!rows[1].agrees(), "{rows:?}");
        assert!(shares(&Places::new(), &places(1, 1)).is_err());
    }

    #[test]
    fn counted_events() {
        let lines =
            ["bio_queue", "bio_backmerge", "bio_frontmerge", "rq_merge", "split", "rq_issue"];
        let more = ["rq_requeue", "rq_complete", "unplug"];
        let line = |name: &&str| format!("100,,block:block_{name},1000,100.00,,\n");
        let output: String = lines.iter().chain(&more).map(line).collect();
        let device = |name: &str, bio_based, completed| DeviceBlocks {
            name: name.into(),
            bio_based,
            completed,
            merged: 150,
            ..DeviceBlocks::default()
        };
        let devices = vec![device("vda", false, 100), device("zram0", true, 70)];
        let blocks_seen =
            BlocksSample { devices, unplugs: vec![(1, 99), (2, 1)], ..Default::default() };
        let ours = SamplerFigures {
            blocks: Some(blocks_seen),
            seconds: 10.0,
            ..SamplerFigures::default()
        };
        let rows = blocks(&output, &ours).unwrap();
        for figure in ["requests completed/s", "unplugs/s"] {
            let row = rows.iter().find(|row| row.figure == figure).unwrap();
            assert_eq!((row.ours, row.theirs), (10.0, 10.0), "{figure}");
        }
        assert_eq!((rows[1].ours, rows[1].theirs), (30.0, 30.0));
        assert!(blocks("", &ours).is_err() && blocks(&output, &SamplerFigures::default()).is_err());
    }
}
