//! Documents as self-contained HTML pages, which load nothing, for light and dark screens of any width.

use super::TreeRows;
use super::figure::{NumberContext, code_spans, loose, shown};
use super::svg;
use super::text::sentence;
use crate::doc::{Block, DataTable, Document, Heading, Lead, QuantityUnit, Section, Span, Text};
use crate::stacks::FLAME_SCRIPT;
use fathom_model::escape;
use fathom_model::finding::{Finding, Severity};
use std::fmt::Write;

const STYLE: &str = include_str!("html.css");
/// Lets browsers refuse whatever a page would load.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
/// Only of pages with charts, which are complete without it: values under the pointer, parts of the time, single series.
const SCRIPT: &str = include_str!("html.js");

pub fn html(document: &Document) -> String {
    let heading = document.heading.as_ref();
    let title = escaped(&heading.map_or_else(|| "fathom".into(), Heading::line));
    let name = escaped(heading.map_or("fathom", |heading| heading.title.as_str()));
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{name}</h1>\n"
    );
    heading.iter().for_each(|heading| begin(&mut out, heading));
    out.push_str("</header>\n");
    blocks(&mut out, document, 2);
    let command = heading.map_or("", |heading| heading.command.as_str());
    if !command.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "<section>\n<h2>Command</h2>\n<p class=\"cmd\"><code>{}</code></p>\n</section>",
            escaped(command)
        );
    }
    out.push_str("</main>\n");
    let scripts = [(" data-plot=", SCRIPT), (" data-all=", FLAME_SCRIPT)];
    let needed = scripts.into_iter().filter(|(needs, _)| out.contains(needs));
    for (_, script) in needed.collect::<Vec<_>>() {
        let lines = script.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
        let script = lines.collect::<Vec<_>>().join("\n");
        // Writing to a string cannot fail.
        let _ = writeln!(out, "<script>\n{script}\n</script>");
    }
    out + "</body>\n</html>\n"
}

fn begin(out: &mut String, heading: &Heading) {
    let from = Heading { title: String::new(), ..heading.clone() }.line();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "<p class=\"from\">{}</p>", escaped(&from));
    for text in [&heading.machine, &heading.devices, &heading.note]
        .into_iter()
        .filter(|text| !text.is_empty())
    {
        let _ = writeln!(out, "<p class=\"about\">{}</p>", words(text, NumberContext::Sentence));
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
    let mut all = Vec::new();
    flatten(document, &mut all);
    // The answer, before anything else, is what a page without a verdict of its own begins with.
    let answers = all.iter().take_while(|block| matches!(block, Block::Paragraph(_))).count();
    let (answers, rest) = all.split_at(if level == 2 { answers } else { 0 });
    for answer in answers {
        if let Block::Paragraph(text) = answer {
            // Writing to a string cannot fail.
            let _ =
                writeln!(out, "<p class=\"answer\">{}</p>", words(text, NumberContext::Sentence));
        }
    }
    let lead = |block: &&&Block| matches!(block, Block::Section(Section { lead: Some(_), .. }));
    let mut leads: Vec<&&Block> = rest.iter().filter(lead).collect();
    leads.sort_by_key(|block| match block {
        Block::Section(section) => section.lead,
        _ => None,
    });
    leads.into_iter().for_each(|one| block(out, one, level));
    rest.iter().filter(|one| !lead(one)).for_each(|one| block(out, one, level));
}

fn flatten<'a>(document: &'a Document, all: &mut Vec<&'a Block>) {
    for block in &document.blocks {
        match block {
            Block::HtmlOnly(part) => flatten(part, all),
            block => all.push(block),
        }
    }
}

fn block(out: &mut String, block: &Block, level: usize) {
    match block {
        Block::Section(section) => part(out, section, level),
        Block::Paragraph(text) => {
            let class = if is_command(text) { " class=\"cmd\"" } else { "" };
            // Writing to a string cannot fail.
            let _ = writeln!(out, "<p{class}>{}</p>", words(text, NumberContext::Sentence));
        }
        Block::KeyValues(entries) => key_values(out, entries),
        Block::Table(data) => table(out, data, None),
        Block::Tree(tree) => {
            let rows = TreeRows::of(tree);
            table(out, &rows.table, Some(&rows));
        }
        Block::Chart(chart) => out.push_str(&svg::figure(chart)),
        Block::Multiples(charts) => out.push_str(&svg::multiples(charts)),
        Block::Finding(found) => finding(out, found),
        Block::Svg(svg) => {
            let _ = writeln!(
                out,
                "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"picture\">{svg}</div>"
            );
        }
        Block::HtmlOnly(part) => blocks(out, part, level),
    }
}

/// Whether it is a command line to be typed.
fn is_command(text: &Text) -> bool {
    matches!(text.spans.first(), Some(Span::Words(words)) if words.starts_with("$ "))
}

fn part(out: &mut String, section: &Section, level: usize) {
    let level = level.min(6);
    let title = escaped(section.title.trim_end_matches(':'));
    let class = match section.lead {
        None => "",
        Some(Lead::Verdict) => " class=\"verdict\"",
        Some(Lead::Ceilings) => " class=\"ceilings\"",
        Some(Lead::Figures) => " class=\"figures\"",
    };
    let kind = if section.is_name { " class=\"name\"" } else { "" };
    let _ = writeln!(out, "<section{class}>\n<h{level}{kind}>{title}</h{level}>");
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
    for (at, (key, value)) in entries.iter().enumerate() {
        // What belongs together is one box, as the main figures are side by side.
        if !key.is_empty() {
            let end = if at > 0 { "</div>\n" } else { "" };
            let _ = writeln!(out, "{end}<div><dt>{}</dt>", escaped(key));
        } else if at == 0 {
            out.push_str("<div>");
        }
        let class = if is_command(value) { " class=\"cmd\"" } else { "" };
        let _ = writeln!(out, "<dd{class}>{}</dd>", words(value, NumberContext::Sentence));
    }
    out.push_str("</div>\n</dl>\n");
}

fn table(out: &mut String, data: &DataTable, tree: Option<&TreeRows>) {
    let class = |is_text: bool| if is_text { "" } else { " class=\"n\"" };
    let names: Vec<&str> = data.columns.iter().map(|column| column.name.as_str()).collect();
    // Focusable, so that the keyboard scrolls it.
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"table: {}\"><table>\n<thead><tr>",
        markup(&escape::text(&names.join(", ")))
    );
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
    let told = sentence(finding);
    // What is told first comes in one line of its own.
    let (what, rest) = told.split_at(finding.summary.len().min(told.len()));
    let (what, rest) = (code(what), code(rest.trim()));
    let _ =
        writeln!(out, "<p class=\"finding {class}\"><b>{label}</b> {what} <span>{rest}</span></p>");
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
