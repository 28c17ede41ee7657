//! The options that commands share, and how pages are printed.

use crate::output::{self, Destination};
use crate::stdio::Kind;
use clap::ValueEnum;
use fathom_analysis::hosts::HostsReport;
use fathom_machine::Roots;
use fathom_model::facts::DeviceFacts;
use fathom_report::calendar::{self, TimeZone};
use fathom_report::doc::{Document, Heading};
use fathom_report::json;
use fathom_report::pages::{self, Origin, device_list};
use fathom_report::render::{self, Style};
use fathom_runner::RecordTo;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::{OnceLock, PoisonError, RwLock};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

static COLOR: RwLock<Color> = RwLock::new(Color::Auto);
static ZONE: OnceLock<TimeZone> = OnceLock::new();

pub fn set_color(color: Color) {
    *COLOR.write().unwrap_or_else(PoisonError::into_inner) = color;
}

/// The time zone of times on screen: local, or UTC with `--utc`.
pub fn zone() -> &'static TimeZone {
    ZONE.get().unwrap_or_else(|| calendar::local_zone())
}

pub fn use_utc() {
    // Setting it again has no effect.
    let _ = ZONE.set(TimeZone::UTC);
}

/// How a page about the machine as it is begins: what `fathom NAME` reads now, on which `devices`.
pub fn heading<'a>(
    name: &str,
    devices: impl IntoIterator<Item = &'a DeviceFacts>,
) -> Option<Heading> {
    let command = fathom_runner::command();
    let origin = Origin {
        name,
        version: env!("CARGO_PKG_VERSION"),
        command: &command,
        started_unix_ns: fathom_engine::clock::unix_ns(),
        host: &fathom_machine::host(&Roots::default()),
        targets: &[],
        shared: false,
    };
    let devices = device_list(devices);
    origin.heading().map(|heading| Heading { devices, ..heading })
}

/// Prints how machines differ.
pub fn print_hosts(
    name: &str,
    report: &HostsReport,
    args: &PageArgs,
    to: Option<&Destination>,
) -> Result<(), String> {
    let mut page = pages::hosts(report, args.verbose);
    page.heading = heading(name, None);
    args.print(&page, || json::text(report), to)
}

