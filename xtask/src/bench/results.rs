//! Figures of all rounds, their ratios and goals, as Markdown.

use super::Env;
use super::cases::Case;
use super::tools::Tool;
use crate::programs;
use crate::table::{Spread, aligned};
use fathom_model::{list, units};
use std::fmt::Write;

fathom_model::named! {
    /// By their names in the cases.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Figure {
        Iops = "iops",
        Beside = "beside",
        Others = "others",
        CpuPerIo = "cpu-per-io",
        UserInstructions = "user-instructions",
        KernelInstructions = "kernel-instructions",
        Overhead = "overhead",
        StartTime = "start-time",
        Memory = "memory",
        SampleTime = "sample-time",
        ProgramTime = "program-time",
        Usage = "usage",
        Missed = "missed",
    }
}

fn digits<const N: usize>(value: f64) -> String {
    format!("{value:.N$}")
}

impl Figure {
    /// What tables call it, and how they show it.
    fn spec(self) -> (&'static str, fn(f64) -> String) {
        match self {
            Self::Iops => ("I/Os per second", units::count),
            Self::Beside => ("I/Os relative to the concurrent program", digits::<3>),
            Self::Others => ("its other threads, % of one CPU", digits::<2>),
            Self::CpuPerIo => ("CPU time per I/O, ns", digits::<0>),
            Self::UserInstructions => ("user instructions per I/O", digits::<0>),
            Self::KernelInstructions => ("kernel instructions per I/O", digits::<0>),
            Self::Overhead => ("time per I/O less the device's own, µs", digits::<1>),
            Self::StartTime => ("start to exit, ms", digits::<1>),
            Self::Memory => ("peak memory less the buffers, MiB", digits::<1>),
            Self::SampleTime => ("CPU time per thread sample, µs", digits::<1>),
            Self::ProgramTime => ("the same, of the whole program", digits::<1>),
            Self::Usage => ("% of one CPU", digits::<0>),
            Self::Missed => ("samples missed, %", digits::<0>),
        }
    }

    fn more_is_better(self) -> bool {
        matches!(self, Self::Iops | Self::Beside)
    }
}

pub type Measured = Vec<(Figure, f64)>;

/// A goal for fathom: `limit` times a peer's figure, or `limit` itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    pub figure: Figure,
    pub peer: Peer,
    pub limit: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// None: an absolute goal.
    None,
    Tool(Tool),
    Fastest,
}

impl Goal {
    pub fn is_met(&self, value: f64) -> bool {
        if self.figure.more_is_better() { value >= self.limit } else { value <= self.limit }
    }

    fn text(&self, is_ratio: bool) -> String {
        let sign = if self.figure.more_is_better() { '≥' } else { '≤' };
        let times = if is_ratio { " ×" } else { "" };
        format!("{sign} {}{times}", self.limit)
    }
}

pub struct Rounds<'a> {
    pub case: &'a Case,
    /// Each round: the tools' figures.
    rounds: Vec<Vec<(Tool, Measured)>>,
    pub commands: Vec<String>,
    pub notes: Vec<String>,
    pub failed: bool,
}

impl<'a> Rounds<'a> {
    pub fn new(case: &'a Case) -> Self {
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

    pub fn note(&mut self, note: String) {
        eprintln!("{}: {note}", self.case.name);
        self.notes.push(note);
    }

    fn figures(&self) -> Vec<Figure> {
        let measured = self.rounds.iter().flatten().flat_map(|(_, measured)| measured);
        list::distinct(measured.map(|(figure, _)| *figure))
    }

    fn values(&self, tool: Tool, figure: Figure) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(|round| value(round, tool, figure)))
    }

    fn fastest_peer(&self) -> Option<Tool> {
        let iops = |tool: &Tool| self.values(*tool, Figure::Iops).map_or(0.0, |iops| iops.median);
        let peers = Tool::ALL.into_iter().filter(|tool| !tool.is_fathom());
        peers.max_by(|a, b| iops(a).total_cmp(&iops(b))).filter(|fastest| iops(fastest) > 0.0)
    }

    /// fathom's figure over a peer's, or a variant's over fathom's, round by round.
    fn ratios(&self, peer: Tool, figure: Figure) -> Option<Spread> {
        let ratio = |round: &Vec<(Tool, Measured)>| {
            let (own, its) = (value(round, Tool::Fathom, figure)?, value(round, peer, figure)?);
            Some(if peer.is_fathom() { its / own } else { own / its })
        };
        Spread::of(self.rounds.iter().filter_map(ratio))
    }

    /// `judged` is a ratio or, of a tool that is not compared with fathom's runs, its own figure.
    fn verdict(&self, figure: Figure, peer: Peer, judged: Option<Spread>) -> [String; 2] {
        let goal = self.case.goals.iter().find(|goal| goal.figure == figure && goal.peer == peer);
        let is = match goal.zip(judged) {
            Some((goal, judged)) if goal.is_met(judged.median) => "met",
            Some(_) => "MISSED",
            None => "",
        };
        let is_ratio = peer != Peer::None && self.values(Tool::Fathom, figure).is_some();
        [goal.map_or(String::new(), |goal| goal.text(is_ratio)), is.to_string()]
    }
}

