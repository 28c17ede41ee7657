//! `fathom threads`: samples what threads do: state, system call, wait channel.

use crate::output::{Destination, PartialOutput};
use crate::page::{PageArgs, RecordArgs};
use crate::quantity;
use crate::stdio::Kind;
use crate::watch::{SampleView, StopCondition, TICK, observe};
use fathom_analysis::threads::{Column, DEFAULT};
use fathom_analysis::watch::Observed;
use fathom_model::progress::Sample;
use fathom_model::record::Header;
use fathom_model::watch::SampledView;
use fathom_model::{RunRecord, list};
use fathom_report::pages::{self, Origin};
use fathom_report::threads::Report;
use fathom_runner::{SamplingOptions, Sources};
use fathom_watch::threads::{HZ_MAX, SampleParts, ThreadOptions};
use fathom_watch::{Pattern, Scope};
use std::process::ExitCode;
use std::time::Duration;

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
    record: RecordArgs,
    #[command(flatten)]
    page: PageArgs,
}

#[derive(Debug, Clone)]
struct ColumnList(Vec<Column>);

fn column_list(text: &str) -> Result<ColumnList, String> {
    match Column::parse_list(text)? {
        columns if columns.is_empty() => Err("expected at least one column".into()),
        columns => Ok(ColumnList(columns)),
    }
}

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

pub fn command(args: &Args) -> Result<ExitCode, String> {
    let columns = columns(args);
    let scope = scope(args);
    // A pattern may match processes that start later.
    let pids: Vec<String> = match &args.pid {
        Some(Wanted::Pids(pids)) => pids.iter().map(i32::to_string).collect(),
        _ => Vec::new(),
    };
    let record = args.record.to();
    let files = record.check()?;
    let to = args.page.destination(files.iter().map(String::as_str))?;
    let end = StopCondition::new(&[], &pids, Some(args.time))?;
    let view = SampledView::Threads {
        group_by: columns.iter().map(|column| column.name().to_string()).collect(),
        hz: args.hz,
        all_states: args.all_states,
        rows: args.rows,
        interval_ns: args.interval.map(|interval| interval.as_nanos() as u64),
    };
    let every = args.interval.unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(1));
    let options = SamplingOptions {
        interval: every,
        scope: scope.clone(),
        sources: Sources::Threads(ThreadOptions {
            scope,
            hz: args.hz,
            all_states: args.all_states,
            parts: parts(&columns),
            ..ThreadOptions::default()
        }),
        view: Some(view.clone()),
        ..SamplingOptions::default()
    };
    observe(&options, &record, end, &[], &mut ThreadsView::new(&view, &args.page, to))
}

pub struct ThreadsView<'a> {
    view: &'a SampledView,
    page: &'a PageArgs,
    output: PartialOutput,
    /// Since the last table.
    part: Observed,
}

impl<'a> ThreadsView<'a> {
    pub fn new(view: &'a SampledView, page: &'a PageArgs, to: Option<Destination>) -> Self {
        let part = Observed::of(Some(view));
        Self { view, page, output: PartialOutput::new(to, false), part }
    }

    /// In JSON, a table is a line.
    fn print(&mut self, observed: &Observed, header: Option<&Header>) -> Result<Kind, String> {
        let (hz, rows, all_states) = match self.view {
            SampledView::Threads { hz, rows, all_states, .. } => (*hz, *rows, *all_states),
            _ => (0, 0, false),
        };
        let sampling = header.and_then(|header| header.sampling.as_ref());
        let missing = sampling.map_or(&[][..], |sampling| &sampling.missing);
        let verbose = self.page.verbose;
        let report = Report { header, observed, hz, rows, all_states, missing, verbose };
        let mut page = pages::threads(&report);
        page.heading = header.and_then(|header| Origin::of("threads", header).heading());
        let to_file = self.output.is_file();
        let (text, kind) = self.page.format().render(&page, || report.json(), to_file)?;
        self.output.emit(&if kind == Kind::Json { text } else { text + "\n" }, kind)?;
        Ok(kind)
    }
}

impl SampleView for ThreadsView<'_> {
    fn add(&mut self, sample: &Sample) -> Result<bool, String> {
        let SampledView::Threads { interval_ns: Some(interval_ns), .. } = self.view else {
            return Ok(true);
        };
        self.part.add(sample);
        // Samples are a little late.
        if self.part.elapsed_ns + TICK.as_nanos() as u64 >= *interval_ns {
            let mut next = Observed::of(Some(self.view));
            next.add(sample);
            let part = std::mem::replace(&mut self.part, next);
            self.print(&part, None)?;
        }
        Ok(true)
    }

    fn finish(&mut self, record: &RunRecord, observed: &Observed) -> Result<(), String> {
        let kind = self.print(observed, Some(&record.header))?;
        self.output.close(kind)
    }
}

fn columns(args: &Args) -> Vec<Column> {
    let columns = match &args.append_group_by {
        None => args.group_by.0.clone(),
        Some(more) => [&DEFAULT[..], &more.0].concat(),
    };
    list::distinct(columns)
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
