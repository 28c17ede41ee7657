//! Pages: the options that all commands share, and how a page becomes text.

use crate::output::{self, Destination};
use crate::stdio::Kind;
use clap::ValueEnum;
use fathom_report::calendar::{self, TimeZone};
use fathom_report::doc::Document;
use fathom_report::render::{self, Style};
use std::io::IsTerminal;
use std::sync::OnceLock;

/// When to use color.
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

static COLOR: OnceLock<Color> = OnceLock::new();
static ZONE: OnceLock<TimeZone> = OnceLock::new();

/// Sets what `--color` says, once.
pub fn set_color(color: Color) {
    // Only main sets it.
    let _ = COLOR.set(color);
}

/// The time zone of times on screen: local, or UTC with `--utc`.
#[must_use]
pub fn zone() -> &'static TimeZone {
    ZONE.get().unwrap_or_else(|| calendar::local_zone())
}

/// Shows times in UTC.
pub fn use_utc() {
    // Only main sets it.
    let _ = ZONE.set(TimeZone::UTC);
}

/// How text looks on standard output, or in a file.
#[must_use]
pub fn style(to_file: bool) -> Style {
    let terminal = !to_file && std::io::stdout().is_terminal();
    let color = match COLOR.get().copied().unwrap_or_default() {
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

/// How a page is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum PageFormat {
    /// For people.
    #[default]
    Text,
    /// For documents and issue trackers.
    Markdown,
    /// For programs.
    Json,
    /// A page with pictures that can be forwarded: one file that loads nothing.
    Html,
}

/// The form of a result.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct FormatArgs {
    /// Format of the result.
    #[arg(long, value_enum, default_value_t)]
    format: PageFormat,
    /// Same as --format=json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl FormatArgs {
    /// The format.
    #[must_use]
    pub fn get(&self) -> PageFormat {
        if self.json { PageFormat::Json } else { self.format }
    }

    /// Whether the result is JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.get() == PageFormat::Json
    }

    /// `page` as text, or `json` in its place where the record itself is what programs read.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub fn render(
        &self,
        page: &Document,
        json: Option<String>,
        to_file: bool,
    ) -> Result<(String, Kind), String> {
        Ok(match self.get() {
            PageFormat::Json => {
                let page = || render::json(page).map_err(|e| e.to_string());
                (json.map_or_else(page, Ok)?, Kind::Json)
            }
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

/// The options of every command whose result is a page.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct PageArgs {
    #[command(flatten)]
    format: FormatArgs,
    /// Write the result to FILE instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
    /// Say why a source is not available, and how a figure was measured.
    #[arg(short, long)]
    pub verbose: bool,
}

impl PageArgs {
    /// Where the result goes, which is none of the files `used` by the command.
    ///
    /// # Errors
    /// Why no result can be written there.
    pub fn destination<'a>(
        &self,
        used: impl IntoIterator<Item = &'a str>,
    ) -> Result<Option<Destination>, String> {
        self.output.as_deref().map(|file| Destination::open(file, used)).transpose()
    }

    /// Prints `page`, or `json` in its place where the record itself is what programs read.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn print(
        &self,
        page: &Document,
        json: Option<String>,
        to: Option<&Destination>,
    ) -> Result<(), String> {
        let (text, kind) = self.format.render(page, json, self.output.is_some())?;
        output::emit(&text, kind, to)
    }

    /// As [`PageArgs::print`], to standard error, where standard output is a command's.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn print_beside(&self, page: &Document) -> Result<(), String> {
        let (text, kind) = self.format.render(page, None, self.output.is_some())?;
        output::emit_beside(&text, kind)
    }
}