fn value(round: &[(Tool, Measured)], tool: Tool, figure: Figure) -> Option<f64> {
    let (_, measured) = round.iter().find(|(have, _)| *have == tool)?;
    measured.iter().find(|(have, _)| *have == figure).map(|(_, value)| *value)
}

pub fn heading(env: &Env, rounds: u32) -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown CPU", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let load = read("/proc/loadavg");
    let mut text = format!(
        "Linux {}, {count} × {model}, load before {}; {rounds} round{}{}.",
        read("/proc/sys/kernel/osrelease").trim(),
        load.split(' ').next().unwrap_or("unknown"),
        if rounds == 1 { "" } else { "s" },
        if env.quick { ", short (--quick): a test of the benchmarks, not of speed" } else { "" },
    );
    let named = |(tool, _): &&(Tool, _)| matches!(tool, Tool::Fathom | Tool::Fio);
    for (tool, path) in env.paths.iter().filter(named) {
        let version = programs::version(path).unwrap_or_default();
        let version = version.lines().next().unwrap_or("unknown");
        let _ = write!(text, " {}: {version}.", tool.title());
    }
    text
}

pub fn results(cases: &[&Rounds]) -> String {
    let header =
        ["work", "figure", "tool", "median (min–max)", "fathom ÷ it (min–max)", "must be", "is"];
    let mut rows = vec![header.map(String::from)];
    for case in cases {
        let of_figure =
            |figure| Tool::ALL.into_iter().filter_map(move |tool| row(case, figure, tool));
        let first = rows.len();
        rows.extend(case.figures().into_iter().flat_map(of_figure));
        if let Some(row) = rows.get_mut(first) {
            row[0].clone_from(&case.case.title);
        }
    }
    let text = if rows.len() > 1 { aligned(&rows) } else { "No results.".to_string() };
    text + &notes(cases)
}

fn notes(cases: &[&Rounds]) -> String {
    let note = |case: &&Rounds| -> String {
        case.notes.iter().map(|note| format!("\n* {}: {note}", case.case.name)).collect()
    };
    cases.iter().map(note).collect()
}

fn row(case: &Rounds, figure: Figure, tool: Tool) -> Option<[String; 7]> {
    let values = case.values(tool, figure)?;
    let is_peer = tool != Tool::Fathom;
    // A figure of 0 has no ratio.
    let ratios = if is_peer && figure != Figure::Others { case.ratios(tool, figure) } else { None };
    let text = |ratio| match figure {
        _ if tool.is_fathom() => format!("× {ratio:.3}"),
        Figure::Beside => digits::<3>(ratio),
        _ => ratio_text(ratio),
    };
    // A peer's goal is for the ratio; fathom's own is for the figure itself.
    let (peer, judged) = if is_peer {
        (Peer::Tool(tool), ratios.or(Some(values)))
    } else {
        (Peer::None, Some(values))
    };
    let [goal, is] = case.verdict(figure, peer, judged);
    let (name, shown) = figure.spec();
    Some([
        String::new(),
        name.to_string(),
        tool.title().to_string(),
        values.text(shown),
        ratios.map_or(String::new(), |ratios| ratios.text(text)),
        goal,
        is,
    ])
}

/// One row for each of several similar cases: fathom and its fastest peer.
pub fn rows(cases: &[&Rounds]) -> String {
    let header = [
        "work",
        "fathom, IOPS",
        "fastest peer",
        "its IOPS",
        "fathom ÷ it (min–max)",
        "is",
        "CPU per I/O, fathom ÷ it",
        "is",
    ];
    let mut rows = vec![header.map(String::from)];
    rows.extend(cases.iter().filter_map(|case| row_of_case(case)));
    aligned(&rows) + &notes(cases)
}

