//! Documents as text for a terminal.

use super::Style;
use super::TreeRows;
use super::chart;
use super::figure::{NumberContext, glue, loose, without_ticks};
use crate::doc::{Block, Chart, DataColumn, DataTable, Document, Section, TableExtent, Text, Tree};
use fathom_model::escape;
use fathom_model::finding::{Evidence, Finding, Severity};
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const GAP: usize = 2;
const LABEL: usize = 8;
/// For this much of a column that is cut, others are left out; the least it can have.
const CUT: (usize, usize) = (36, 16);
/// The least width of a column whose table grows.
const GROWING: usize = 8;
/// Evidence up to this width is kept on one line.
const EVIDENCE: usize = 32;
const WIDTH_MIN: usize = 20;

pub fn text(document: &Document, style: Style) -> String {
    rendered(document, style, false)
}

/// The same in color and without empty lines, for a screen.
pub(super) fn dense(document: &Document, width: usize) -> String {
    rendered(document, Style { color: true, width }, true)
}

fn rendered(document: &Document, style: Style, dense: bool) -> String {
    let mut page = TextPage { out: String::new(), style, width: style.width.max(WIDTH_MIN), dense };
    page.heading(document);
    page.blocks(&document.blocks, 0);
    page.out
}

struct TextPage {
    out: String,
    style: Style,
    width: usize,
    dense: bool,
}

impl TextPage {
    fn heading(&mut self, document: &Document) {
        let Some(heading) = &document.heading else { return };
        let title = loose(&escape::text(&heading.line())).len();
        self.lines(&escape::text(&heading.line()), 0, GAP);
        if self.out.len() == title + 1 {
            self.out = format!("{}\n", self.painted("1", self.out.trim_end()));
        }
        for text in [&heading.machine, &heading.devices, &heading.note] {
            if !text.is_empty() {
                self.lines(&glued(text, NumberContext::Sentence), 0, GAP);
            }
        }
        if !heading.command.is_empty() {
            self.wrapped(&escape::text(&heading.command), "$ ", "    ");
        }
        if !document.blocks.is_empty() {
            self.out.push('\n');
        }
    }

    fn blocks(&mut self, blocks: &[Block], indent: usize) {
        let mut before: Option<&Block> = None;
        for block in blocks {
            let runs_on = match (before, block) {
                _ if self.dense => true,
                (None, _) => true,
                (_, Block::HtmlOnly(_) | Block::Svg(_) | Block::Multiples(_)) => true,
                (Some(Block::Finding(_)), Block::Finding(_)) => true,
                (Some(Block::Section(_)), _) | (_, Block::Section(_)) => false,
                _ => indent > 0,
            };
            if !runs_on {
                self.out.push('\n');
            }
            match block {
                Block::Section(section) => self.section(section, indent),
                Block::Paragraph(text) => {
                    self.lines(&glued(text, NumberContext::Sentence), indent, indent)
                }
                Block::KeyValues(entries) => self.key_values(entries, indent),
                Block::Table(table) => self.table(table, indent),
                Block::Tree(tree) => self.tree(tree, indent),
                Block::Chart(chart) => self.chart(chart, indent),
                Block::Finding(finding) => self.finding(finding, indent),
                Block::HtmlOnly(_) | Block::Svg(_) | Block::Multiples(_) => continue,
            }
            before = Some(block);
        }
    }

    fn section(&mut self, section: &Section, indent: usize) {
        let title = escape::text(&section.title);
        let about = glued(&section.about, NumberContext::Sentence);
        let gap = if about.is_empty() { "" } else { "  " };
        let start = self.out.len() + indent;
        self.lines(&format!("{title}{gap}{about}"), indent, indent + 4);
        if self.out.get(start..).is_some_and(|line| line.starts_with(&*title)) {
            self.out.replace_range(start..start + title.len(), &self.painted("1", &title));
        }
        self.blocks(&section.body.blocks, indent + GAP);
    }

