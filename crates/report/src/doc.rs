//! What a page holds, independent of its presentation. Page builders make a [`Document`], renderers
//! ([`crate::render`]) turn it into text, Markdown, HTML or JSON. Builders never format a number or pad a
//! column; renderers never know what a run is.

mod chart;

pub use chart::{Axis, AxisEvent, Chart, ChartKind, ChartPoint, ChartSeries};

use crate::calendar::{self, TimeZone};
use fathom_model::Finding;
use fathom_model::finding::Severity;
use fathom_model::window::Estimate;

/// A space at which no line is broken.
const NO_BREAK: char = '\u{a0}';
/// Maximum length of a noun without line breaks, in characters.
const NOUN_WHOLE: usize = 20;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    pub heading: Option<Heading>,
    pub blocks: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Section(Section),
    Paragraph(Text),
    /// Named values; an empty name continues the entry above.
    KeyValues(Vec<(String, Text)>),
    Table(DataTable),
    Tree(Tree),
    Chart(Chart),
    /// Small charts side by side with the same axes, for HTML only.
    Multiples(Vec<Chart>),
    Finding(Finding),
    /// A picture complete in itself, for HTML only.
    Svg(String),
    /// What only HTML shows, such as charts with more points than a terminal has columns.
    HtmlOnly(Document),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    pub title: String,
    /// What it is about, in one sentence; may be empty.
    pub about: Text,
    pub body: Document,
    pub lead: Option<Lead>,
    /// Whether the title is the name of a device, a job or the like, which keeps its spelling.
    pub is_name: bool,
}

