//! `fathom threads`: samples what threads do: state, system call, wait channel.

use crate::output::Destination;
use crate::page::{self, PageArgs};
use crate::stdio::Kind;
use crate::watch::{StopCondition, TICK};
use crate::{output, quantity};
use fathom_analysis::threads::{Column, DEFAULT, ThreadGroups};
use fathom_model::advice::thread_not_created;
use fathom_model::watch::{SamplerCost, ThreadsSample, Unavailable};
use fathom_report::doc::Heading;
use fathom_report::pages;
use fathom_report::threads::Report;
use fathom_watch::threads::{HZ_MAX, SampleParts, ThreadOptions, ThreadSampler};
use fathom_watch::{Pattern, Scope, TimedSample, Watcher};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Whose threads, and how they are shown.
#[derive(clap::Args)]
pub struct Args {
    /// Columns to group by, such as pid,comm,kstack
    ///
    /// The columns are pid, tid, comm (digits folded), comm2 (unchanged), state, syscall, wchan, kstack, filename,
    /// cmdline, user, cpu and owner (the process whose ring an io_uring kernel thread serves).
    #[arg(short = 'g', long, value_name = "COLUMNS", default_value = "comm,state,syscall,wchan",
          value_parser = column_list)]
    group_by: ColumnList,
    /// Columns to group by in addition to the default ones
    #[arg(short = 'G', long = "add-columns", alias = "append-group-by", value_name = "COLUMNS",
          conflicts_with = "group_by", value_parser = column_list)]
    append_group_by: Option<ColumnList>,
    /// How long to sample, such as 5 (seconds) or 1m
    #[arg(short = 't', long = "duration", value_name = "TIME", value_parser = quantity::time, default_value = "5s")]
    time: Duration,
    /// Only these processes
    ///
    /// PIDs are separated by commas. A PATTERN is part of a process's name or arguments, with `|` between
    /// alternatives and `*` for any text.
    #[arg(short = 'p', long, value_name = "PID|PATTERN", value_parser = wanted)]
    pid: Option<Wanted>,
    /// Include all descendants of the processes of -p
    #[arg(short = 'r', long, requires = "pid")]
    recursive: bool,
    /// Include threads in all states
    ///
    /// The default is threads on a CPU, runnable or waiting for I/O.
    #[arg(short = 'a', long)]
    all_states: bool,
    /// Sampling rate, 1 to 100
    #[arg(short = 'F', long = "frequency", value_name = "HZ", default_value = "20",
          value_parser = quantity::whole(1..=HZ_MAX))]
    hz: u32,
    /// Also print a table per interval, such as 2 (seconds) or 500ms
    #[arg(short = 'i', long, value_name = "TIME", value_parser = quantity::interval)]
    interval: Option<Duration>,
    /// Maximum number of rows
    #[arg(short = 'n', long = "count", value_name = "N", default_value_t = 40)]
    rows: usize,
    #[command(flatten)]
    page: PageArgs,
}

/// Columns, as a list on the command line.
#[derive(Debug, Clone)]
struct ColumnList(Vec<Column>);

fn column_list(text: &str) -> Result<ColumnList, String> {
    match Column::parse_list(text)? {
        columns if columns.is_empty() => Err("expected at least one column".into()),
        columns => Ok(ColumnList(columns)),
    }
}

/// Processes, as named on the command line.
#[derive(Debug, Clone)]
enum Wanted {
    Pids(Vec<i32>),
    Matching(Pattern),
}

fn wanted(text: &str) -> Result<Wanted, String> {
    let pids: Result<Vec<i32>, _> = text.split(',').map(|pid| pid.trim().parse()).collect();
    match pids {
        Ok(pids) => Ok(Wanted::Pids(pids)),
        Err(_) => Pattern::parse(text).map(Wanted::Matching).map_err(|e| e.to_string()),
    }
}

/// Samples threads and prints what they did.
pub fn command(args: &Args) -> Result<ExitCode, String> {
    let columns = columns(args);
    let scope = scope(args);
    // A pattern may match processes that start later.
    let pids: Vec<String> = match &args.pid {
        Some(Wanted::Pids(pids)) => pids.iter().map(i32::to_string).collect(),
        _ => Vec::new(),
    };
    let to = args.page.destination(None)?;
    let mut end = StopCondition::new(&[], &pids, Some(args.time))?;
    let options = ThreadOptions {
        scope,
        hz: args.hz,
        all_states: args.all_states,
        parts: parts(&columns),
        ..ThreadOptions::default()
    };
    let sampler =
        ThreadSampler::open(options).map_err(|e| format!("cannot sample threads: {e}"))?;
    if sampler.processes() == 0 && args.pid.is_some() {
        return Err("--pid: no such process, or it is not visible to this user".into());
    }
    let missing = sampler.missing().to_vec();
    let every = args.interval.unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(1));
    let watcher = Watcher::start(vec![Box::new(sampler)], every)
        .map_err(|error| thread_not_created(&error))?;
    let heading = page::heading("threads", None);
    let mut view = ThreadsView::new(args, heading, to, &columns, missing);
    let shown = end.follow(watcher, |sample| view.add(&sample).map(|()| true));
    Ok(end.exit_code(shown.and_then(|()| view.finish())))
}