    fn chart(&mut self, chart: &Chart, indent: usize) {
        for line in chart::lines(chart, self.width.saturating_sub(indent)) {
            self.out.push_str(format!("{}{line}", " ".repeat(indent)).trim_end());
            self.out.push('\n');
        }
    }

    fn key_values(&mut self, entries: &[(String, Text)], indent: usize) {
        let keys: Vec<_> = entries.iter().map(|(key, _)| escape::text(key)).collect();
        let widest = keys.iter().map(|key| key.width()).max().unwrap_or(0);
        let hang = indent + widest + GAP;
        for (key, (_, value)) in keys.iter().zip(entries) {
            let pad = " ".repeat(indent);
            let first = format!("{pad}{key}{}", " ".repeat(widest + GAP - key.width()));
            let value = glued(value, NumberContext::Sentence);
            self.wrapped(&value, &first, &" ".repeat(hang));
        }
    }

    fn finding(&mut self, finding: &Finding, indent: usize) {
        let label = match finding.severity {
            Severity::Error => "ERROR",
            Severity::Warning => "WARNING",
            Severity::Info => "note",
        };
        let label = self.painted(color(finding.severity), &format!("{label:<LABEL$}"));
        let first = format!("{}{label}", " ".repeat(indent));
        let text = without_ticks(&glue(&escape::text(&sentence(finding))));
        self.wrapped(&text, &first, &" ".repeat(indent + LABEL));
    }

    /// Wraps `text`, which has no escape left to make, and appends it.
    fn lines(&mut self, text: &str, first: usize, rest: usize) {
        self.wrapped(text, &" ".repeat(first), &" ".repeat(rest));
    }

    fn wrapped(&mut self, text: &str, first: &str, rest: &str) {
        for line in wrap(text, self.width, first, rest) {
            self.out.push_str(loose(&line).trim_end());
            self.out.push('\n');
        }
    }

