//! `cargo xtask threads`: overhead of thread sampling, compared with pSnapper.

pub mod load;

use crate::Result;
use crate::programs;
use crate::run::{self, Probe};
use crate::table::{Spread, aligned};
use load::{Kind, Load};
use serde_json::Value;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Options {
    /// Threads of the load, in addition to those of the machine
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_values_t = [500, 2000])]
    threads: Vec<u32>,
    /// Threads of the load that never sleep
    #[arg(long, value_name = "N", default_value_t = 0)]
    busy: u32,
    /// Rounds; each runs every variant once
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Duration of each run, in seconds
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=30))]
    seconds: u32,
    /// Sampling rate of fathom and pSnapper, in Hz
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    hz: u32,
    /// pSnapper's program `psn`; omitted from the comparison without it
    #[arg(long, value_name = "PATH")]
    psn: Option<PathBuf>,
    /// Use this fathom instead of building it
    #[arg(long, value_name = "PATH")]
    fathom: Option<PathBuf>,
}

struct Variant {
    tool: &'static str,
    what: &'static str,
    args: &'static [&'static str],
    /// Maximum CPU time per thread sample, in µs.
    goal_us: Option<f64>,
    read: fn(&str, cpu_us: f64) -> Option<Overhead>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Overhead {
    /// CPU time per thread sample, in µs: sampling only.
    sample_us: f64,
    /// The same for the whole program, including start and report.
    program_us: f64,
    /// CPU usage of sampling, 1.0 for one CPU.
    share: f64,
    done: f64,
    due: f64,
}

