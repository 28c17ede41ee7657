//! One tool in a case: command line, runs, figures.

use super::Env;
use super::beside::{self, Program};
use super::cases::{Case, Measure};
use super::results::{Figure, Measured};
use super::tools::{self, Done, End, Form, Tool};
use crate::Result;
use crate::fixtures::{Disk, Fixture};
use crate::run::{self, Finished, Probe};
use fathom_watch::counters::Counters;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub struct Work<'a> {
    case: &'a Case,
    tool: Tool,
    path: &'a Path,
    keys: &'a [String],
    target: &'a Path,
    permission: Option<String>,
    dir: &'a Path,
    job_file: PathBuf,
    env: &'a Env,
    /// How long it works: in one run or, to exclude the cost of starting, in two.
    lengths: Vec<End>,
}

/// Keys of the fathom that shares a CPU with a tool.
const REFERENCE: &str = "iodepth=128 iodepth_batch_submit=32 iodepth_batch_complete_min=32 direct=1 norandommap=1 \
    ioengine=io_uring fixedbufs=1 registerfiles=1";

pub fn permitted(case: &Case, env: &Env) -> Result<()> {
    match case.measure {
        Measure::Instructions => {
            Counters::open(0).map(drop).map_err(|missing| missing.to_string().into())
        }
        Measure::Overhead => Disk::below(env.scratch.path())?.snapshot().map(drop),
        _ => Ok(()),
    }
}

type Run = (Finished, Done);

impl<'a> Work<'a> {
    /// `None` if the tool is not part of the case.
    pub fn new(case: &'a Case, tool: Tool, fixture: &'a Fixture, env: &'a Env) -> Option<Self> {
        let (_, path) = env.paths.iter().find(|(have, _)| *have == tool)?;
        let (long, short) = if case.in_row { (2, 1) } else { (5, 2) };
        let seconds = env.seconds.unwrap_or(if env.quick { short } else { long });
        // t/io_uring prints a line at the end of each second but the last.
        let is_mute = tool.form() == Form::TIoUring && seconds < 2;
        let seconds = End::Seconds(if is_mute { 2 } else { seconds });
        let lengths = match case.measure {
            Measure::Instructions if tool != Tool::TIoUring => {
                vec![End::Ios(50_000), End::Ios(if env.quick { 300_000 } else { 1_000_000 })]
            }
            Measure::Start => vec![End::Ios(1)],
            Measure::Beside => vec![End::Seconds((window(env) + beside::MARGIN).as_secs() as u32)],
            _ => vec![seconds],
        };
        let keys = case.keys(tool)?;
        let permission = fixture
            .permission()
            .filter(|_| tool == Tool::Fathom && keys.iter().any(|key| key.starts_with("rw=rand")));
        let dir = env.scratch.path();
        let job_file = dir.join(format!("{}.fio", case.name));
        let target = fixture.path();
        Some(Self { case, tool, path, keys, target, permission, dir, job_file, env, lengths })
    }

    /// The complete command line and the job file, so that readers can repeat it.
    pub fn description(&self) -> String {
        let Some(end) = self.lengths.last() else { return String::new() };
        let command = format!("{} {}", self.tool.program(), self.args(*end).join(" "));
        if self.case.measure == Measure::Beside {
            format!("{command}  # on CPU {}", last_cpu())
        } else if self.case.job_file {
            format!("{command}  # {}", self.job(*end).join(" "))
        } else {
            command
        }
    }

    fn args(&self, end: End) -> Vec<String> {
        let (tool, keys) = (self.tool, self.keys);
        let mut args = match (tool.form(), end) {
            (Form::TIoUring, _) => tool.own_form(self.target, keys, end),
            (Form::Threads | Form::Psn, End::Seconds(seconds)) => tool.sampler(keys, seconds),
            _ if self.case.job_file => tool.job_file(&self.job_file),
            _ => tool.fio_form(self.target, keys, end),
        };
        args.extend(self.permission.clone());
        args
    }

    fn job(&self, end: End) -> Vec<String> {
        let mut lines = vec!["[bench]".to_string(), format!("filename={}", self.target.display())];
        lines.extend(["rw=randread", "bs=4k"].map(String::from));
        lines.extend(self.keys.iter().cloned().chain(end.keys()));
        lines
    }

