//! `fathom threads`: what threads do: state, system call, wait channel.

use crate::page::FormatArgs;
use crate::stdio::Kind;
use crate::watch::{End, TICK};
use crate::{output, quantity};
use fathom_analysis::threads::{Column, DEFAULT, Groups};
use fathom_model::advice::thread_not_created;
use fathom_model::watch::{Missing, SamplerCost, ThreadsSample};
use fathom_report::pages;
use fathom_report::threads::Report;
use fathom_watch::threads::{HZ_MAX, Parts, ThreadOptions, ThreadSampler};
use fathom_watch::{Pattern, Scope, TimedSample, Watcher};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Whose threads, and how they are shown.
#[derive(clap::Args)]
pub struct Args {
    /// Columns to group by, comma-separated: pid, tid, comm (digits folded), comm2 (unchanged), state, syscall, wchan,
    /// kstack, filename, cmdline, user, cpu, owner (the process whose ring an io_uring kernel thread serves)
    #[arg(short = 'g', long, value_name = "COLUMNS", default_value = "comm,state,syscall,wchan")]
    group_by: String,
    /// Columns to group by in addition to the default ones
    #[arg(short = 'G', long, value_name = "COLUMNS", conflicts_with = "group_by")]
    append_group_by: Option<String>,
    /// How long to sample, such as 5 (seconds) or 1m; Ctrl-C ends it early with the result so far
    #[arg(short = 't', long = "duration", value_name = "TIME", value_parser = quantity::time, default_value = "5s")]
    time: Duration,
    /// Processes by number (comma-separated), or by part of their name or arguments (`|` separates alternatives,
    /// `*` matches any text)
    #[arg(short = 'p', long, value_name = "PID|PATTERN")]
    pid: Option<String>,
    /// Include all descendants of the processes of -p
    #[arg(short = 'r', long, requires = "pid")]
    recursive: bool,
    /// Threads in all states, not only those that run or wait for I/O
    #[arg(short = 'a', long)]
    all_states: bool,
    /// Samples per second, at most 100
    #[arg(short = 'F', long = "frequency", value_name = "HZ", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(HZ_MAX)))]
    hz: u32,
    /// Also print a table at this interval, such as 2 (seconds) or 500ms
    #[arg(short = 'i', long, value_name = "TIME", value_parser = quantity::interval)]
    interval: Option<Duration>,
    /// Maximum number of rows
    #[arg(short = 'n', long = "count", value_name = "ROWS", default_value_t = 40)]
    rows: usize,
    #[command(flatten)]
    format: FormatArgs,
}

/// Looks at threads and prints what they did.
///
/// # Errors
/// What is wrong with the arguments, or why nothing can be looked at.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let columns = columns(args)?;
    let scope = scope(args)?;
    // A pattern may match processes that begin later.
    let by_number = matches!(scope, Scope::Only(_) | Scope::Trees(_));
    let pids: Vec<String> = args.pid.iter().filter(|_| by_number).cloned().collect();
    let mut end = End::new(&[], &pids, Some(args.time))?;
    let options = ThreadOptions {
        scope,
        hz: args.hz,
        all_states: args.all_states,
        parts: parts(&columns),
        ..ThreadOptions::default()
    };
    let sampler =
        ThreadSampler::open(options).map_err(|e| format!("cannot sample threads: {e}"))?;
    if let (0, Some(wanted)) = (sampler.processes(), &args.pid) {
        return Err(format!("-p {wanted}: no such process, or it is not visible to this user"));
    }
    let missing = sampler.missing().to_vec();
    let every = args.interval.unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(1));
    let watcher = Watcher::start(vec![Box::new(sampler)], every)
        .map_err(|error| thread_not_created(&error))?;
    let mut view = View::new(args, &columns, missing);
    let shown = end.follow(watcher, |sample| view.add(&sample).map(|()| true));
    Ok(end.code_if(shown.and_then(|()| view.finish())))
}

/// What was seen so far, and what of it was shown.
struct View<'a> {
    args: &'a Args,
    missing: Vec<Missing>,
    all: Tally,
    /// Since the last table.
    part: Tally,
}

/// Samples added up from one instant on.
struct Tally {
    groups: Groups,
    from: Option<(Instant, SamplerCost)>,
    to: Option<(Instant, SamplerCost)>,
}

impl<'a> View<'a> {
    fn new(args: &'a Args, columns: &[Column], missing: Vec<Missing>) -> Self {
        let (all, part) = (Tally::new(columns, None), Tally::new(columns, None));
        Self { args, missing, all, part }
    }

