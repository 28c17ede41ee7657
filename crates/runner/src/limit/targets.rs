//! The targets of a search: those named by the user, or a scratch file.

use super::executor::{EngineExecutor, Place};
use super::{LimitOptions, OpenError};
use crate::run::Hooks;
use crate::sources::System;
use crate::targets::{self, OpenTargets};
use crate::wording::Vocabulary;
use fathom_machine::guard::{self, OpenTarget, WorkerOpen};
use fathom_machine::{Lookup, Roots};
use fathom_model::experiment::{Condition, Load as Job};
use fathom_model::facts::{TargetFacts, TargetKind};
use fathom_model::limit::Phase;
use fathom_model::plan::{Fallocate, Plan, SyncIo, Target};
use fathom_model::units;
use fathom_model::window::{Conditions, Load, Probe, Rw, Setting};
use std::os::unix::fs::MetadataExt;

/// Opens the targets named in `options`, or creates and fills a scratch file; returns how each is read.
pub(super) fn open(
    options: &LimitOptions,
    hooks: &mut dyn Hooks,
) -> Result<(OpenTargets, Vec<Conditions>), OpenError> {
    if options.targets.is_empty() { on_scratch(options, hooks) } else { named(options, hooks) }
}

fn on_scratch(
    options: &LimitOptions,
    hooks: &mut dyn Hooks,
) -> Result<(OpenTargets, Vec<Conditions>), OpenError> {
    let roots = Roots::default();
    let (dir, cancel) = (&options.scratch_dir, &options.cancel);
    check_scratch_dir(dir)?;
    let target = targets::scratch_file(dir, options.scratch_size, cancel, hooks)?;
    let conditions = vec![Conditions { direct: is_direct(&target, hooks), scratch: true }];
    let mut targets =
        OpenTargets::with(fathom_machine::host(&roots), vec![target], Vocabulary::Limit);
    suits(options, &targets, &conditions)?;
    try_ring(&targets, &conditions)?;
    let filled =
        targets.lay_out(cancel, |_, done, total| hooks.laying_out("the scratch file", done, total));
    // If cancelled, nothing is read, and the result reports it.
    filled.or_else(|error| cancel.reason().map(|_| ()).ok_or(error))?;
    Ok((targets, conditions))
}

fn named(
    options: &LimitOptions,
    hooks: &mut dyn Hooks,
) -> Result<(OpenTargets, Vec<Conditions>), OpenError> {
    let roots = Roots::default();
    let lookup = Lookup::new(&roots);
    let stop = || options.cancel.reason().is_some();
    let block_bytes_min = options.blocks.iter().map(|spec| spec.block_bytes).min().unwrap_or(1);
    for path in &options.targets {
        if path.is_empty() {
            return Err(EMPTY_NAME.to_string().into());
        }
        let facts = lookup.target(path);
        check(&facts.map_err(|e| format!("cannot read {path}: {e}"))?, block_bytes_min)?;
    }
    let written = options.blocks.iter().any(|spec| spec.rw.modifies());
    let target = |path: &String| Target { written, ..read_only(path) };
    let plan = Plan { targets: options.targets.iter().map(target).collect(), ..Plan::default() };
    let opened = guard::open_all(&roots, &plan, &options.permissions, &stop);
    let opened = opened.map_err(|e| e.to_string())?;
    differ(&opened)?;
    let condition = |t| Conditions { direct: is_direct(t, hooks), scratch: false };
    let conditions: Vec<_> = opened.iter().map(condition).collect();
    let targets = OpenTargets::with(fathom_machine::host(&roots), opened, Vocabulary::Limit);
    suits(options, &targets, &conditions)?;
    try_ring(&targets, &conditions)?;
    Ok((targets, conditions))
}