const fn fathom(what: &'static str, args: &'static [&'static str], goal_us: f64) -> Variant {
    Variant { tool: "fathom", what, args, goal_us: Some(goal_us), read: Overhead::of_fathom }
}

const fn psn(what: &'static str, args: &'static [&'static str]) -> Variant {
    Variant { tool: "pSnapper", what, args, goal_us: None, read: Overhead::of_psn }
}

const VARIANTS: [Variant; 5] = [
    fathom("active: state, system call, wait channel", &["threads", "--json"], 12.0),
    fathom("all (-a)", &["threads", "--json", "-a"], 12.0),
    fathom("all, with kernel stacks", &["threads", "--json", "-a", "-G", "kstack"], 25.0),
    psn("all", &["-a", "-g", "comm,state,syscall,wchan"]),
    psn("all, with kernel stacks", &["-a", "-g", "comm,state,syscall,wchan,kstack"]),
];

impl Overhead {
    fn of_fathom(stdout: &str, cpu_us: f64) -> Option<Self> {
        let json: Value = serde_json::from_str(stdout).ok()?;
        let number = |value: &Value| value.as_f64();
        let done = number(&json["samples"])?;
        Some(Self {
            sample_us: number(&json["cost"]["us_per_thread_sample"])?,
            program_us: cpu_us / number(&json["thread_samples"])?,
            share: number(&json["cost"]["cpu_share"])?,
            done,
            due: done + number(&json["samples_missed"])?,
        })
    }

    /// From `samples: 27 (expected: 80)`, `threads: 580` and `runtime: 4.01`, whatever stands between them.
    fn of_psn(stdout: &str, cpu_us: f64) -> Option<Self> {
        let after = |label: &str| {
            let rest = stdout.rsplit_once(label)?.1.trim_start();
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            rest[..end].parse::<f64>().ok()
        };
        let (done, seconds) = (after("samples:")?, after("runtime:")?);
        let program_us = cpu_us / done / after("threads:")?;
        let share = cpu_us / 1e6 / seconds;
        Some(Self { sample_us: program_us, program_us, share, done, due: after("expected:")? })
    }
}

/// Samples each load with each tool alternately, and prints the table. Missed goals are not an error.
pub fn run(options: &Options) -> Result<()> {
    let fathom = programs::fathom(options.fathom.as_deref())?;
    let mut lines = vec![
        [
            "threads",
            "tool",
            "sampled",
            "µs per sample",
            "goal",
            "whole program",
            "of one CPU",
            "samples",
        ]
        .map(str::to_string),
    ];
    for &threads in &options.threads {
        for kind in [Kind::Asleep, Kind::Moving] {
            let load = Load::start(threads, kind, options.busy)?;
            let label =
                format!("{threads} {}", if kind == Kind::Asleep { "asleep" } else { "moving" });
            let seen = measure(options, &fathom, &label)?;
            drop(load);
            let rows = VARIANTS.iter().zip(&seen).filter(|(_, overhead)| !overhead.is_empty());
            lines.extend(rows.map(|(variant, overhead)| row(&label, variant, overhead)));
        }
    }
    println!(
        "{} interleaved rounds of {} s at {} Hz, {} threads that never sleep; µs of CPU time per thread \
         sample, medians (min–max)\n\n{}",
        options.rounds,
        options.seconds,
        options.hz,
        options.busy,
        aligned(&lines)
    );
    Ok(())
}

/// Results of each tool, in the order of [`VARIANTS`], by round.
fn measure(
    options: &Options,
    fathom: &Path,
    label: &str,
) -> Result<[Vec<Overhead>; VARIANTS.len()]> {
    let mut all = std::array::from_fn(|_| Vec::new());
    for round in 1..=options.rounds {
        for (variant, seen) in VARIANTS.iter().zip(&mut all) {
            let path = match (variant.tool, &options.psn) {
                ("fathom", _) => fathom,
                (_, Some(psn)) => psn,
                (_, None) => continue,
            };
            eprintln!(
                "{label}: round {round} of {}: {}, {}",
                options.rounds, variant.tool, variant.what
            );
            let mut args: Vec<String> = variant.args.iter().map(ToString::to_string).collect();
            let (seconds, hz) = (options.seconds.to_string(), options.hz.to_string());
            let names = if variant.tool == "fathom" { ["-t", "-F"] } else { ["-d", "--sample-hz"] };
            args.extend([names[0].into(), seconds, names[1].into(), hz]);
            let done = run::run(path, &args, Path::new("/"), Probe::Nothing)?;
            let overhead = (variant.read)(&done.stdout, done.cpu.as_secs_f64() * 1e6);
            seen.push(
                overhead
                    .ok_or_else(|| format!("{}: not understood: {}", variant.tool, done.stdout))?,
            );
        }
    }
    Ok(all)
}

fn row(label: &str, variant: &Variant, overhead: &[Overhead]) -> [String; 8] {
    let spread = |figure: fn(&Overhead) -> f64, digits: usize, unit: &str| {
        let text = |value: f64| format!("{value:.digits$}{unit}");
        Spread::of(overhead.iter().map(figure)).map_or(String::new(), |spread| spread.text(text))
    };
    let counts: Vec<String> = overhead.iter().map(|l| format!("{} of {}", l.done, l.due)).collect();
    [
        label.to_string(),
        variant.tool.to_string(),
        variant.what.to_string(),
        spread(|l| l.sample_us, 1, ""),
        variant.goal_us.map_or(String::new(), |goal| format!("≤ {goal}")),
        spread(|l| l.program_us, 1, ""),
        spread(|l| l.share * 100.0, 0, "%"),
        counts.join(", "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tools_print_is_read() {
        let json = r#"{"samples":78,"samples_missed":2,"thread_samples":1000,
            "cost":{"us_per_thread_sample":7.5,"cpu_share":0.25}}"#;
        let want = Overhead { sample_us: 7.5, program_us: 9.0, share: 0.25, done: 78.0, due: 80.0 };
        assert_eq!(Overhead::of_fathom(json, 9000.0), Some(want));
        let text = "   40 |  1.00 | (threads) |\n\nsamples: 20\n(expected: 80)\ntotal processes: 10, \
            threads: 50\nruntime: 4.00, measure time: 1.57\n";
        let want =
            Overhead { sample_us: 2000.0, program_us: 2000.0, share: 0.5, done: 20.0, due: 80.0 };
        assert_eq!(Overhead::of_psn(text, 2e6), Some(want));
        assert_eq!(Overhead::of_fathom("{}", 1.0), None);
        assert_eq!(Overhead::of_psn("samples: x", 1.0), None);
    }

    #[test]
    fn a_row_has_the_spread_and_every_count_of_samples() {
        let overhead = |us, done| Overhead {
            sample_us: us,
            program_us: us,
            share: us / 100.0,
            done,
            due: 80.0,
        };
        let row = row(
            "500 asleep",
            &VARIANTS[0],
            &[overhead(9.0, 80.0), overhead(7.0, 79.0), overhead(8.0, 80.0)],
        );
        assert_eq!(row[3], "8.0 (7.0–9.0)");
        assert_eq!(row[4], "≤ 12");
        assert_eq!(row[6..], ["8% (7%–9%)", "80 of 80, 79 of 80, 80 of 80"]);
    }
}