    fn add(&mut self, watched: &TimedSample) -> Result<(), String> {
        let Some(sample) = &watched.machine.threads else { return Ok(()) };
        let cost = watched.machine.cost.first().cloned().unwrap_or_default();
        self.all.add(watched.at, sample, &cost);
        let Some(interval) = self.args.interval else { return Ok(()) };
        self.part.add(watched.at, sample, &cost);
        // Samples come a little later than they are due.
        if self.part.elapsed() + TICK >= interval {
            let columns = self.all.groups.columns().to_vec();
            let part =
                std::mem::replace(&mut self.part, Tally::new(&columns, Some((watched.at, cost))));
            let (report_cost, seconds) = part.cost_and_seconds();
            let report =
                Report { total: false, ..self.report(&part.groups, &report_cost, seconds) };
            self.emit(&report)?;
        }
        Ok(())
    }

    fn finish(&self) -> Result<(), String> {
        let (cost, seconds) = self.all.cost_and_seconds();
        let report = self.report(&self.all.groups, &cost, seconds);
        self.emit(&report)
    }

    /// In JSON, a table is a line.
    fn emit(&self, report: &Report) -> Result<(), String> {
        let page = pages::threads(report);
        let (text, kind) = self.args.format.render(&page, Some(report.json()), false)?;
        output::emit(&if kind == Kind::Json { text } else { text + "\n" }, kind, None)
    }

    fn report<'r>(&'r self, groups: &'r Groups, cost: &'r SamplerCost, seconds: f64) -> Report<'r> {
        let Args { hz, rows, all_states, .. } = *self.args;
        let unix_ns = fathom_engine::clock::unix_ns();
        Report {
            unix_ns,
            total: true,
            seconds,
            hz,
            groups,
            cost,
            missing: &self.missing,
            rows,
            all_states,
        }
    }
}

impl Tally {
    fn new(columns: &[Column], from: Option<(Instant, SamplerCost)>) -> Self {
        Self { groups: Groups::new(columns), from, to: None }
    }

    fn add(&mut self, at: Instant, sample: &ThreadsSample, cost: &SamplerCost) {
        // The first sample covers the time before.
        if self.from.is_some() {
            self.groups.add(sample);
        }
        self.from.get_or_insert_with(|| (at, cost.clone()));
        self.to = Some((at, cost.clone()));
    }

    fn elapsed(&self) -> Duration {
        match (&self.from, &self.to) {
            (Some((from, _)), Some((to, _))) => to.saturating_duration_since(*from),
            _ => Duration::ZERO,
        }
    }

    fn cost_and_seconds(&self) -> (SamplerCost, f64) {
        let (Some((_, from)), Some((_, to))) = (&self.from, &self.to) else {
            return (SamplerCost::default(), 0.0);
        };
        let cost = SamplerCost {
            sampler: to.sampler.clone(),
            looks: to.looks - from.looks,
            cpu_ns: to.cpu_ns - from.cpu_ns,
            missed: to.missed - from.missed,
        };
        (cost, self.elapsed().as_secs_f64())
    }
}

fn columns(args: &Args) -> Result<Vec<Column>, String> {
    let mut columns = match &args.append_group_by {
        None => Column::parse_list(&args.group_by).map_err(|e| format!("-g: {e}"))?,
        Some(more) => {
            let more = Column::parse_list(more).map_err(|e| format!("-G: {e}"))?;
            DEFAULT.into_iter().chain(more).collect()
        }
    };
    let mut known = Vec::new();
    columns.retain(|column| {
        let is_new = !known.contains(column);
        known.push(*column);
        is_new
    });
    if columns.is_empty() { Err("-g: name at least one column".into()) } else { Ok(columns) }
}

fn parts(columns: &[Column]) -> Parts {
    let has = |column| columns.contains(&column);
    Parts {
        kstack: has(Column::Kstack),
        filename: has(Column::Filename),
        cmdline: has(Column::Cmdline),
        user: has(Column::User),
        cpu: has(Column::Cpu),
    }
}

fn scope(args: &Args) -> Result<Scope, String> {
    let Some(wanted) = &args.pid else { return Ok(Scope::Machine) };
    let pids: Result<Vec<i32>, _> = wanted.split(',').map(|pid| pid.trim().parse()).collect();
    match pids {
        Ok(pids) => Ok(if args.recursive { Scope::Trees(pids) } else { Scope::Only(pids) }),
        Err(_) => {
            let pattern = Pattern::parse(wanted).map_err(|e| format!("-p: {e}"))?;
            Ok(Scope::Matching { pattern, descendants: args.recursive })
        }
    }
}