    fn painted(&self, code: &str, text: &str) -> String {
        if self.style.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    fn table(&mut self, table: &DataTable, indent: usize) {
        self.cells(table, &Cells::of(table), indent);
    }

    fn tree(&mut self, tree: &Tree, indent: usize) {
        let TreeRows { table, branches, severities } = TreeRows::of(tree);
        let cells = Cells { branches, severities, ..Cells::of(&table) };
        self.cells(&table, &cells, indent);
    }

    fn cells(&mut self, table: &DataTable, cells: &Cells, indent: usize) {
        match cells.fitting(table, self.width.saturating_sub(indent)) {
            Some(columns) => self.grid(table, cells, &columns, indent),
            None => self.rows(table, cells, indent),
        }
    }

    /// Rows and the columns that fit, with their widths.
    fn grid(
        &mut self,
        table: &DataTable,
        cells: &Cells,
        columns: &[(usize, usize)],
        indent: usize,
    ) {
        if table.extent != TableExtent::Further {
            let names = cells.names.iter().map(|name| vec![name.clone()]).collect::<Vec<_>>();
            let head = self.aligned(table, &names, columns, indent);
            let head = self.painted("2", head.trim_end());
            self.out.push_str(&head);
            self.out.push('\n');
        }
        for (at, row) in cells.rows.iter().enumerate() {
            let mut wrapped: Vec<Vec<String>> = row.iter().map(|cell| vec![cell.clone()]).collect();
            for (column, width) in columns {
                let (first, rest) = if *column == 0 { cells.branches(at) } else { ("", "") };
                let cell = &mut wrapped[*column];
                *cell = match table.columns[*column].is_cut {
                    true => vec![cut(&cell.concat(), *width)],
                    false => wrap(&cell.concat(), *width, first, rest),
                };
            }
            let mut lines = self.aligned(table, &wrapped, columns, indent);
            if let Some(severity) = cells.severities.get(at).copied().flatten() {
                lines = self.painted(color(severity), lines.trim_end()) + "\n";
            }
            self.out.push_str(&lines);
        }
    }

    fn aligned(
        &self,
        table: &DataTable,
        row: &[Vec<String>],
        columns: &[(usize, usize)],
        indent: usize,
    ) -> String {
        let height = columns.iter().map(|(column, _)| row[*column].len()).max().unwrap_or(0).max(1);
        let mut out = String::new();
        for at in 0..height {
            let mut line = " ".repeat(indent);
            for (place, (column, width)) in columns.iter().enumerate() {
                let cell = row[*column].get(at).map_or("", String::as_str);
                let pad = " ".repeat(width.saturating_sub(cell.width()));
                line.push_str(if place > 0 { "  " } else { "" });
                line.push_str(&match table.columns[*column].is_text {
                    true => format!("{cell}{pad}"),
                    false => format!("{pad}{cell}"),
                });
            }
            out.push_str(loose(&line).trim_end());
            out.push('\n');
        }
        out
    }

    /// Each row as a list of named values, where columns do not fit side by side.
    fn rows(&mut self, table: &DataTable, cells: &Cells, indent: usize) {
        for (at, row) in cells.rows.iter().enumerate() {
            let parts = row.iter().zip(&cells.names).zip(&table.columns).enumerate();
            let part = |(at, ((cell, name), column)): (
                usize,
                ((&String, &String), &DataColumn),
            )| match (at, column.is_text) {
                _ if cell.is_empty() || cell == "-" => None,
                (0, true) => Some(cell.clone()),
                // Bars, which other screens leave out first.
                (_, true) if name.is_empty() && column.rank > 0 => None,
                (_, true) if name.is_empty() => Some(cell.clone()),
                (_, true) => Some(format!("{name}:\u{a0}{cell}")),
                (_, false) => Some(format!("{name} {cell}").replace(' ', "\u{a0}")),
            };
            let parts: Vec<String> = parts.filter_map(part).collect();
            let (first, rest) = cells.branches(at);
            let rest = if rest.is_empty() { "  " } else { rest };
            let pad = " ".repeat(indent);
            let text = parts.join("\u{a0}· ");
            self.wrapped(&text, &format!("{pad}{first}"), &format!("{pad}{rest}"));
        }
    }
}

/// `text`, escaped, with unbreakable spaces, and without marks.
fn glued(text: &Text, place: NumberContext) -> String {
    without_ticks(&super::figure::glued(text, place))
}

fn color(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "1;31",
        Severity::Warning => "1;33",
        Severity::Info => "2",
    }
}

struct Cells {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Of a tree, for each row: the prefix of the first line of its first cell, and of others.
    branches: Vec<(String, String)>,
    severities: Vec<Option<Severity>>,
}

impl Cells {
    fn of(table: &DataTable) -> Self {
        let none = Text::default();
        let row = |row: &Vec<Text>| {
            let cells = (0..table.columns.len()).map(|at| row.get(at).unwrap_or(&none));
            cells.map(|cell| glued(cell, NumberContext::Cell)).collect()
        };
        let names = table.columns.iter().map(|column| escape::text(&column.name).into_owned());
        Self {
            names: names.collect(),
            rows: table.rows.iter().map(row).collect(),
            branches: Vec::new(),
            severities: Vec::new(),
        }
    }

    /// The prefix of the first line of a row, and of others.
    fn branches(&self, row: usize) -> (&str, &str) {
        self.branches.get(row).map_or(("", ""), |(first, rest)| (first, rest))
    }

