//! `fathom record --ios`: every I/O of some devices, as a trace for `read_iolog`.

use super::Args;
use crate::output::Destination;
use crate::watch::{StopCondition, TICK};
use crate::{quantity, stdio, targets};
use fathom_machine::Roots;
use fathom_model::watch::BlockOp;
use fathom_model::{list, shell, units};
use fathom_report::fio_logs::trace_head;
use fathom_store::Readers;
use fathom_watch::blocks::{IoTrace, QueuedIo};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;
use std::time::Instant;

/// What was written so far.
struct TraceFile {
    file: File,
    /// Paths of the devices, in the order of their indices.
    paths: Vec<String>,
    first_ns: Option<u64>,
    text: String,
    ios: u64,
    flushes: u64,
    /// Writes that complete only once they are durable, which no trace has.
    fua: u64,
    /// Operations that no trace has, such as those on zones.
    others: u64,
}

impl TraceFile {
    /// Creates the file `to`, which the user named as `path`, with what a trace begins with.
    fn create(
        path: &str,
        to: &Destination,
        paths: Vec<String>,
        trace: &IoTrace,
    ) -> Result<Self, String> {
        let fail = |error: io::Error| format!("cannot write {path}: {error}");
        let (dir, name) = to.file_name().map_err(fail)?;
        dir.replace(name, trace_head(&paths).as_bytes(), Readers::Umask).map_err(fail)?;
        let file = dir.append(name).map_err(fail)?;
        if let Ok(meta) = file.metadata()
            && trace.holds((rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev())))
        {
            stdio::info(&format!(
                "fathom: note: {path} is on a device that is recorded, and so are the writes to it; use another disk or \
                 a tmpfs"
            ));
        }
        let (first_ns, text) = (None, String::new());
        Ok(Self { file, paths, first_ns, text, ios: 0, flushes: 0, fua: 0, others: 0 })
    }

    /// What the trace does not hold, and how to replay it.
    fn notes(&self, path: &str) {
        let note = |text: String| stdio::info(&format!("fathom: {text}"));
        let (fua, others) = (self.fua, self.others);
        if fua > 0 {
            note(format!(
                "note: {fua} writes had FUA, which no trace has: a replay makes fewer of them durable"
            ));
        }
        if others > 0 {
            note(format!(
                "note: {others} operations, such as write zeroes or zone commands, have no equivalent in a trace and were \
                 left out"
            ));
        }
        if self.ios > 0 {
            let quoted = shell::quoted(path);
            note(format!(
                "replay: fathom run --name=replay --read_iolog={quoted} --replay_redirect=TARGET --direct=1"
            ));
        }
    }

    fn add(&mut self, io: &QueuedIo) {
        let time_us = io.time_ns.saturating_sub(*self.first_ns.get_or_insert(io.time_ns)) / 1000;
        let path = &self.paths[io.device];
        let action = match io.op {
            BlockOp::Read => "read",
            BlockOp::Write => "write",
            BlockOp::Discard => "trim",
            BlockOp::Flush => "sync",
            BlockOp::Other => {
                self.others += 1;
                return;
            }
        };
        // Writing to a string cannot fail.
        if io.flushes_first {
            self.flushes += 1;
            let _ = writeln!(self.text, "{time_us} {path} sync 0 0");
        }
        self.fua += u64::from(io.fua);
        match io.op {
            BlockOp::Flush => self.flushes += 1,
            _ => self.ios += 1,
        }
        let _ = writeln!(self.text, "{time_us} {path} {action} {} {}", io.offset, io.len);
    }

    fn write(&mut self) -> io::Result<()> {
        self.file.write_all(self.text.as_bytes())?;
        self.text.clear();
        Ok(())
    }
}

/// Records into `path` until the end that `args` say.
pub fn command(args: &Args, path: &str) -> Result<ExitCode, String> {
    if args.devices.is_empty() {
        return Err("--ios needs devices; name them, for example vda".to_string());
    }
    if path == "-" {
        return Err("--ios=-: a trace is not written to standard output; name a file".to_string());
    }
    let names = targets::with_devices_of_files(&Roots::default(), &args.devices)?;
    let to = Destination::open(path, names.iter().map(String::as_str));
    let to =
        to.map_err(|why| why.replace(&format!("--output={path}"), &format!("--ios={path}")))?;
    let mut end = StopCondition::new(&args.command, &[], args.time)?;
    if let Some(code) = end.spawn_error() {
        return Ok(code);
    }
    let roots = Roots::default();
    let open = IoTrace::open(&roots.proc, &roots.sys, &names);
    let mut trace = open.map_err(|error| error.to_string())?;
    let devices: Vec<String> = trace.devices().map(str::to_string).collect();
    let paths = devices.iter().map(|name| format!("/dev/{name}")).collect::<Vec<_>>();
    let mut to = TraceFile::create(path, &to, paths, &trace)?;
    let began = Instant::now();
    end.begin()?;
    let (mut is_met, mut failed) = (false, None);
    while !is_met {
        std::thread::sleep(TICK);
        is_met = end.is_met()?;
        if failed.is_none() {
            trace.drain(|io| to.add(io));
            failed = to.write().err();
        }
    }
    let took = quantity::shown(began.elapsed());
    let shown = list::few(&devices.iter().map(String::as_str).collect::<Vec<_>>(), 4);
    let (ios, flushes) = (units::count(to.ios as f64), units::count(to.flushes as f64));
    stdio::info(&format!(
        "fathom: {ios} I/Os and {flushes} flushes of {shown} in {took}, in {path}"
    ));
    to.notes(path);
    let lost = trace.lost();
    let lost = (lost > 0).then(|| format!("{lost} I/Os came faster than they could be read"));
    let unwritten = failed.map(|error| format!("cannot write {path}: {error}"));
    if let Some(why) = unwritten.or(lost) {
        return Ok(end.exit_code(Err(format!("the trace is incomplete: {why}"))));
    }
    Ok(end.exit_code(Ok(())))
}
