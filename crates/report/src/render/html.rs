//! Documents as self-contained HTML pages, which load nothing, for light and dark screens of any width.

use super::TreeRows;
use super::figure::{NumberContext, code_spans, loose, shown};
use super::svg;
use super::text::sentence;
use crate::doc::{Block, DataTable, Document, Heading, QuantityUnit, Section, Span, Text};
use fathom_model::escape;
use fathom_model::finding::{Finding, Severity};
use std::fmt::Write;

const STYLE: &str = include_str!("html.css");

pub fn html(document: &Document) -> String {
    let title = document.heading.as_ref().map_or_else(|| "fathom".into(), Heading::line);
    let title = escaped(&title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    document.heading.iter().for_each(|heading| begin(&mut out, heading));
    blocks(&mut out, document, 2);
    out + "</main>\n</body>\n</html>\n"
}

fn begin(out: &mut String, heading: &Heading) {
    for text in [&heading.machine, &heading.devices, &heading.note]
        .into_iter()
        .filter(|text| !text.is_empty())
    {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "<p class=\"about\">{}</p>", words(text, NumberContext::Sentence));
    }
    if !heading.command.is_empty() {
        let _ = writeln!(out, "<p><code>{}</code></p>", escaped(&heading.command));
    }
}

/// Text from anywhere as text of a page: without markup, and without what a terminal takes for commands.
pub(super) fn escaped(text: &str) -> String {
    markup(&loose(&escape::text(text)))
}

/// Text without control characters as text or an attribute of HTML or SVG.
pub(crate) fn markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn blocks(out: &mut String, document: &Document, level: usize) {
    for block in &document.blocks {
        match block {
            Block::Section(section) => part(out, section, level),
            Block::Paragraph(text) => {
                // Writing to a string cannot fail.
                let _ = writeln!(out, "<p>{}</p>", words(text, NumberContext::Sentence));
            }
            Block::KeyValues(entries) => key_values(out, entries),
            Block::Table(data) => table(out, data, None),
            Block::Tree(tree) => {
                let rows = TreeRows::of(tree);
                table(out, &rows.table, Some(&rows));
            }
            Block::Chart(chart) => out.push_str(&svg::figure(chart)),
            Block::Finding(found) => finding(out, found),
            Block::HtmlOnly(part) => blocks(out, part, level),
        }
    }
}

fn part(out: &mut String, section: &Section, level: usize) {
    let level = level.min(6);
    let title = escaped(section.title.trim_end_matches(':'));
    let _ = writeln!(out, "<section>\n<h{level}>{title}</h{level}>");
    if !section.about.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"about\">{}</p>",
            words(&section.about, NumberContext::Sentence)
        );
    }
    blocks(out, &section.body, level + 1);
    out.push_str("</section>\n");
}

fn key_values(out: &mut String, entries: &[(String, Text)]) {
    out.push_str("<dl>\n");
    for (key, value) in entries {
        if !key.is_empty() {
            let _ = writeln!(out, "<dt>{}</dt>", escaped(key));
        }
        let _ = writeln!(out, "<dd>{}</dd>", words(value, NumberContext::Sentence));
    }
    out.push_str("</dl>\n");
}

fn table(out: &mut String, data: &DataTable, tree: Option<&TreeRows>) {
    let class = |is_text: bool| if is_text { "" } else { " class=\"n\"" };
    // Focusable, so that the keyboard scrolls it.
    out.push_str("<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>");
    for column in &data.columns {
        let _ = write!(
            out,
            "<th scope=\"col\"{}>{}</th>",
            class(column.is_text),
            escaped(&column.name)
        );
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let none = Text::default();
    for (at, row) in data.rows.iter().enumerate() {
        let severity = tree.and_then(|tree| tree.severities.get(at).copied().flatten());
        let _ = write!(
            out,
            "<tr{}>",
            severity.map_or("", |s| match s {
                Severity::Error => " class=\"error\"",
                Severity::Warning => " class=\"warning\"",
                Severity::Info => "",
            })
        );
        for (place, column) in data.columns.iter().enumerate() {
            let cell = row.get(place).unwrap_or(&none);
            let branch = tree.filter(|_| place == 0).and_then(|tree| tree.branches.get(at));
            let branch = branch.map_or_else(String::new, |(first, _)| {
                format!("<span class=\"branch\">{}</span>", escaped(first))
            });
            let _ = write!(
                out,
                "<td{}>{branch}{}</td>",
                class(column.is_text),
                words(cell, NumberContext::Cell)
            );
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

fn finding(out: &mut String, finding: &Finding) {
    let (class, label) = match finding.severity {
        Severity::Error => ("error", "Error"),
        Severity::Warning => ("warning", "Warning"),
        Severity::Info => ("note", "Note"),
    };
    let text = code(&sentence(finding));
    let _ = writeln!(out, "<p class=\"finding {class}\"><b>{label}</b> {text}</p>");
}

/// `text` with code in backticks marked as such.
fn code(text: &str) -> String {
    let part = |(is_code, part)| match is_code {
        true => format!("<code>{}</code>", escaped(part)),
        false => escaped(part),
    };
    code_spans(text).into_iter().map(part).collect()
}

fn words(text: &Text, place: NumberContext) -> String {
    let span = |span: &Span| match span {
        Span::Words(words) => code(words),
        Span::Quantity(quantity) if quantity.unit == QuantityUnit::PercentBar => {
            let width = quantity.value.clamp(0.0, 100.0);
            format!("<span class=\"meter\"><span style=\"width:{width:.0}%\"></span></span>")
        }
        Span::Quantity(quantity) => {
            format!("<span class=\"q\">{}</span>", escaped(&shown(quantity, place)))
        }
    };
    text.spans.iter().map(span).collect()
}