    pub fn measure(&self) -> Result<Measured> {
        match self.case.measure {
            Measure::Speed => {
                let run = self.run_last(Probe::Nothing)?;
                Ok(vec![(Figure::Iops, run.1.iops), cpu_per_io(&run)])
            }
            Measure::Beside => self.beside(),
            Measure::Instructions => self.instructions(),
            Measure::Overhead => self.overhead(),
            Measure::Sampling => {
                let end = *self.lengths.last().ok_or("a case without a length")?;
                let finished = run::run(self.path, &self.args(end), self.dir, Probe::Nothing)?;
                tools::sampling(self.tool.form(), &finished)
            }
            Measure::Start => {
                let (finished, _) = self.run_last(Probe::Nothing)?;
                Ok(vec![(Figure::StartTime, finished.wall.as_secs_f64() * 1e3)])
            }
            Measure::Memory { fathom_jobs, peer_jobs } => {
                let (finished, _) = self.run_last(Probe::PeakMemory)?;
                let jobs = if self.tool == Tool::Fathom { fathom_jobs } else { peer_jobs };
                let buffers = f64::from(jobs) * 128.0 * 4096.0;
                let beyond = finished.memory_bytes as f64 - buffers;
                Ok(vec![(Figure::Memory, beyond / f64::from(1 << 20))])
            }
        }
    }

    fn run_last(&self, probe: Probe) -> Result<Run> {
        let end = self.lengths.last().ok_or("a case without a length")?;
        self.run(*end, probe)
    }

    fn run(&self, end: End, probe: Probe) -> Result<Run> {
        if self.case.job_file {
            std::fs::write(&self.job_file, self.job(end).join("\n") + "\n")?;
        }
        let finished = run::run(self.path, &self.args(end), self.dir, probe)?;
        let done = self.tool.read_output(&finished.stdout, end)?;
        Ok((finished, done))
    }

    /// The tool's work while it shares a CPU with a fathom that reads a sparse file.
    fn beside(&self) -> Result<Measured> {
        let end = *self.lengths.last().ok_or("a case without a length")?;
        let (_, fathom) =
            self.env.paths.iter().find(|(tool, _)| *tool == Tool::Fathom).ok_or("no fathom")?;
        let keys: Vec<String> = REFERENCE.split(' ').map(String::from).collect();
        let reference = Tool::Fathom.fio_form(&self.env.reference, &keys, end);
        let reference = on_one_processor(Tool::Fathom, fathom, reference);
        let tool = on_one_processor(self.tool, self.path, self.args(end));
        let against = beside::measure(&tool, &reference, self.dir, window(self.env))?;
        Ok(vec![(Figure::Beside, against.ios), (Figure::Others, against.others * 100.0)])
    }

    /// Instructions per I/O: the difference of two runs, which excludes starting, or all of one run if the tool has no
    /// option for the number of I/Os.
    fn instructions(&self) -> Result<Measured> {
        let (end, done) = self.run_last(Probe::Instructions)?;
        let ((user, mut kernel), mut ios) = (end.instructions(), done.ios);
        let mut user = user.ok_or("no hardware counter was free while the tool ran")?;
        if let [shorter, _] = self.lengths[..] {
            let (start, done) = self.run(shorter, Probe::Instructions)?;
            let then = start.instructions();
            user -= then.0.unwrap_or_default();
            ios -= done.ios;
            kernel = kernel.zip(then.1).map(|(n, then)| n - then);
        }
        let mut measured = vec![(Figure::UserInstructions, user / ios)];
        measured.extend(kernel.map(|kernel| (Figure::KernelInstructions, kernel / ios)));
        Ok(measured)
    }

    /// At QD1, an I/O takes 1 ÷ IOPS. The part beyond the device's time is the tool's and the kernel's; the kernel's is the
    /// same for all tools.
    fn overhead(&self) -> Result<Measured> {
        let disk = Disk::below(self.target)?;
        let before = disk.snapshot()?;
        let run = self.run_last(Probe::Nothing)?;
        let device_ns = disk.read_time_ns(&before)?;
        let iops = run.1.iops;
        let overhead_us = (1e9 / iops - device_ns) / 1e3;
        Ok(vec![(Figure::Overhead, overhead_us), cpu_per_io(&run), (Figure::Iops, iops)])
    }
}

fn window(env: &Env) -> Duration {
    Duration::from_secs(if env.quick { 1 } else { 8 })
}

/// The last allowed CPU, because the first one has most of the interrupts.
fn last_cpu() -> usize {
    let allowed = sched_getaffinity(None).ok();
    allowed.and_then(|set| (0..CpuSet::MAX_CPU).rfind(|cpu| set.is_set(*cpu))).unwrap_or(0)
}

/// The program with its workers on [`last_cpu`]; fathom's samplers are not bound.
fn on_one_processor(tool: Tool, path: &Path, mut args: Vec<String>) -> Program {
    if tool == Tool::TIoUring {
        let pinned = ["-c".to_string(), last_cpu().to_string(), path.display().to_string()];
        return Program { path: "taskset".into(), args: [&pinned[..], &args].concat() };
    }
    args.push(format!("--cpus_allowed={}", last_cpu()));
    Program { path: path.to_path_buf(), args }
}

fn cpu_per_io((finished, done): &Run) -> (Figure, f64) {
    (Figure::CpuPerIo, finished.cpu.as_secs_f64() * 1e9 / done.ios)
}
