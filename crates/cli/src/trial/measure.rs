//! What `try` and `sweep` share: times, targets, and printing.

use crate::limit::size;
use crate::page::{PageArgs, RecordArgs};
use crate::run::LayoutProgress;
use crate::signals::Signals;
use crate::{level, limits, live, quantity, stdio};
use fathom_machine::guard::Permissions;
use fathom_model::escape;
use fathom_model::experiment::{Experiment, ExperimentRecord, Protocol, Request};
use fathom_model::watch::Level;
use fathom_report::live::experiment_line;
use fathom_report::{json, pages};
use fathom_runner::experiment::{TrialProgress, TryOptions, TryRunner};
use fathom_runner::{Hooks, RecordTo, System};
use fathom_spec::Sources;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Rounds that a comparison needs, of which the first one warms up; and those of a sweep.
const ROUNDS: u32 = 8;
const ROUNDS_SWEEP: u32 = 3;
/// Rounds for which the default time is enough.
const ROUNDS_PLANNED: f64 = 60.0;
const ROUNDS_PLANNED_SWEEP: f64 = 5.0;
/// Length of a window, in seconds. For a comparison, many short ones: it ends early on an idle machine, and a burst of
/// other load spoils few rounds on a busy one.
const WINDOW: f64 = 0.2;
const WINDOW_SWEEP: f64 = 0.5;
const WINDOW_MIN: f64 = 0.1;
const WINDOW_MAX: f64 = 2.0;
/// The part of a window that is spent under load before it.
const RAMP_PART: f64 = 0.2;
/// Bounds of the default time, in seconds.
const SECONDS_MIN: f64 = 15.0;
const SECONDS_MAX: f64 = 900.0;
/// Size of the scratch file.
const SCRATCH: u64 = 1 << 30;
/// With more conditions, they are not sampled one by one.
const DETAILS_MAX: usize = 32;
/// Between two states of the line on a terminal, and between two plain lines.
const REDRAW: Duration = Duration::from_millis(200);
const PLAIN: Duration = Duration::from_secs(10);

/// Options of commands that measure conditions.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct MeasureArgs {
    /// Maximum measuring time, such as 30 (seconds) or 5m; by default depends on the number of variants
    #[arg(short = 't', long, value_name = "TIME", value_parser = quantity::time)]
    duration: Option<Duration>,
    /// Length of each window; by default 100ms to 2s, to fit the duration
    #[arg(long, value_name = "TIME", value_parser = quantity::interval)]
    window: Option<Duration>,
    /// Stop once intervals are narrower than ± this percent; by default 1 (try) or 3 (sweep)
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    precision: Option<f64>,
    /// Permit writing to this existing file
    #[arg(long, value_name = "FILE")]
    overwrite: Vec<String>,
    /// Permit writing to this block device: DEVICE or DEVICE@SERIAL
    #[arg(long, value_name = "DEVICE")]
    erase: Vec<String>,
    /// Size of the scratch file, such as 4g
    #[arg(long, value_parser = size::bytes)]
    size: Option<u64>,
    /// Directory of the scratch file
    #[arg(long, value_name = "DIR", default_value = ".")]
    scratch_dir: String,
    #[command(flatten)]
    record: RecordArgs,
    /// How much of the machine to sample: by default each variant once, after the rounds
    #[arg(long, value_parser = level::parser(), default_value = "default")]
    sampling: Level,
}

/// What is measured.
pub struct MeasurePlan {
    /// The conditions.
    pub experiment: Experiment,
    /// Files and block devices.
    pub targets: Vec<String>,
    /// Whether each cell stands for itself.
    pub is_sweep: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok();
    number
        .filter(|percent| (0.1..=50.0).contains(percent))
        .ok_or_else(|| "expected a percentage from 0.1 to 50".to_string())
}

/// Measures `plan`, and prints the result.
pub fn measure(args: &MeasureArgs, page: &PageArgs, plan: MeasurePlan) -> Result<ExitCode, String> {
    let protocol = args.protocol(&plan);
    let MeasurePlan { mut experiment, targets, is_sweep } = plan;
    if args.sampling == Level::Full {
        experiment.conditions.iter_mut().for_each(|condition| condition.sampling = Level::Full);
    }
    let details = args.sampling != Level::Off && experiment.conditions.len() <= DETAILS_MAX;
    let request = Request {
        experiment,
        protocol,
        targets,
        scratch_bytes: args.size.unwrap_or(SCRATCH),
        scratch_dir: args.scratch_dir.clone(),
        details,
        is_sweep,
        ..Request::default()
    };
    perform(
        args,
        page,
        TryOptions { request, record: args.record.to(false), ..TryOptions::default() },
    )
}