fn row_of_case(case: &Rounds) -> Option<[String; 8]> {
    let iops = |tool| Some(case.values(tool, Figure::Iops)?.text(units::count));
    let own = iops(Tool::Fathom)?;
    let peer = case.fastest_peer();
    let compared = |figure| {
        let ratios = peer.and_then(|peer| case.ratios(peer, figure));
        let [_, is] = case.verdict(figure, Peer::Fastest, ratios);
        (ratios, is)
    };
    let ((speed, speed_is), (cpu, cpu_is)) = (compared(Figure::Iops), compared(Figure::CpuPerIo));
    let us = |tool| case.values(tool, Figure::CpuPerIo).map_or(0.0, |value| value.median / 1e3);
    let cpu_text = |cpu: Spread| {
        let its = peer.map_or(0.0, us);
        format!("{} ({:.2} ÷ {its:.2} µs)", ratio_text(cpu.median), us(Tool::Fathom))
    };
    Some([
        case.case.title.clone(),
        own,
        peer.map_or("", Tool::title).to_string(),
        peer.and_then(iops).unwrap_or_default(),
        speed.map_or(String::new(), |ratios| ratios.text(ratio_text)),
        speed_is,
        cpu.map_or(String::new(), cpu_text),
        cpu_is,
    ])
}

fn ratio_text(ratio: f64) -> String {
    if ratio < 0.1 { digits::<3>(ratio) } else { digits::<2>(ratio) }
}

pub fn commands(cases: &[Rounds], env: &Env) -> String {
    let mut text = "Commands, run alternately with the others of their case:\n\n```".to_string();
    for case in cases.iter().filter(|case| !case.commands.is_empty()) {
        let _ = write!(text, "\n# {}\n{}", case.case.name, case.commands.join("\n"));
    }
    text.replace(&env.scratch.path().display().to_string(), "$DIR") + "\n```"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cases;

    fn case(name: &str) -> Case {
        cases::all().unwrap().into_iter().find(|case| case.name == name).unwrap()
    }

    fn add(rounds: &mut Rounds, measured: &[(Tool, f64)]) {
        rounds.begin_round();
        measured.iter().for_each(|(tool, iops)| rounds.add(*tool, vec![(Figure::Iops, *iops)]));
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let case = case("tuned");
        let mut rounds = Rounds::new(&case);
        for (fathom, fio) in [(20.0, 10.0), (90.0, 30.0), (10.0, 10.0)] {
            add(&mut rounds, &[(Tool::Fathom, fathom), (Tool::Fio, fio)]);
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

    #[test]
    fn rows_judge_the_ratio() {
        let case = case("tuned");
        let row_of = |fathom: f64, tool: Tool| {
            let mut rounds = Rounds::new(&case);
            add(&mut rounds, &[(Tool::Fathom, fathom), (Tool::Fio, 1.0e6)]);
            row(&rounds, Figure::Iops, tool)
        };
        let row = row_of(2.0e6, Tool::Fio).unwrap();
        assert_eq!(row[3..], ["1M (1M–1M)", "2.00 (2.00–2.00)", "≥ 1.3 ×", "met"]);
        assert_eq!(row_of(1.2e6, Tool::Fio).unwrap()[6], "MISSED");
        assert_eq!(row_of(1.0, Tool::TIoUring), None);
    }

    #[test]
    fn like_cases_are_held_against_the_fastest_peer() {
        let case = case("disk-file-1");
        let mut rounds = Rounds::new(&case);
        rounds.begin_round();
        for (tool, iops, cpu_ns) in
            [(Tool::Fathom, 97e3, 2e3), (Tool::Fio, 50e3, 9e3), (Tool::TIoUring, 100e3, 4e3)]
        {
            rounds.add(tool, vec![(Figure::Iops, iops), (Figure::CpuPerIo, cpu_ns)]);
        }
        let row = row_of_case(&rounds).unwrap();
        let expected = [
            "t/io_uring",
            "100k (100k–100k)",
            "0.97 (0.97–0.97)",
            "MISSED",
            "0.50 (2.00 ÷ 4.00 µs)",
            "met",
        ];
        assert_eq!(row[2..], expected);
    }

    #[test]
    fn notes_follow_the_table() {
        let case = case("tuned");
        let mut rounds = Rounds::new(&case);
        add(&mut rounds, &[(Tool::Fathom, 2.0), (Tool::Fio, 1.0)]);
        rounds.note("skipped: no root".into());
        let text = results(&[&rounds]);
        assert!(text.ends_with("\n* tuned: skipped: no root"), "{text}");
        let bars: Vec<usize> = text.lines().take(4).map(|line| line.matches('|').count()).collect();
        assert_eq!(bars, [8; 4], "{text}");
    }
}