/// What HTML begins a page with, in this order. Text has it where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lead {
    Verdict,
    Ceilings,
    /// The main figures, as named values.
    Figures,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct DataTable {
    pub columns: Vec<DataColumn>,
    /// A row may have fewer cells than there are columns.
    pub rows: Vec<Vec<Text>>,
    pub extent: TableExtent,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tree {
    pub columns: Vec<DataColumn>,
    pub roots: Vec<TreeNode>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct TreeNode {
    pub cells: Vec<Text>,
    pub severity: Option<Severity>,
    pub children: Vec<TreeNode>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TableExtent {
    #[default]
    Whole,
    /// The first rows of a table that grows while it is read: columns keep a fixed width.
    First,
    /// Further rows of such a table, without column names.
    Further,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DataColumn {
    pub name: String,
    pub is_text: bool,
    /// Where space is short, columns with the highest rank are left out first; those of rank 0 never.
    pub rank: u8,
    /// On a terminal, text is cut to what fits instead of wrapped.
    pub is_cut: bool,
    /// On the screen of `top`, its least and its greatest width, so that columns keep their places.
    pub width: (u16, u16),
}

impl DataColumn {
    pub fn text(name: &str) -> Self {
        Self { name: name.into(), is_text: true, rank: 0, is_cut: false, width: (1, u16::MAX) }
    }

    pub fn number(name: &str) -> Self {
        Self { is_text: false, ..Self::text(name) }
    }

    pub fn cut(name: &str) -> Self {
        Self { is_cut: true, ..Self::text(name) }
    }

    pub fn ranked(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    /// The same with its widths on the screen of `top`.
    pub fn wide(self, least: u16, most: u16) -> Self {
        Self { width: (least, most), ..self }
    }
}

/// A number with its unit, and the interval that it lies in where that is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity {
    pub value: f64,
    pub unit: QuantityUnit,
    /// Lower and upper end, in `unit`.
    pub interval: Option<(f64, f64)>,
    /// Confidence of the interval, in percent.
    pub confidence: u8,
    /// In a line of the screen of `top`, its least width, so that what follows keeps its place.
    pub width: u8,
}

/// The confidence of most intervals, in percent.
pub const CONFIDENCE: u8 = 95;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantityUnit {
    /// Things or events, or events per second; large ones have a decimal suffix.
    Count,
    Whole,
    Number,
    Ratio,
    Percent,
    Change,
    PercentBar,
    Nanoseconds,
    Bytes,
    /// Bytes per second, in MiB/s and the like.
    BytesPerSecond,
    /// Bytes per second, in MB/s and the like.
    DecimalBytesPerSecond,
    /// Bits per second, in Mibit/s and the like.
    BitsPerSecond,
    /// Bits per second, in Mbit/s and the like.
    DecimalBitsPerSecond,
}

impl Quantity {
    pub fn new(value: f64, unit: QuantityUnit) -> Self {
        // The sum of nothing is −0.
        Self { value: value + 0.0, unit, interval: None, confidence: CONFIDENCE, width: 0 }
    }

    pub fn within(self, low: f64, high: f64) -> Self {
        Self { interval: Some((low, high)), ..self }
    }

    /// With the interval of `estimate` times `factor`, if it has one, which does not go below 0.
    pub fn estimated(self, estimate: &Estimate, factor: f64) -> Self {
        let ends = estimate.low.zip(estimate.high);
        Self { interval: ends.map(|(low, high)| (low.max(0.0) * factor, high * factor)), ..self }
    }
}

pub fn count(value: f64) -> Quantity {
    Quantity::new(value, QuantityUnit::Count)
}

pub fn events(value: u64) -> Quantity {
    count(value as f64)
}

pub fn whole(value: impl Into<u64>) -> Quantity {
    Quantity::new(value.into() as f64, QuantityUnit::Whole)
}

pub fn number(value: f64) -> Quantity {
    Quantity::new(value, QuantityUnit::Number)
}

/// `part` of `all` in percent; 0 of 0 is 0%.
pub fn share(part: u64, all: u64) -> Quantity {
    percent(part as f64 * 100.0 / all.max(1) as f64)
}

pub fn percent(value: f64) -> Quantity {
    Quantity::new(value, QuantityUnit::Percent)
}

pub fn time(ns: f64) -> Quantity {
    Quantity::new(ns, QuantityUnit::Nanoseconds)
}

pub fn bytes(value: u64) -> Quantity {
    Quantity::new(value as f64, QuantityUnit::Bytes)
}

pub fn bandwidth(value: f64) -> Quantity {
    Quantity::new(value, QuantityUnit::BytesPerSecond)
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Text {
    /// Joined without spaces between them.
    pub spans: Vec<Span>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Span {
    Words(String),
    Quantity(Quantity),
}

impl Text {
    pub fn push(&mut self, part: impl Into<Text>) {
        self.spans.extend(part.into().spans);
    }

    /// The first number in it.
    pub fn quantity(&self) -> Option<Quantity> {
        self.spans.iter().find_map(|span| match span {
            Span::Quantity(quantity) => Some(*quantity),
            Span::Words(_) => None,
        })
    }

    /// `parts` with `separator` between them; empty ones are left out.
    pub fn join(parts: impl IntoIterator<Item = Text>, separator: &str) -> Self {
        let mut all = Self::default();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            if !all.is_empty() {
                all.push(separator);
            }
            all.push(part);
        }
        all
    }

    pub fn is_empty(&self) -> bool {
        self.spans.iter().all(|span| matches!(span, Span::Words(words) if words.is_empty()))
    }
}

/// A name and its value, between which no line is broken.
pub fn named(name: &str, value: impl Into<Text>) -> Text {
    text!(name.replace(' ', "\u{a0}"), NO_BREAK.to_string(), value)
}

/// A value and its noun, never separated by a line break; only longer nouns are broken themselves.
pub fn of(value: impl Into<Text>, name: &str) -> Text {
    let is_short = name.chars().count() <= NOUN_WHOLE;
    let name = if is_short { name.replace(' ', "\u{a0}") } else { name.to_string() };
    text!(value, NO_BREAK.to_string(), name)
}

/// A number of things, whose name has an `s` unless there is one of them.
pub fn plural(n: u64, name: &str) -> Text {
    let plural = if name.ends_with('s') { "es" } else { "s" };
    of(events(n), &if n == 1 { name.to_string() } else { format!("{name}{plural}") })
}

macro_rules! text {
    ($($part:expr),* $(,)?) => {{
        let mut text = $crate::doc::Text::default();
        $(text.push($part);)*
        text
    }};
}
pub(crate) use text;

impl From<&str> for Text {
    fn from(words: &str) -> Self {
        Self::from(words.to_string())
    }
}

impl From<String> for Text {
    fn from(words: String) -> Self {
        Self { spans: vec![Span::Words(words)] }
    }
}

impl From<Quantity> for Text {
    fn from(quantity: Quantity) -> Self {
        Self { spans: vec![Span::Quantity(quantity)] }
    }
}

impl<T: Into<Text>> From<Option<T>> for Text {
    fn from(part: Option<T>) -> Self {
        part.map_or_else(Self::default, Into::into)
    }
}

impl Document {
    pub fn headed(heading: Option<Heading>) -> Self {
        Self { heading, ..Self::default() }
    }

    pub fn in_zone(mut self, zone: &TimeZone) -> Self {
        self.heading.iter_mut().for_each(|heading| heading.zone = zone.clone());
        self
    }

    pub fn paragraph(&mut self, text: impl Into<Text>) {
        self.blocks.push(Block::Paragraph(text.into()));
    }

    /// Appends a named value to the list at the end, or begins one; nothing where the value is empty.
    pub fn entry(&mut self, key: &str, value: impl Into<Text>) {
        let value = value.into();
        if value.is_empty() {
            return;
        }
        let entry = (key.to_string(), value);
        match self.blocks.last_mut() {
            Some(Block::KeyValues(entries)) => entries.push(entry),
            _ => self.blocks.push(Block::KeyValues(vec![entry])),
        }
    }

    pub fn table(&mut self, columns: Vec<DataColumn>, rows: Vec<Vec<Text>>) {
        if !rows.is_empty() {
            self.blocks.push(Block::Table(DataTable { columns, rows, ..DataTable::default() }));
        }
    }

    pub fn tree(&mut self, columns: Vec<DataColumn>, roots: Vec<TreeNode>) {
        if !roots.is_empty() {
            self.blocks.push(Block::Tree(Tree { columns, roots }));
        }
    }

    pub fn chart(&mut self, chart: Chart) {
        if chart.points().next().is_some() {
            self.blocks.push(Block::Chart(chart));
        }
    }

    /// Appends what only HTML shows.
    pub fn html_only(&mut self, part: Self) {
        if !part.blocks.is_empty() {
            self.blocks.push(Block::HtmlOnly(part));
        }
    }

    /// Appends findings, without the verdict, which has its own place.
    pub fn findings(&mut self, findings: &[Finding]) {
        let shown = findings.iter().filter(|finding| !finding.is_verdict());
        self.blocks.extend(shown.cloned().map(Block::Finding));
    }

    pub fn section(&mut self, title: &str, about: impl Into<Text>, body: Document) {
        self.push_section(title, about.into(), body, |_| ());
    }

    /// The same; nothing without content.
    pub fn section_if_any(&mut self, title: &str, about: impl Into<Text>, body: Document) {
        if !body.blocks.is_empty() {
            self.section(title, about, body);
        }
    }

    /// Appends a section called by the name of what it is about.
    pub fn named(&mut self, name: &str, about: impl Into<Text>, body: Document) {
        self.push_section(name, about.into(), body, |section| section.is_name = true);
    }

    /// Appends a section with which HTML begins; nothing without content.
    pub fn lead(&mut self, lead: Lead, title: &str, about: impl Into<Text>, body: Document) {
        if !body.blocks.is_empty() {
            self.push_section(title, about.into(), body, |section| section.lead = Some(lead));
        }
    }

    fn push_section(
        &mut self,
        title: &str,
        about: Text,
        body: Document,
        set: impl Fn(&mut Section),
    ) {
        let title = title.to_string();
        let mut section = Section { title, about, body, lead: None, is_name: false };
        set(&mut section);
        self.blocks.push(Block::Section(section));
    }
}

/// The command, the host and the date, then the machine, its devices and the command line. What is empty is left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Heading {
    pub title: String,
    pub host: String,
    /// When the command started, in nanoseconds since 1970 (UTC); 0 if unknown.
    pub started_unix_ns: u64,
    pub machine: Text,
    pub devices: Text,
    pub command: String,
    /// What to know of the whole page.
    pub note: Text,
    pub zone: TimeZone,
}

impl Heading {
    /// `fathom run · build-7 · 2026-11-21 20:53:12 +01:00`
    pub fn line(&self) -> String {
        let started = self.started_unix_ns;
        let date = (started > 0).then(|| calendar::date_and_time(started, &self.zone));
        let parts = [&self.title, &self.host, date.as_ref().unwrap_or(&String::new())]
            .map(|part| part.replace(' ', "\u{a0}"));
        let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
        parts.join("\u{a0}· ")
    }
}