/// Continues the experiment whose record in `dir` is `record`.
pub fn resume(
    args: &MeasureArgs,
    page: &PageArgs,
    dir: &Path,
    record: ExperimentRecord,
) -> Result<ExitCode, String> {
    if record.header.outcome.is_finished() {
        return Err(format!("{} is complete; `fathom show` prints it", dir.display()));
    }
    let mut request = record.request;
    if let Some(duration) = args.duration {
        request.protocol.seconds = duration.as_secs_f64();
    }
    let resume = Some(dir.to_path_buf());
    let record = RecordTo::Required(None);
    perform(args, page, TryOptions { request, resume, record, ..TryOptions::default() })
}

fn perform(args: &MeasureArgs, page: &PageArgs, options: TryOptions) -> Result<ExitCode, String> {
    let signals = Signals::take().map_err(|e| format!("cannot install signal handlers: {e}"))?;
    let mut used = options.record.check()?;
    used.extend(super::record_files(options.resume.as_slice()));
    let options = TryOptions {
        permissions: Permissions { erase: args.erase.clone(), overwrite: args.overwrite.clone() },
        cancel: signals.cancel_token().clone(),
        command_limits: limits::raise(),
        ..options
    };
    let mut view = MeasureProgress::new();
    let mut runner = TryRunner::open(options, &mut view)?;
    let targets = runner.facts().targets.iter().map(|target| &target.path);
    let to = page.destination(targets.chain(&used).map(String::as_str))?;
    let mut record = runner.run(&mut view)?;
    view.clear();
    let closed = runner.close_targets();
    let shown =
        page.print(&pages::experiment(&record, page.verbose), || json::text(&record), to.as_ref());
    let dir = runner.record_dir().map(Path::to_path_buf);
    // After the result is printed: the record's disk may be full, or stall.
    let finished = runner.finish(&mut record, &mut view);
    shown.and(closed).and(finished)?;
    if let Some(dir) = dir.filter(|_| !record.header.outcome.is_finished()) {
        let path = fathom_model::shell::quoted(&dir.display().to_string()).into_owned();
        stdio::remark(&format!("fathom: continue with `fathom try --resume {path}`"));
    }
    Ok(if record.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl MeasureArgs {
    fn protocol(&self, plan: &MeasurePlan) -> Protocol {
        let conditions = plan.experiment.conditions.len().max(1) as f64;
        let (rounds, planned, usual) = match plan.is_sweep {
            true => (ROUNDS_SWEEP, ROUNDS_PLANNED_SWEEP, WINDOW_SWEEP),
            false => (ROUNDS, ROUNDS_PLANNED, WINDOW),
        };
        let default = conditions * planned * usual * (1.0 + RAMP_PART);
        let seconds =
            self.duration.map_or(default.clamp(SECONDS_MIN, SECONDS_MAX), |t| t.as_secs_f64());
        let each = seconds / conditions / (f64::from(rounds) + 4.0) / (1.0 + RAMP_PART);
        let window = self
            .window
            .map_or(each.clamp(WINDOW_MIN, WINDOW_MAX).min(usual.max(each / 8.0)), |t| {
                t.as_secs_f64()
            });
        Protocol {
            seconds,
            window_ns: (window * 1e9) as u64,
            ramp_ns: (window * RAMP_PART * 1e9) as u64,
            precision: self.precision.unwrap_or(if plan.is_sweep { 3.0 } else { 1.0 }) / 100.0,
            rounds_min: rounds,
            rounds_warm: u32::from(!plan.is_sweep),
            seed: System::default().random(),
        }
    }
}

/// Progress on standard error: redrawn on a terminal, one line per update elsewhere.
struct MeasureProgress {
    terminal: bool,
    layout: LayoutProgress,
    shown: Option<Instant>,
}

impl MeasureProgress {
    fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { terminal, layout: LayoutProgress::new(false), shown: None }
    }

    /// Leaves the line free for what comes next.
    fn clear(&self) {
        if self.terminal && self.shown.is_some() {
            stdio::clear_status();
        }
    }
}

impl Hooks for MeasureProgress {
    fn laying_out(&mut self, path: &str, done: u64, total: u64) {
        self.layout.show(path, done, total);
    }

    fn notice(&mut self, text: &str) {
        stdio::remark(&format!("fathom: {text}"));
    }

    fn remark(&mut self, text: &str) {
        stdio::remark(&format!("fathom: {text}"));
    }

    fn trying(&mut self, progress: &TrialProgress) {
        let interval = if self.terminal { REDRAW } else { PLAIN };
        if self.shown.is_some_and(|at| at.elapsed() < interval) {
            return;
        }
        self.shown = Some(Instant::now());
        let text =
            experiment_line(&progress.label, progress.rounds, progress.done, progress.seconds);
        let width = if self.terminal { usize::from(live::width()) - 1 } else { usize::MAX };
        let fits: String = escape::text(&text).chars().take(width).collect();
        stdio::status(&fits, self.terminal);
    }
}
