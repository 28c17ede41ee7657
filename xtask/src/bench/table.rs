//! The results as Markdown.

use super::Env;
use super::results::{Figure, Goal, Peer, Rounds, Spread};
use super::tools::Tool;
use fathom_model::units;
use std::fmt::Write;

/// Programs and machine.
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
    for (tool, path) in
        env.paths.iter().filter(|(tool, _)| matches!(tool, Tool::Fathom | Tool::Fio))
    {
        let version = super::process::output_of(path, &["--version"]).unwrap_or_default();
        let version = version.lines().next().unwrap_or("unknown");
        let _ = write!(text, " {}: {version}.", tool.name());
    }
    text
}

/// One row for each figure of each tool.
pub fn results(cases: &[&Rounds]) -> String {
    let mut rows = vec![
        ["work", "figure", "tool", "median (min–max)", "fathom ÷ it (min–max)", "must be", "is"]
            .map(String::from),
    ];
    for case in cases {
        let tools = [
            Tool::Fathom,
            Tool::Again,
            Tool::WatchDefault,
            Tool::WatchFull,
            Tool::Fio,
            Tool::FioTuned,
            Tool::TIoUring,
            Tool::TIoUringHalf,
        ];
        let of_figure = |figure| tools.into_iter().filter_map(move |tool| row(case, figure, tool));
        let first = rows.len();
        rows.extend(case.figures().into_iter().flat_map(of_figure));
        if let Some(row) = rows.get_mut(first) {
            row[0] = case.case.title.to_string();
        }
    }
    let text = if rows.len() > 1 { aligned(&rows) } else { "No results.".to_string() };
    text + &notes(cases)
}

fn notes(cases: &[&Rounds]) -> String {
    let mut text = String::new();
    for case in cases {
        for note in &case.notes {
            let _ = write!(text, "\n* {}: {note}", case.case.name);
        }
    }
    text
}

fn row(case: &Rounds, figure: Figure, tool: Tool) -> Option<[String; 7]> {
    let values = case.values(tool, figure)?;
    let peer = (tool != Tool::Fathom).then_some(tool);
    let ratio = match figure {
        _ if tool.is_variant() => variant_text,
        Figure::Beside => fine_text,
        _ => ratio_text,
    };
    // A figure of 0 has no ratio.
    let compared = peer.filter(|_| figure != Figure::Others);
    let ratios = compared.and_then(|peer| case.ratios(peer, figure));
    let goal_peer = peer.map_or(Peer::None, Peer::Tool);
    let goal = case.case.goals.iter().find(|goal| goal.figure == figure && goal.peer == goal_peer);
    // A peer's goal is for the ratio; fathom's own is for the figure itself.
    let judged = if peer.is_some() { ratios } else { Some(values) };
    Some([
        String::new(),
        figure.name().to_string(),
        tool.name().to_string(),
        spread(values, |value| figure_text(figure, value)),
        ratios.map_or(String::new(), |ratios| spread(ratios, ratio)),
        goal.map_or(String::new(), Goal::text),
        verdict(goal, judged),
    ])
}

fn verdict(goal: Option<&Goal>, judged: Option<Spread>) -> String {
    match goal.zip(judged) {
        Some((goal, judged)) if goal.is_met(judged.median) => "met".to_string(),
        Some(_) => "MISSED".to_string(),
        None => String::new(),
    }
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
    let own = case.values(Tool::Fathom, Figure::Iops)?;
    let iops = |value: Spread| spread(value, |value| figure_text(Figure::Iops, value));
    let peer = case.fastest_peer();
    let compared = |figure| {
        let goal = |goal: &&Goal| goal.figure == figure && goal.peer == Peer::Fastest;
        let ratios = peer.and_then(|peer| case.ratios(peer, figure));
        (ratios, verdict(case.case.goals.iter().find(goal), ratios))
    };
    let ((speed, speed_is), (cpu, cpu_is)) = (compared(Figure::Iops), compared(Figure::CpuPerIo));
    let median = |figure, tool| case.values(tool, figure).map(|value| value.median / 1e3);
    let cpu_text = |cpu: Spread| {
        let of = |tool| median(Figure::CpuPerIo, tool).unwrap_or_default();
        let its = peer.map_or(0.0, of);
        format!("{} ({:.2} ÷ {its:.2} µs)", ratio_text(cpu.median), of(Tool::Fathom))
    };
    Some([
        case.case.title.to_string(),
        iops(own),
        peer.map_or(String::new(), |peer| peer.name().to_string()),
        peer.and_then(|peer| case.values(peer, Figure::Iops)).map_or(String::new(), iops),
        speed.map_or(String::new(), |ratios| spread(ratios, ratio_text)),
        speed_is,
        cpu.map_or(String::new(), cpu_text),
        cpu_is,
    ])
}

