//! The results as Markdown.

use super::Env;
use super::results::{Figure, Goal, Rounds, Spread};
use super::tools::Tool;
use fathom_model::units;
use std::fmt::Write;

/// What was measured, on what.
pub fn heading(env: &Env, rounds: u32) -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let load = read("/proc/loadavg");
    let mut text = format!(
        "Linux {}, {count} × {model}, load before {}; {rounds} round{}{}.",
        read("/proc/sys/kernel/osrelease").trim(),
        load.split(' ').next().unwrap_or("unknown"),
        if rounds == 1 { "" } else { "s" },
        if env.quick { ", short (--quick): see that it works, not how fast" } else { "" },
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
pub fn results(cases: &[Rounds]) -> String {
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
            Tool::TIoUring,
        ];
        let of_figure = |figure| tools.into_iter().filter_map(move |tool| row(case, figure, tool));
        let first = rows.len();
        rows.extend(case.figures().into_iter().flat_map(of_figure));
        if let Some(row) = rows.get_mut(first) {
            row[0] = case.case.title.to_string();
        }
    }
    let mut text = if rows.len() > 1 { aligned(&rows) } else { "No results.".to_string() };
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
    // What takes no time has no ratio.
    let compared = peer.filter(|_| figure != Figure::Others);
    let ratios = compared.and_then(|peer| case.ratios(peer, figure));
    let goal = case.case.goals.iter().find(|goal| goal.figure == figure && goal.peer == peer);
    // A peer's goal is for the ratio; fathom's own is for the figure itself.
    let judged = if peer.is_some() { ratios } else { Some(values) };
    Some([
        String::new(),
        figure.name().to_string(),
        tool.name().to_string(),
        spread(values, |value| figure_text(figure, value)),
        ratios.map_or(String::new(), |ratios| spread(ratios, ratio)),
        goal.map_or(String::new(), Goal::text),
        match goal.zip(judged) {
            Some((goal, judged)) if goal.is_met(judged.median) => "met".to_string(),
            Some(_) => "MISSED".to_string(),
            None => String::new(),
        },
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

/// The commands, for the reader to repeat.
pub fn commands(cases: &[Rounds], env: &Env) -> String {
    let mut text = "Commands, each run in turn with the others of its case:\n\n```".to_string();
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
    fn notes_follow_the_table() {
        let mut rounds = measured(2.0, 1.0);
        rounds.notes.push("left out: no root".into());
        let text = results(&[rounds]);
        assert!(text.ends_with("\n* tuned: left out: no root"), "{text}");
        let bars: Vec<usize> = text.lines().take(4).map(|line| line.matches('|').count()).collect();
        assert_eq!(bars, [8; 4], "{text}");
    }
}