/// Checks each kind of I/O on each target as `fathom run` checks a job: block sizes, alignment, sizes.
fn suits(
    options: &LimitOptions,
    targets: &OpenTargets,
    conditions: &[Conditions],
) -> Result<(), OpenError> {
    for (target, condition) in targets.facts.targets.iter().zip(conditions) {
        for spec in &options.blocks {
            let keys = [
                format!("rw={}", spec.rw),
                format!("bs={}", spec.block_bytes),
                format!("direct={}", u8::from(condition.direct)),
                "ioengine=io_uring".to_string(),
                "runtime=1s".to_string(),
                "time_based=1".to_string(),
            ];
            let job = Condition { load: Job::Job(keys.to_vec()), ..Condition::default() };
            let path = [target.path.clone()];
            let args = fathom_spec::experiment::condition_args(&job, &path);
            let parsed = fathom_spec::parse(&args, &System::default());
            let planned = parsed.map_err(|e| e.to_string()).and_then(|parsed| {
                fathom_spec::plan(&parsed, &targets.facts).map_err(|e| e.to_string())
            });
            planned.map_err(OpenError::Options)?;
        }
    }
    Ok(())
}

const EMPTY_NAME: &str = "a target's name is empty (''); name a file or block device, or omit the target to use a scratch file";

/// A removed working directory can still be opened, but no file can be created in it.
fn check_scratch_dir(dir: &str) -> Result<(), String> {
    match std::fs::metadata(dir) {
        Ok(found) if found.is_dir() && found.nlink() == 0 => Err(format!(
            "cannot create a scratch file in {dir}: the directory was deleted; change to another one, or use \
             --scratch-dir=DIR"
        )),
        // Other errors are reported when the file is created.
        _ => Ok(()),
    }
}

/// Checks with a NOP ring whether io_uring is available.
fn try_ring(targets: &OpenTargets, conditions: &[Conditions]) -> Result<(), String> {
    let load = Load::nop(Setting { workers: 1, depth: 1 });
    let probe = Probe {
        phase: Phase::Own,
        loads: vec![load],
        block_bytes: 512,
        rw: Rw::Randread,
        cores: None,
        ramp_ns: 0,
        window_ns: 5_000_000,
    };
    EngineExecutor::new(targets, conditions.to_vec(), Place::ALONE).window(&probe).map(|_| ())
}

fn read_only(path: &str) -> Target {
    Target {
        path: path.to_string(),
        within: None,
        create_size: None,
        fallocate: Fallocate::None,
        fill: false,
        create_on_open: false,
        unlink: false,
        invalidate: true,
        written: false,
        trimmed: false,
    }
}

/// Rejects targets that this command cannot use; the guard rejects others.
fn check(facts: &TargetFacts, block_bytes_min: u64) -> Result<(), String> {
    let path = &facts.path;
    match facts.kind {
        TargetKind::Missing => Err(format!(
            "{path} does not exist; check the name, or omit the target to use a scratch file"
        )),
        TargetKind::Directory => {
            Err(format!("{path} is a directory; name a file in it, or use --scratch-dir={path}"))
        }
        TargetKind::File | TargetKind::BlockDevice if facts.size_bytes < block_bytes_min => {
            Err(format!(
                "{path} has {} bytes, less than one block of {}; name a larger target",
                facts.size_bytes,
                units::bytes(block_bytes_min)
            ))
        }
        TargetKind::File | TargetKind::BlockDevice => Ok(()),
        TargetKind::NvmeGeneric
        | TargetKind::ScsiGeneric
        | TargetKind::ScsiBsg
        | TargetKind::Other => {
            Err(format!("{path} is neither a regular file nor a block device; name one of those"))
        }
    }
}

/// Rejects a target named twice, which would appear as two that slow each other down.
fn differ(targets: &[OpenTarget]) -> Result<(), String> {
    for (n, second) in targets.iter().enumerate() {
        if let Some(first) = targets[..n].iter().find(|t| t.facts.resolved == second.facts.resolved)
        {
            return Err(format!(
                "{} and {} are the same target; name it once",
                first.facts.path, second.facts.path
            ));
        }
    }
    Ok(())
}

/// Whether it can be opened with O_DIRECT; if not, reports it.
fn is_direct(target: &OpenTarget, hooks: &mut dyn Hooks) -> bool {
    let how = WorkerOpen { direct: true, write: false, sync_io: SyncIo::None };
    let refused = match target.facts.direct_align {
        Some(0) => Some("its file system does not support it".to_string()),
        _ => target.open_worker(how).err().map(|e| e.to_string()),
    };
    if let Some(why) = &refused {
        hooks.notice(&format!(
            "{} cannot be read with O_DIRECT ({why}); reading through the page cache, so the figures are largely \
             those of memory",
            target.facts.path
        ));
    }
    refused.is_none()
}
