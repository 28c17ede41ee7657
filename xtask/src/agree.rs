//! `cargo xtask agree`: figures of fathom's samplers compared with those of standard tools over the same
//! interval.

mod derived;
mod load;
mod peers;
mod perf;

use crate::Result;
use crate::table::aligned;
use clap::Args;
use fathom_analysis::machine::{self, MachineRates};
use fathom_model::watch::{BlocksSample, DiskKind, MachineSample, SamplerCost, Stack};
use fathom_watch::blocks::{BlockSampler, BlocksOptions, Devices};
use fathom_watch::disks::DiskSampler;
use fathom_watch::system::SystemSampler;
use fathom_watch::{
    Clock, Sampler, StackSampler, StackSettings, TimedSample, TraceCoverage, Watcher,
};
use load::Load;
use peers::{PEERS, Peer};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct Options {
    /// Length of the interval, in seconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// A directory on a disk for the load's files, which are deleted afterwards.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Create no load; compare on the machine as it is.
    #[arg(long)]
    no_load: bool,
    /// Compare derived figures instead: thread states, system calls, driver times, CPU time per I/O.
    #[arg(long)]
    derived: bool,
    /// The fathom whose CPU time per I/O is compared, instead of building it.
    #[arg(long, requires = "derived")]
    fathom: Option<PathBuf>,
    /// Print all figures, including those too small to compare.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Row {
    figure: String,
    ours: f64,
    theirs: f64,
    /// Differences up to this come from sampling times or rounding.
    floor: f64,
}

#[derive(Default)]
struct SamplerFigures {
    rates: MachineRates,
    blocks: Option<BlocksSample>,
    places: perf::Places,
    seconds: f64,
    /// The tool's data file, if it has one.
    data: PathBuf,
}

const INTERVAL: Duration = Duration::from_millis(50);

const WITHIN: f64 = 0.02;

impl Row {
    fn new(figure: impl Into<String>, ours: f64, theirs: f64, floor: f64) -> Self {
        Self { figure: figure.into(), ours, theirs, floor }
    }

    fn difference(&self) -> f64 {
        if self.theirs == 0.0 { 0.0 } else { self.ours / self.theirs - 1.0 }
    }

    fn agrees(&self) -> bool {
        let apart = (self.ours - self.theirs).abs();
        apart <= self.floor || apart <= WITHIN * self.theirs.abs()
    }

    fn is_telling(&self) -> bool {
        self.ours.abs().max(self.theirs.abs()) > self.floor * 10.0
    }

    fn cells(&self, tool: &str) -> [String; 6] {
        [
            tool.to_string(),
            self.figure.clone(),
            short(self.ours),
            short(self.theirs),
            format!("{:+.1}%", self.difference() * 100.0),
            if self.agrees() { "" } else { "differs" }.to_string(),
        ]
    }
}

pub fn run(options: &Options) -> Result<()> {
    if options.derived {
        return derived::run(options.seconds, &options.dir, options.fathom.as_deref());
    }
    let load = if options.no_load { None } else { Some(Load::start(&options.dir)?) };
    if load.is_some() {
        // Skip the start of the load.
        std::thread::sleep(Duration::from_secs(2));
    }
    let data = tempfile::tempdir()?;
    let (children, mut ours, cost) = look(options.seconds, data.path())?;
    drop(load);
    let (mut shown, mut telling, mut apart) = (Vec::new(), 0, 0);
    for (number, (peer, child)) in children.into_iter().enumerate() {
        ours.data = data.path().join(number.to_string());
        let rows = match child.and_then(|child| rows(peer, child, &ours)) {
            Ok(rows) => rows,
            Err(error) => {
                eprintln!("xtask: {}: {error}", peer.program);
                continue;
            }
        };
        telling += rows.iter().filter(|row| row.is_telling()).count();
        apart += rows.iter().filter(|row| !row.agrees()).count();
        let is_shown = |row: &Row| options.all || row.is_telling() || !row.agrees();
        shown.extend(rows.into_iter().filter(is_shown).map(|row| (peer.program, row)));
    }
    print(&shown);
    println!(
        "\n{} s; {telling} figures large enough to compare; {apart} differ by more than 2%.",
        options.seconds
    );
    for SamplerCost { sampler, samples, cpu_ns, .. } in cost {
        let us = cpu_ns as f64 / 1e3 / samples.max(1) as f64;
        println!("{sampler}: {samples} samples, {us:.0} µs of CPU time each");
    }
    Ok(())
}

fn print(rows: &[(&str, Row)]) {
    let header = ["tool", "figure", "fathom", "tool", "difference", ""].map(str::to_string);
    let cells = rows.iter().map(|(tool, row)| row.cells(tool));
    println!("{}", aligned(&std::iter::once(header).chain(cells).collect::<Vec<_>>()));
}

