//! Documents as Markdown (CommonMark with GitHub's tables), for issues and mail.

use super::Style;
use super::figure::{NumberContext, code_spans, loose, plain};
use super::text::{sentence, text};
use crate::doc::{Block, DataTable, Document, Heading};
use fathom_model::escape;
use fathom_model::finding::Severity;

pub fn markdown(document: &Document) -> String {
    let mut out = String::new();
    document.heading.iter().for_each(|heading| begin(&mut out, heading));
    blocks(&mut out, document, 2);
    out
}

fn begin(out: &mut String, heading: &Heading) {
    out.push_str(&format!("# {}\n\n", safe(&loose(&heading.line()))));
    for text in [&heading.machine, &heading.devices, &heading.note]
        .into_iter()
        .filter(|text| !text.is_empty())
    {
        out.push_str(&format!("- {}\n", words(text, NumberContext::Sentence)));
    }
    if !heading.command.is_empty() {
        out.push_str(&format!("- {}\n", code(&heading.command)));
    }
}

/// A code span, in more backticks than `text` has in a row.
fn code(text: &str) -> String {
    let text = loose(&escape::text(text));
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

fn blocks(out: &mut String, document: &Document, level: usize) {
    let mut before: Option<&Block> = None;
    for block in &document.blocks {
        let runs_on = match (before, block) {
            (_, Block::HtmlOnly(_) | Block::Svg(_) | Block::Multiples(_)) => true,
            (before, Block::Finding(_)) => matches!(before, Some(Block::Finding(_))),
            _ => false,
        };
        if !out.is_empty() && !runs_on {
            out.push('\n');
        }
        match block {
            Block::Section(section) => {
                let title = safe(section.title.trim_end_matches(':'));
                out.push_str(&format!("{} {title}\n", "#".repeat(level)));
                if !section.about.is_empty() {
                    out.push_str(&format!("\n{}\n", line(&section.about)));
                }
                blocks(out, &section.body, level + 1);
            }
            Block::Paragraph(text) => out.push_str(&format!("{}\n", line(text))),
            Block::KeyValues(entries) => {
                for (at, (key, value)) in entries.iter().enumerate() {
                    // Two spaces keep the break between an entry and what continues it.
                    let goes_on = entries.get(at + 1).is_some_and(|(next, _)| next.is_empty());
                    let value = line(value) + if goes_on { "  " } else { "" };
                    out.push_str(&match key.as_str() {
                        "" if at == 0 => format!("- {value}\n"),
                        "" => format!("  {value}\n"),
                        rank if is_rank(rank) => format!("{rank} {value}\n"),
                        key => format!("- **{}**: {value}\n", safe(key)),
                    });
                }
            }
            Block::Table(table) => out.push_str(&grid(table)),
            Block::Tree(_) | Block::Chart(_) => {
                let tree = Document { blocks: vec![block.clone()], ..Document::default() };
                out.push_str(&format!("```text\n{}```\n", text(&tree, Style::default())));
            }
            Block::Finding(finding) => {
                let label = match finding.severity {
                    Severity::Error => "Error",
                    Severity::Warning => "Warning",
                    Severity::Info => "Note",
                };
                out.push_str(&format!("- **{label}**: {}\n", safe(&loose(&sentence(finding)))));
            }
            Block::HtmlOnly(_) | Block::Svg(_) | Block::Multiples(_) => continue,
        }
        before = Some(block);
    }
}

/// Whether a key numbers its entry, as in `1.`.
fn is_rank(key: &str) -> bool {
    key.strip_suffix('.').is_some_and(|number| number.parse::<u32>().is_ok())
}

fn grid(table: &DataTable) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let names = table.columns.iter().map(|column| safe(&column.name)).collect();
    let rule = |is_text: bool| if is_text { "---" } else { "--:" }.to_string();
    let rules = table.columns.iter().map(|column| rule(column.is_text)).collect();
    let row = |row: &Vec<crate::doc::Text>| {
        let cells = row.iter().map(|cell| words(cell, NumberContext::Cell));
        let missing = table.columns.len().saturating_sub(row.len());
        line(cells.chain(std::iter::repeat_n(String::new(), missing)).collect())
    };
    let rows: String = table.rows.iter().map(row).collect();
    line(names) + &line(rules) + &rows
}

fn words(text: &crate::doc::Text, place: NumberContext) -> String {
    safe(&plain(text, place))
}

/// Text of which nothing but code in backticks is taken for a mark: escaped for terminals, too.
fn safe(text: &str) -> String {
    let part = |(is_code, part)| match is_code {
        true => format!("`{}`", escape::text(part).replace('|', "\\|")),
        false => plain_text(part),
    };
    code_spans(text).into_iter().map(part).collect()
}

/// The first line of a block, which begins neither a heading nor a list.
fn line(text: &crate::doc::Text) -> String {
    let out = words(text, NumberContext::Sentence);
    let mark = if out.starts_with(['#', '+', '-', '=', '~']) { "\\" } else { "" };
    format!("{mark}{out}")
}

fn plain_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut letters = escape::text(text).chars().collect::<Vec<_>>().into_iter().peekable();
    while let Some(c) = letters.next() {
        let within = |c: char| c.is_alphanumeric();
        let is_mark = match c {
            '\\' | '`' | '*' | '<' | '>' | '[' | ']' | '|' => true,
            '_' => !(within(before) && letters.peek().is_some_and(|next| within(*next))),
            _ => false,
        };
        if is_mark {
            out.push('\\');
        }
        out.push(c);
        before = c;
    }
    out
}