    /// The columns to show, each with its width, in at most `room` columns of the terminal: others are left
    /// out by rank, then text is wrapped. `None` where that is not enough.
    fn fitting(&self, table: &DataTable, room: usize) -> Option<Vec<(usize, usize)>> {
        let widest = |column: usize, of: &dyn Fn(&str) -> usize| {
            let branch = |row| if column == 0 { self.branches(row).0.width() } else { 0 };
            let cells = self.rows.iter().enumerate();
            let cells = cells.map(|(at, row)| branch(at) + of(&row[column]));
            cells.max().unwrap_or(0).max(self.names[column].width())
        };
        let least = if table.extent == TableExtent::Whole { 1 } else { GROWING };
        let width = |column: usize| widest(column, &|cell| cell.width()).max(least);
        let most = |column: usize| if table.columns[column].is_cut { CUT.0 } else { usize::MAX };
        let mut columns: Vec<(usize, usize)> =
            (0..table.columns.len()).map(|at| (at, width(at).min(most(at)))).collect();
        let excess = |columns: &[(usize, usize)]| {
            let all: usize = columns.iter().map(|(_, width)| width + GAP).sum();
            all.saturating_sub(room + GAP)
        };
        if excess(&columns) > 0 && table.extent == TableExtent::Whole {
            let is_used = |at: usize| self.rows.iter().any(|row| !row[at].is_empty());
            columns.retain(|(at, _)| *at == 0 || is_used(*at));
        }
        while excess(&columns) > 0 {
            let rank = |(column, _): &(usize, usize)| table.columns[*column].rank;
            let last = (0..columns.len()).max_by_key(|at| rank(&columns[*at]))?;
            if rank(&columns[last]) == 0 {
                break;
            }
            let cut = columns[last].1.saturating_sub(excess(&columns));
            match table.columns[columns[last].0].is_cut && cut >= CUT.1 {
                true => columns[last].1 = cut,
                false => drop(columns.remove(last)),
            }
        }
        let mut free = room + GAP - (room + GAP).min(columns.iter().map(|(_, w)| w + GAP).sum());
        for (column, shown) in columns.iter_mut().filter(|(at, _)| table.columns[*at].is_cut) {
            let more = free.min(width(*column) - *shown);
            *shown += more;
            free -= more;
        }
        let word = |cell: &str| cell.split(' ').map(UnicodeWidthStr::width).max().unwrap_or(0);
        let shortest = |column: usize| widest(column, &word).max(least);
        let mut texts: Vec<(usize, usize)> = (0..columns.len())
            .filter(|at| table.columns[columns[*at].0].is_text)
            .map(|at| (at, shortest(columns[at].0)))
            .collect();
        // The widest one gives way, so that those of the same content have the same width.
        while excess(&columns) > 0 {
            texts.retain(|(at, shortest)| columns[*at].1 > *shortest);
            let (at, _) = *texts.iter().max_by_key(|(at, _)| columns[*at].1)?;
            columns[at].1 -= 1;
        }
        Some(columns)
    }
}

/// A finding as a sentence: the summary, the evidence unless it is a note, and the remedy.
pub(super) fn sentence(finding: &Finding) -> String {
    let mut text = finding.summary.clone();
    // Evidence that the summary names is not repeated.
    let is_new = |e: &&Evidence| e.name.is_empty() || !finding.summary.contains(&e.name);
    let evidence: Vec<&Evidence> = finding.evidence.iter().filter(is_new).collect();
    if !evidence.is_empty() && finding.severity != Severity::Info {
        let short = |item: String| match item.width() <= EVIDENCE {
            true => item.replace(' ', "\u{a0}"),
            false => item,
        };
        let items: Vec<String> = evidence.iter().map(|e| short(e.to_string())).collect();
        text.push_str(&format!(" ({})", items.join("; ")));
    }
    if let Some(next) = &finding.next_step {
        text.push_str(&format!(" → {next}"));
    }
    text
}

fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_string();
    }
    let mut end = 0;
    let fits = |c: &char| {
        end += c.width().unwrap_or(0);
        end < width
    };
    text.chars().take_while(fits).chain(std::iter::once('…')).collect()
}

/// `text` in lines of at most `width` columns, broken between words only; a longer word has a line of its own.
fn wrap(text: &str, width: usize, first: &str, rest: &str) -> Vec<String> {
    let options = Options::new(width)
        .initial_indent(first)
        .subsequent_indent(rest)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::wrap(text, options).into_iter().map(|line| line.into_owned()).collect()
}