/// The samples so far, and those not printed yet.
struct ThreadsView<'a> {
    args: &'a Args,
    to: Option<Destination>,
    /// What goes to a file, which is written at the end.
    written: String,
    heading: Option<Heading>,
    missing: Vec<Unavailable>,
    all: Tally,
    /// Since the last table.
    part: Tally,
}

/// Samples added up from one instant on.
struct Tally {
    groups: ThreadGroups,
    from: Option<(Instant, SamplerCost)>,
    to: Option<(Instant, SamplerCost)>,
}

impl<'a> ThreadsView<'a> {
    fn new(
        args: &'a Args,
        heading: Option<Heading>,
        to: Option<Destination>,
        columns: &[Column],
        missing: Vec<Unavailable>,
    ) -> Self {
        let (all, part) = (Tally::new(columns, None), Tally::new(columns, None));
        Self { args, to, written: String::new(), heading, missing, all, part }
    }

    fn add(&mut self, watched: &TimedSample) -> Result<(), String> {
        let Some(sample) = &watched.machine.threads else { return Ok(()) };
        let cost = watched.machine.cost.first().cloned().unwrap_or_default();
        self.all.add(watched.at, sample, &cost);
        let Some(interval) = self.args.interval else { return Ok(()) };
        self.part.add(watched.at, sample, &cost);
        // Samples are a little late.
        if self.part.elapsed() + TICK >= interval {
            let columns = self.all.groups.columns().to_vec();
            let part =
                std::mem::replace(&mut self.part, Tally::new(&columns, Some((watched.at, cost))));
            let (report_cost, seconds) = part.cost_and_seconds();
            let report =
                Report { total: false, ..self.report(&part.groups, &report_cost, seconds) };
            let text = self.render(&report)?;
            self.emit(text)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), String> {
        let (cost, seconds) = self.all.cost_and_seconds();
        let report = self.report(&self.all.groups, &cost, seconds);
        let (text, kind) = self.render(&report)?;
        self.emit((text, kind))?;
        match &self.to {
            Some(to) => output::emit(&self.written, kind, Some(to)),
            None => Ok(()),
        }
    }

    /// In JSON, a table is a line.
    fn render(&self, report: &Report) -> Result<(String, Kind), String> {
        let mut page = pages::threads(report);
        page.heading = self.heading.clone().filter(|_| report.total);
        let (text, kind) =
            self.args.page.format.render(&page, || Ok(report.json()), self.to.is_some())?;
        Ok((if kind == Kind::Json { text } else { text + "\n" }, kind))
    }

    fn emit(&mut self, (text, kind): (String, Kind)) -> Result<(), String> {
        match &self.to {
            Some(_) => self.written += &text,
            None => output::emit(&text, kind, None)?,
        }
        Ok(())
    }

    fn report<'r>(
        &'r self,
        groups: &'r ThreadGroups,
        cost: &'r SamplerCost,
        seconds: f64,
    ) -> Report<'r> {
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
            verbose: self.args.page.verbose,
        }
    }
}

impl Tally {
    fn new(columns: &[Column], from: Option<(Instant, SamplerCost)>) -> Self {
        Self { groups: ThreadGroups::new(columns), from, to: None }
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
            samples: to.samples - from.samples,
            cpu_ns: to.cpu_ns - from.cpu_ns,
            missed: to.missed - from.missed,
        };
        (cost, self.elapsed().as_secs_f64())
    }
}

/// The columns without repetitions.
fn columns(args: &Args) -> Vec<Column> {
    let mut columns = match &args.append_group_by {
        None => args.group_by.0.clone(),
        Some(more) => DEFAULT.into_iter().chain(more.0.iter().copied()).collect(),
    };
    let mut known = Vec::new();
    columns.retain(|column| {
        let is_new = !known.contains(column);
        known.push(*column);
        is_new
    });
    columns
}

fn parts(columns: &[Column]) -> SampleParts {
    let has = |column| columns.contains(&column);
    SampleParts {
        kstack: has(Column::Kstack),
        filename: has(Column::Filename),
        cmdline: has(Column::Cmdline),
        user: has(Column::User),
        cpu: has(Column::Cpu),
    }
}

fn scope(args: &Args) -> Scope {
    match &args.pid {
        None => Scope::Machine,
        Some(Wanted::Pids(pids)) if args.recursive => Scope::Trees(pids.clone()),
        Some(Wanted::Pids(pids)) => Scope::Only(pids.clone()),
        Some(Wanted::Matching(pattern)) => {
            Scope::Matching { pattern: pattern.clone(), descendants: args.recursive }
        }
    }
}