pub fn style(to_file: bool) -> Style {
    let terminal = !to_file && std::io::stdout().is_terminal();
    let color = match *COLOR.read().unwrap_or_else(PoisonError::into_inner) {
        Color::Auto => terminal && std::env::var_os("NO_COLOR").is_none(),
        Color::Always => true,
        Color::Never => false,
    };
    let width = if terminal { rustix::termios::tcgetwinsize(std::io::stdout()).ok() } else { None };
    let wanted = || std::env::var("COLUMNS").ok()?.parse().ok();
    let width = width.map(|size| usize::from(size.ws_col)).or_else(wanted);
    let width = width.filter(|columns| *columns > 0);
    Style { color, width: width.map_or(Style::default().width, |columns| columns.min(120)) }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum PageFormat {
    /// For users.
    #[default]
    Text,
    /// For documents and issue trackers.
    Markdown,
    /// For programs.
    Json,
    /// A page with pictures: one file that loads nothing.
    Html,
}

impl PageFormat {
    /// The format that the ending of a file's name stands for: `.html`, `.md`, `.json` or `.txt`; none without an ending.
    /// Fails for the ending of another format.
    pub fn of_file(name: &str) -> Result<Option<Self>, String> {
        let ending = Path::new(name).extension().map(|ending| ending.to_ascii_lowercase());
        let ending = ending.as_ref().and_then(|ending| ending.to_str()).unwrap_or_default();
        match ending {
            "html" | "htm" => Ok(Some(Self::Html)),
            "md" | "markdown" => Ok(Some(Self::Markdown)),
            "json" => Ok(Some(Self::Json)),
            "txt" | "text" | "log" | "out" => Ok(Some(Self::Text)),
            // A date, or what follows a point in a name.
            _ if !ending.bytes().all(|byte| byte.is_ascii_lowercase()) => Ok(None),
            "" => Ok(None),
            other => Err(format!(
                "--output={name}: .{other} is not supported; use .html, .md, .json or .txt, or name a format"
            )),
        }
    }
}

#[derive(Debug, Clone, Default, clap::Args)]
pub struct FormatArgs {
    /// Format of the result; by default that of the ending of --output, else text
    #[arg(long, value_enum)]
    format: Option<PageFormat>,
    /// Same as --format=json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl FormatArgs {
    pub fn get(&self) -> PageFormat {
        if self.json { PageFormat::Json } else { self.format.unwrap_or_default() }
    }

    /// The same, with this format where the command line names none.
    pub fn or(&self, format: PageFormat) -> Self {
        if self.is_given() { self.clone() } else { Self { format: Some(format), json: false } }
    }

    pub fn is_given(&self) -> bool {
        self.json || self.format.is_some()
    }

    pub fn is_json(&self) -> bool {
        self.get() == PageFormat::Json
    }

    /// Renders `page`; as JSON, returns what `json` does: the data that the page shows.
    pub fn render(
        &self,
        page: &Document,
        json: impl FnOnce() -> Result<String, String>,
        to_file: bool,
    ) -> Result<(String, Kind), String> {
        let page = &page.clone().in_zone(zone());
        Ok(match self.get() {
            PageFormat::Json => (json()?, Kind::Json),
            PageFormat::Markdown => (render::markdown(page), Kind::Lines),
            PageFormat::Html => (render::html(page), Kind::Lines),
            PageFormat::Text => {
                let style = style(to_file);
                let kind = if style.color { Kind::ColoredLines } else { Kind::Lines };
                (render::text(page, style), kind)
            }
        })
    }
}

#[derive(Debug, Clone, Default, clap::Args)]
pub struct RecordArgs {
    /// Run directory to create
    ///
    /// The default is a new directory in ~/.local/state/fathom/runs.
    #[arg(long, value_name = "DIR", conflicts_with = "no_record")]
    record: Option<String>,
    /// Write no run directory
    #[arg(long)]
    pub no_record: bool,
}

impl RecordArgs {
    pub fn to(&self) -> RecordTo {
        RecordTo::from_options(self.record.as_deref(), self.no_record)
    }
}

#[derive(Debug, Clone, Default, clap::Args)]
pub struct PageArgs {
    #[command(flatten)]
    pub format: FormatArgs,
    /// Write the result to FILE instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<String>,
    /// Also print how figures were measured, or why they are missing
    #[arg(short, long)]
    pub verbose: bool,
}

impl PageArgs {
    /// The format of the result: as the options say, else as the ending of the file's name says, else text.
    pub fn format(&self) -> FormatArgs {
        let named = self.output.as_deref().and_then(|file| PageFormat::of_file(file).ok()?);
        named.map_or_else(|| self.format.clone(), |format| self.format.or(format))
    }

    /// The destination of the result, which must not be one of the files `used` by the command. Its name must not have the
    /// ending of another format.
    pub fn destination<'a>(
        &self,
        used: impl IntoIterator<Item = &'a str>,
    ) -> Result<Option<Destination>, String> {
        if let Some(file) = self.output.as_deref().filter(|_| !self.format.is_given()) {
            PageFormat::of_file(file)?;
        }
        self.file(used)
    }

    /// The same of a file in a format of its own.
    pub fn file<'a>(
        &self,
        used: impl IntoIterator<Item = &'a str>,
    ) -> Result<Option<Destination>, String> {
        self.output.as_deref().map(|file| Destination::open(file, used)).transpose()
    }

    /// Prints `page`; as JSON, prints `json` instead.
    pub fn print(
        &self,
        page: &Document,
        json: impl FnOnce() -> Result<String, String>,
        to: Option<&Destination>,
    ) -> Result<(), String> {
        let (text, kind) = self.format().render(page, json, self.output.is_some())?;
        output::emit(&text, kind, to)
    }

    /// Like [`PageArgs::print`], but to standard error, because standard output is a command's.
    pub fn print_to_stderr(
        &self,
        page: &Document,
        json: impl FnOnce() -> Result<String, String>,
    ) -> Result<(), String> {
        let (text, kind) = self.format().render(page, json, self.output.is_some())?;
        output::emit_to_stderr(&text, kind)
    }
}
