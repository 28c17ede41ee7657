//! `cargo xtask agree`: figures of fathom's samplers beside those of the tools that people know, of
//! the same seconds.

mod load;
mod peers;

use crate::Result;
use crate::bench::aligned;
use clap::Args;
use fathom_analysis::machine::{self, MachineRates};
use fathom_model::watch::SamplerCost;
use fathom_watch::disks::DiskSampler;
use fathom_watch::system::SystemSampler;
use fathom_watch::{Sampler, Watcher};
use load::Load;
use peers::{PEERS, Peer};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[derive(Args)]
pub struct Options {
    /// How long all look, in seconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// A directory on a disk, for the load's files; nothing is left in it.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Make no load: look at what the machine does anyway.
    #[arg(long)]
    no_load: bool,
    /// Show all figures, also those too small to tell.
    #[arg(long)]
    all: bool,
}

/// One figure, seen by fathom and by another tool.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    figure: String,
    ours: f64,
    theirs: f64,
    /// Differences up to this are those of when each looked, or of rounding in print.
    floor: f64,
}

/// Between two looks of the samplers.
const INTERVAL: Duration = Duration::from_millis(50);

/// What counts as the same.
const WITHIN: f64 = 0.02;

impl Row {
    fn new(figure: impl Into<String>, ours: f64, theirs: f64, floor: f64) -> Self {
        Self { figure: figure.into(), ours, theirs, floor }
    }

    /// Difference in parts of the other tool's figure.
    fn difference(&self) -> f64 {
        if self.theirs == 0.0 { 0.0 } else { self.ours / self.theirs - 1.0 }
    }

    fn agrees(&self) -> bool {
        let apart = (self.ours - self.theirs).abs();
        apart <= self.floor || apart <= WITHIN * self.theirs.abs()
    }

    /// Whether there is more to compare than the smallest that can be told apart.
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

/// Runs all tools beside the samplers and prints the table.
pub fn run(options: &Options) -> Result<()> {
    let load = if options.no_load { None } else { Some(Load::start(&options.dir)?) };
    if load.is_some() {
        // The load's first moments are its start.
        std::thread::sleep(Duration::from_secs(2));
    }
    let (children, rates, cost) = look(options.seconds)?;
    drop(load);
    let mut lines =
        vec![["tool", "figure", "fathom", "tool", "difference", ""].map(str::to_string)];
    let (mut telling, mut apart) = (0, 0);
    for (peer, child) in children {
        let rows = match child.and_then(|child| rows(peer, child, &rates, options.seconds)) {
            Ok(rows) => rows,
            Err(error) => {
                eprintln!("xtask: {}: {error}", peer.program);
                continue;
            }
        };
        let shown = |row: &&Row| options.all || row.is_telling() || !row.agrees();
        lines.extend(rows.iter().filter(shown).map(|row| row.cells(peer.program)));
        telling += rows.iter().filter(|row| row.is_telling()).count();
        apart += rows.iter().filter(|row| !row.agrees()).count();
    }
    println!("{}", aligned(&lines));
    println!(
        "\n{} s; {telling} figures large enough to tell; {apart} differ by more than 2%.",
        options.seconds
    );
    for SamplerCost { sampler, looks, cpu_ns, .. } in cost {
        let us = cpu_ns as f64 / 1e3 / looks.max(1) as f64;
        println!("{sampler}: {looks} looks, {us:.0} µs of processor time each");
    }
    Ok(())
}

type Started = Vec<(&'static Peer, Result<Child>)>;

/// Starts the tools, which look at once and after `seconds`, and looks with them, and in between as
/// often as the samplers are meant to be able to.
fn look(seconds: u32) -> Result<(Started, MachineRates, Vec<SamplerCost>)> {
    let (proc, sys) = (Path::new("/proc"), Path::new("/sys"));
    let samplers: Vec<Box<dyn Sampler>> = vec![
        Box::new(DiskSampler::open(proc, sys)?),
        Box::new(SystemSampler::open(proc, sys, None)?),
    ];
    let children = PEERS.iter().map(|peer| (peer, start(peer, seconds))).collect();
    let watcher = Watcher::start(samplers, INTERVAL)?;
    let earlier = watcher.samples.recv()?;
    std::thread::sleep(Duration::from_secs(seconds.into()));
    let later = watcher.stop().pop().ok_or("the samplers ended early")?;
    let elapsed_ns = (later.at - earlier.at).as_nanos() as u64;
    let rates = machine::rates(&earlier.machine, &later.machine, elapsed_ns);
    Ok((children, rates, later.machine.cost))
}

fn start(peer: &Peer, seconds: u32) -> Result<Child> {
    let words = peer.arguments.replace("SECONDS", &seconds.to_string());
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

fn rows(peer: &Peer, child: Child, rates: &MachineRates, seconds: u32) -> Result<Vec<Row>> {
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(output.status.to_string().into());
    }
    (peer.rows)(&String::from_utf8_lossy(&output.stdout), rates, f64::from(seconds))
}

/// Three to four digits.
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