type Started = Vec<(&'static Peer, Result<Child>)>;

/// Starts the tools, which read their sources immediately and after `seconds`, and runs the samplers at the same times and
/// at their interval in between.
fn look(seconds: u32, data: &Path) -> Result<(Started, SamplerFigures, Vec<SamplerCost>)> {
    let (proc, sys) = (Path::new("/proc"), Path::new("/sys"));
    let mut samplers: Vec<Box<dyn Sampler>> = vec![
        Box::new(DiskSampler::open(proc, sys)?),
        Box::new(SystemSampler::open(proc, sys, None)?),
    ];
    let options = BlocksOptions {
        devices: Devices::Named(used(proc, sys)?),
        one_in: 0,
        each_io: TraceCoverage::Full,
    };
    match BlockSampler::open(proc, sys, &options) {
        Ok(blocks) => samplers.push(Box::new(blocks)),
        Err(error) => eprintln!("xtask: {error}"),
    }
    match StackSampler::open(
        &StackSettings { clock: Clock::Timer, ..StackSettings::default() },
        proc,
        sys,
    ) {
        Ok(stacks) => samplers.push(Box::new(stacks)),
        Err(missing) => eprintln!("xtask: {missing}"),
    }
    let start =
        |(number, peer)| (peer, start(peer, seconds, &data.join(usize::to_string(&number))));
    let children = PEERS.iter().enumerate().map(start).collect();
    let samples = sampled(samplers, INTERVAL, seconds)?;
    let [earlier, .., later] = &samples[..] else { return Err("the samplers ended early".into()) };
    let (mut stacks, mut places) = (Vec::new(), perf::Places::new());
    add(&earlier.machine, &mut stacks, &mut places);
    // Data before the first sample is outside of the interval; its stacks are named later too.
    places.clear();
    samples[1..].iter().for_each(|sample| add(&sample.machine, &mut stacks, &mut places));
    let elapsed_ns = (later.at - earlier.at).as_nanos() as u64;
    let rates = machine::rates(&earlier.machine, &later.machine, elapsed_ns);
    let both = later.machine.blocks.as_ref().zip(earlier.machine.blocks.as_ref());
    let blocks = both.map(|(later, earlier)| fathom_analysis::blocks::since(later, earlier));
    let ours =
        SamplerFigures { rates, blocks, places, seconds: seconds.into(), data: PathBuf::new() };
    Ok((children, ours, later.machine.cost.clone()))
}

/// Samples taken at this interval for `seconds`, beside whatever else runs.
fn sampled(
    samplers: Vec<Box<dyn Sampler>>,
    interval: Duration,
    seconds: u32,
) -> Result<Vec<TimedSample>> {
    let watcher = Watcher::start(samplers, interval)?;
    let mut samples = vec![watcher.samples.recv()?];
    let until = Instant::now() + Duration::from_secs(seconds.into());
    while let Some(rest) = until.checked_duration_since(Instant::now()) {
        samples.extend(watcher.samples.recv_timeout(rest));
    }
    samples.extend(watcher.stop());
    Ok(samples)
}

/// All whole devices with I/O, because perf counts the events of all devices.
fn used(proc: &Path, sys: &Path) -> Result<Vec<String>> {
    let mut machine = MachineSample::default();
    DiskSampler::open(proc, sys)?.take(&mut machine);
    let whole = machine.disks.into_iter().filter(|disk| disk.kind != DiskKind::Partition);
    Ok(whole.map(|disk| disk.name).collect())
}

fn add(machine: &MachineSample, stacks: &mut Vec<Stack>, places: &mut perf::Places) {
    let Some(sample) = &machine.stacks else { return };
    stacks.extend(sample.new.iter().cloned());
    for count in sample.counts.iter().filter(|c| c.pid != 0 && !perf::is_left_out(&c.comm)) {
        let innermost = stacks.get(count.stack as usize).and_then(|stack| stack.kernel.last());
        let place = innermost.map_or_else(|| perf::USER.into(), |name| perf::plain(name));
        *places.entry(place).or_default() += u64::from(count.count);
    }
}

fn start(peer: &Peer, seconds: u32, data: &Path) -> Result<Child> {
    let words = peer.arguments.replace("SECONDS", &seconds.to_string());
    let words = words.replace("DATA", &data.display().to_string());
    let child = Command::new(peer.program)
        .args(words.split(' '))
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    child.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("not here; {}", peer.install).into(),
        _ => error.into(),
    })
}

fn rows(peer: &Peer, child: Child, ours: &SamplerFigures) -> Result<Vec<Row>> {
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(output.status.to_string().into());
    }
    (peer.rows)(&String::from_utf8_lossy(&output.stdout), ours)
}

fn short(value: f64) -> String {
    let digits = if value.abs() < 10.0 { 2 } else { usize::from(value.abs() < 1000.0) };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agrees_and_what_tells() {
        let row = |ours, theirs, floor| Row::new("r/s", ours, theirs, floor);
        assert!(row(101.9, 100.0, 0.1).agrees() && row(0.3, 0.4, 0.2).agrees());
        assert!(!row(102.1, 100.0, 0.1).agrees() && !row(97.9, 100.0, 0.1).agrees());
        assert!(!row(1.0, 0.0, 0.1).agrees());
        assert!(row(5.0, 0.0, 0.1).is_telling() && !row(0.5, 0.6, 0.1).is_telling());
    }

    #[test]
    fn a_row_shows_what_is_far_apart() {
        let cells = Row::new("vda r/s", 1100.0, 1000.0, 0.1).cells("iostat");
        assert_eq!(cells, ["iostat", "vda r/s", "1100", "1000", "+10.0%", "differs"]);
        let cells = Row::new("vda r_await", 1.234, 1.23, 0.01).cells("iostat");
        assert_eq!(cells[2..], ["1.23", "1.23", "+0.3%", ""].map(String::from));
    }
}
