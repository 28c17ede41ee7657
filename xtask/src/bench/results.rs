//! Figures of all rounds, and their ratios.

use super::cases::Case;
use super::tools::Tool;

/// A measured figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    Iops,
    /// I/Os per CPU time, relative to a concurrent program.
    Beside,
    /// CPU time of the threads that do no I/O.
    Others,
    CpuPerIo,
    UserInstructions,
    KernelInstructions,
    /// Time per I/O minus the device's own.
    Overhead,
    StartTime,
    Memory,
}

impl Figure {
    pub fn name(self) -> &'static str {
        match self {
            Figure::Iops => "I/Os per second",
            Figure::Beside => "I/Os relative to the concurrent program",
            Figure::Others => "its other threads, % of one CPU",
            Figure::CpuPerIo => "CPU time per I/O, ns",
            Figure::UserInstructions => "user instructions per I/O",
            Figure::KernelInstructions => "kernel instructions per I/O",
            Figure::Overhead => "time per I/O less the device's own, µs",
            Figure::StartTime => "start to exit, ms",
            Figure::Memory => "peak memory less the buffers, MiB",
        }
    }

    pub fn more_is_better(self) -> bool {
        matches!(self, Figure::Iops | Figure::Beside)
    }
}

/// The figures of one run.
pub type Measured = Vec<(Figure, f64)>;

/// A goal for fathom: `limit` times a peer's figure, or `limit` itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    pub figure: Figure,
    pub peer: Peer,
    pub limit: f64,
}

/// The reference of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// None: an absolute goal.
    None,
    Tool(Tool),
    /// The peer with the highest IOPS.
    Fastest,
}

impl Goal {
    pub fn is_met(&self, value: f64) -> bool {
        if self.figure.more_is_better() { value >= self.limit } else { value <= self.limit }
    }

    pub fn text(&self) -> String {
        let sign = if self.figure.more_is_better() { '≥' } else { '≤' };
        let times = if self.peer != Peer::None { " ×" } else { "" };
        format!("{sign} {}{times}", self.limit)
    }
}

/// All rounds of a case.
pub struct Rounds {
    pub case: &'static Case,
    /// Each round: the tools' figures.
    rounds: Vec<Vec<(Tool, Measured)>>,
    /// Command lines, one for each tool.
    pub commands: Vec<String>,
    pub notes: Vec<String>,
    pub failed: bool,
}

impl Rounds {
    pub fn new(case: &'static Case) -> Self {
        let (rounds, commands, notes) = Default::default();
        Self { case, rounds, commands, notes, failed: false }
    }

    pub fn begin_round(&mut self) {
        self.rounds.push(Vec::new());
    }

    pub fn add(&mut self, tool: Tool, measured: Measured) {
        if let Some(round) = self.rounds.last_mut() {
            round.push((tool, measured));
        }
    }

    pub fn keep_command(&mut self, command: String) {
        if !self.commands.contains(&command) {
            self.commands.push(command);
        }
    }

    pub fn fail(&mut self, tool: Tool, reason: &str) {
        eprintln!("{}: {} failed: {reason}", self.case.name, tool.name());
        self.notes.push(format!("{} failed: {reason}", tool.name()));
        self.failed = true;
    }

    /// The measured figures, in order.
    pub fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for (figure, _) in self.rounds.iter().flatten().flat_map(|(_, measured)| measured) {
            if !figures.contains(figure) {
                figures.push(*figure);
            }
        }
        figures
    }

    /// A tool's figure over all rounds.
    pub fn values(&self, tool: Tool, figure: Figure) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(|round| value(round, tool, figure)).collect())
    }

    /// The peer with the highest median IOPS.
    pub fn fastest_peer(&self) -> Option<Tool> {
        let peers = [Tool::Fio, Tool::FioTuned, Tool::TIoUring, Tool::TIoUringHalf];
        let iops = |tool: &Tool| self.values(*tool, Figure::Iops).map_or(0.0, |iops| iops.median);
        let fastest = peers.into_iter().max_by(|a, b| iops(a).total_cmp(&iops(b)))?;
        (iops(&fastest) > 0.0).then_some(fastest)
    }

    /// fathom's figure over a peer's, or a variant's over fathom's, round by round.
    pub fn ratios(&self, peer: Tool, figure: Figure) -> Option<Spread> {
        let ratio = |round: &Vec<(Tool, Measured)>| {
            let (own, its) = (value(round, Tool::Fathom, figure)?, value(round, peer, figure)?);
            Some(if peer.is_variant() { its / own } else { own / its })
        };
        Spread::of(self.rounds.iter().filter_map(ratio).collect())
    }
}

fn value(round: &[(Tool, Measured)], tool: Tool, figure: Figure) -> Option<f64> {
    let (_, measured) = round.iter().find(|(have, _)| *have == tool)?;
    measured.iter().find(|(have, _)| *have == figure).map(|(_, value)| *value)
}

/// A median with minimum and maximum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        let median = median(&mut values)?;
        Some(Self { median, min: *values.first()?, max: *values.last()? })
    }
}

/// Sorts the values and returns their median.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (lower, upper) =
        (values.get(values.len().saturating_sub(1) / 2)?, values.get(values.len() / 2)?);
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cases::CASES;

    #[test]
    fn medians() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0]), Some(3.0));
        assert_eq!(median(&mut [9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let mut rounds = Rounds::new(&CASES[0]);
        for (fathom, fio) in [(20.0, 10.0), (90.0, 30.0), (10.0, 10.0)] {
            rounds.begin_round();
            rounds.add(Tool::Fathom, vec![(Figure::Iops, fathom)]);
            rounds.add(Tool::Fio, vec![(Figure::Iops, fio)]);
        }
        let ratios = rounds.ratios(Tool::Fio, Figure::Iops).unwrap();
        assert_eq!(ratios, Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(rounds.ratios(Tool::TIoUring, Figure::Iops), None);
        assert_eq!(rounds.fastest_peer(), Some(Tool::Fio));
        rounds.add(Tool::TIoUring, vec![(Figure::Iops, 50.0)]);
        assert_eq!(rounds.fastest_peer(), Some(Tool::TIoUring));
        rounds.add(Tool::WatchFull, vec![(Figure::Iops, 9.0)]);
        assert_eq!(rounds.ratios(Tool::WatchFull, Figure::Iops).unwrap().median, 0.9);
        assert_eq!(rounds.figures(), [Figure::Iops]);
    }

    #[test]
    fn goals_know_which_way_is_better() {
        let goal = |figure, limit| Goal { figure, peer: Peer::None, limit };
        assert!(goal(Figure::Iops, 3.0).is_met(3.1) && !goal(Figure::Iops, 3.0).is_met(2.9));
        assert!(goal(Figure::Memory, 64.0).is_met(9.0) && !goal(Figure::Memory, 64.0).is_met(65.0));
    }
}