fn spread(spread: Spread, text: impl Fn(f64) -> String) -> String {
    format!("{} ({}–{})", text(spread.median), text(spread.min), text(spread.max))
}

fn figure_text(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Iops => units::count(value),
        Figure::Beside => fine_text(value),
        Figure::Others => format!("{value:.2}"),
        Figure::Overhead | Figure::StartTime | Figure::Memory => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn ratio_text(ratio: f64) -> String {
    if ratio < 0.1 { format!("{ratio:.3}") } else { format!("{ratio:.2}") }
}

fn fine_text(ratio: f64) -> String {
    format!("{ratio:.3}")
}

fn variant_text(ratio: f64) -> String {
    format!("× {ratio:.3}")
}

/// The commands, so that readers can repeat them.
pub fn commands(cases: &[Rounds], env: &Env) -> String {
    let mut text = "Commands, run alternately with the others of their case:\n\n```".to_string();
    for case in cases.iter().filter(|case| !case.commands.is_empty()) {
        let _ = write!(text, "\n# {}", case.case.name);
        for command in &case.commands {
            let _ = write!(text, "\n{command}");
        }
    }
    text.replace(&env.scratch.path().display().to_string(), "$DIR") + "\n```"
}

/// A Markdown table whose columns are aligned, so that it can be read as text too.
pub fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut lines = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<_> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        lines.push(format!("| {} |", cells.join(" | ")));
        if index == 0 {
            lines.push(format!("|{}|", widths.map(|width| "-".repeat(width + 2)).join("|")));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cases::CASES;
    use crate::bench::disk;

    fn measured(fathom: f64, fio: f64) -> Rounds {
        let mut rounds = Rounds::new(&CASES[0]);
        rounds.begin_round();
        rounds.add(Tool::Fathom, vec![(Figure::Iops, fathom)]);
        rounds.add(Tool::Fio, vec![(Figure::Iops, fio)]);
        rounds
    }

    #[test]
    fn rows_judge_the_ratio() {
        let row = row(&measured(2.0e6, 1.0e6), Figure::Iops, Tool::Fio).unwrap();
        assert_eq!(row[3..], ["1M (1M–1M)", "2.00 (2.00–2.00)", "≥ 1.3 ×", "met"]);
        let row = super::row(&measured(1.2e6, 1.0e6), Figure::Iops, Tool::Fio).unwrap();
        assert_eq!(row[6], "MISSED");
        assert_eq!(super::row(&measured(1.0, 1.0), Figure::Iops, Tool::TIoUring), None);
    }

    #[test]
    fn like_cases_are_held_against_the_fastest_peer() {
        let mut rounds = Rounds::new(&disk::CASES[0][0]);
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
        let mut rounds = measured(2.0, 1.0);
        rounds.notes.push("skipped: no root".into());
        let text = results(&[&rounds]);
        assert!(text.ends_with("\n* tuned: skipped: no root"), "{text}");
        let bars: Vec<usize> = text.lines().take(4).map(|line| line.matches('|').count()).collect();
        assert_eq!(bars, [8; 4], "{text}");
    }
}
