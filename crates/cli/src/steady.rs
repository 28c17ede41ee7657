//! What `fathom run --steady-state=snia` does to targets before the first round: discard all, then write all twice.

use fathom_model::facts::{TargetFacts, TargetKind};
use fathom_model::plan::Permissions;
use fathom_model::record::RunRecord;
use fathom_model::{Dir, Facts, Plan, units};
use fathom_spec::escape_path;

/// Times that the capacity is written ("workload-independent preconditioning"), and the block size.
const PASSES: u64 = 2;
const BLOCK: u64 = 128 << 10;
/// Bytes discarded at a time.
const DISCARD: u64 = 16 << 20;

/// The jobs that prepare the targets, and why some are left out.
#[derive(Debug, Default)]
pub struct Preparation {
    /// Arguments of `fathom run`; empty if nothing can be prepared.
    pub args: Vec<String>,
    pub left_out: Vec<String>,
    bytes: u64,
}

impl Preparation {
    /// Of the devices that `permissions` allow to be erased, and the files that jobs write.
    pub fn of(plan: &Plan, facts: &Facts, permissions: &Permissions) -> Self {
        let mut all = Self::default();
        let mut waves = [Vec::new(), Vec::new()];
        for target in &plan.targets {
            let found = facts.targets.iter().find(|found| found.path == target.path);
            let Some(found) = found else { continue };
            let path = &target.path;
            if target.unlink && found.kind == TargetKind::Missing {
                all.left_out
                    .push(format!("{path} was not written: each round removes it (unlink)"));
                continue;
            }
            let size = match found.kind {
                TargetKind::BlockDevice if may_erase(found, permissions) => found.size_bytes,
                TargetKind::BlockDevice => {
                    all.left_out.push(format!(
                        "{path} was neither discarded nor written: --erase={path} would permit it"
                    ));
                    continue;
                }
                TargetKind::File | TargetKind::Missing if target.written => {
                    target.create_size.unwrap_or(0).max(found.size_bytes)
                }
                TargetKind::File | TargetKind::Missing => {
                    all.left_out.push(format!("{path} was not written: no job writes it"));
                    continue;
                }
                _ => {
                    all.left_out
                        .push(format!("{path} was not written: it is no block device or file"));
                    continue;
                }
            };
            if size == 0 {
                all.left_out.push(format!("{path} was not written: its size is not known before"));
                continue;
            }
            // The largest power of two that fits in.
            let fits = 1 << size.max(1).ilog2();
            let can_discard = found.kind == TargetKind::BlockDevice
                && found.device.as_ref().and_then(|device| device.discard_max_bytes) > Some(0);
            if can_discard {
                waves[0].push(job("discard", path, &format!("rw=trim bs={}", DISCARD.min(fits))));
            } else if found.kind == TargetKind::BlockDevice {
                all.left_out.push(format!("{path} was not discarded: it does not support that"));
            }
            all.bytes += PASSES * size;
            let write = format!(
                "rw=write bs={} size={size} loops={PASSES} iodepth=32 direct=1 refill_buffers=1",
                BLOCK.min(fits)
            );
            waves[1].push(job("precondition", path, &write));
        }
        // The first write waits for all discards.
        waves[1].first_mut().iter_mut().for_each(|first| first.push("--stonewall=1".into()));
        all.args = waves.into_iter().flatten().flatten().collect();
        all
    }

    /// What was done, once it was done as it should be.
    pub fn done(&self, record: &RunRecord) -> Result<String, String> {
        let sum = |dir: Dir| record.jobs.iter().map(|job| job.dirs[dir].counts.bytes).sum::<u64>();
        let (written, discarded) = (sum(Dir::Write), sum(Dir::Trim));
        let is_whole = |written: u64| {
            // The last block of a device may be a part of one.
            let blocks = record.jobs.len() as u64 * PASSES * BLOCK;
            written + blocks >= self.bytes
        };
        if !record.is_complete() || !is_whole(written) {
            let of = units::bytes(self.bytes);
            return Err(format!(
                "the targets are not prepared: {} of {of} were written",
                units::bytes(written)
            ));
        }
        let discarded = match discarded {
            0 => String::new(),
            bytes => format!("{} discarded, then ", units::bytes(bytes)),
        };
        Ok(format!(
            "{discarded}{} written in blocks of {}, {PASSES} times all, in {}",
            units::bytes(written),
            units::bytes(BLOCK),
            units::time(record.header.elapsed_ns as f64)
        ))
    }
}

fn job(name: &str, path: &str, keys: &str) -> Vec<String> {
    let mut args = vec![format!("--name={name}"), format!("--filename={}", escape_path(path))];
    args.extend(keys.split(' ').map(|key| format!("--{key}")));
    args
}

/// Whether the user named this device in `--erase`, by any of its names; the guard checks the rest.
fn may_erase(found: &TargetFacts, permissions: &Permissions) -> bool {
    let is_it = |given: &String| {
        let name = given.rsplit_once('@').map_or(given.as_str(), |(name, _)| name);
        let resolved = std::fs::canonicalize(name);
        [name, given].contains(&found.path.as_str())
            || resolved.is_ok_and(|path| path.to_string_lossy() == found.resolved)
    };
    permissions.erase.iter().any(is_it)
}
