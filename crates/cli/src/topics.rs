//! `fathom help`: what terms in results mean (docs/topics), and the manual pages of commands.

use crate::manual::Manual;
use crate::stdio::{Kind, error};
use crate::{output, page};
use clap::Command;
use fathom_report::doc::{Document, Text};
use fathom_report::render;
use std::process::ExitCode;

/// The pages of docs/topics, by name.
const TOPICS: [(&str, &str); 6] = [
    ("knee", include_str!("../../../docs/topics/knee.md")),
    ("latency", include_str!("../../../docs/topics/latency.md")),
    ("plugging", include_str!("../../../docs/topics/plugging.md")),
    ("polling", include_str!("../../../docs/topics/polling.md")),
    ("queue-depth", include_str!("../../../docs/topics/queue-depth.md")),
    ("root-complex", include_str!("../../../docs/topics/root-complex.md")),
];

/// What an indented line begins with.
const CODE: &str = "    ";

#[derive(clap::Args)]
pub struct Args {
    /// A topic, or a command, such as limit or runs prune; without one, the list of all commands
    #[arg(value_name = "TOPIC|COMMAND")]
    name: Vec<String>,
}

/// Prints a topic, the manual page of a command, or the list of commands.
pub fn command(args: &Args, cli: &Command) -> Result<ExitCode, String> {
    let style = page::style(false);
    let wanted = args.name.join("-").to_lowercase().replace([' ', '_'], "-");
    // What one page explains together has several names.
    let wanted = match wanted.as_str() {
        "response-time" | "service-time" | "response-and-service-time" => "latency",
        other => other,
    };
    let topic = TOPICS.iter().find(|(name, _)| *name == wanted);
    let text = match (topic, Manual::find(cli, &args.name)) {
        (Some((_, markdown)), _) => render::text(&document(markdown), style),
        (None, _) if args.name.is_empty() => {
            let list = cli.clone().render_help();
            if style.color { list.ansi().to_string() } else { list.to_string() }
        }
        (None, Some(manual)) => manual.text(style),
        (None, None) => {
            let name = args.name.join(" ");
            error!("no help on '{name}'; topics are {}; `fathom -h` lists the commands", list());
            return Ok(ExitCode::from(2));
        }
    };
    let kind = if style.color { Kind::ColoredLines } else { Kind::Lines };
    output::stream(&text, kind).map(|_| ExitCode::SUCCESS)
}

pub fn list() -> String {
    TOPICS.map(|(name, _)| name).join(", ")
}

/// A page in the Markdown that topics use: a title, sections, paragraphs, lists and indented command lines.
fn document(markdown: &str) -> Document {
    let mut page = Document::default();
    for (part, text) in markdown.split("\n## ").enumerate() {
        let (title, text) = text.split_once('\n').unwrap_or((text, ""));
        match part {
            // Paragraphs are separated only outside of sections.
            0 => {
                page.section(title.trim_start_matches("# "), Text::default(), Document::default());
                append(&mut page, text);
            }
            _ => {
                let mut body = Document::default();
                append(&mut body, text);
                page.section(title, Text::default(), body);
            }
        }
    }
    page
}

fn append(page: &mut Document, markdown: &str) {
    for block in blocks(markdown) {
        let text = without_links(&block);
        if let Some(item) = text.strip_prefix("* ") {
            page.entry("•", item);
        } else if text.starts_with(CODE) {
            // Not wrapped.
            page.paragraph(text[CODE.len() / 2..].replace(' ', "\u{a0}"));
        } else {
            page.paragraph(text);
        }
    }
}

/// Paragraphs, items of lists and lines of code, each in one line.
fn blocks(markdown: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in markdown.lines() {
        let is_code = line.starts_with(CODE);
        match blocks.last_mut() {
            _ if line.is_empty() => {}
            Some(block) if is_open && !is_code && !line.starts_with("* ") => {
                *block += " ";
                *block += line.trim_start();
            }
            _ => blocks.push(line.to_string()),
        }
        is_open = !is_code && !line.is_empty();
    }
    blocks
}

fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("](") {
        let (before, name) = before.rsplit_once('[').unwrap_or((before, ""));
        out.extend([before, name]);
        rest = link.split_once(')').map_or("", |(_, rest)| rest);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmdline;
    use clap::CommandFactory;
    use fathom_report::render::Style;
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    fn docs() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/topics")
    }

    /// The words of a command line, as the shell splits it, without the remark after it.
    fn words(line: &str) -> Vec<OsString> {
        let mut words = vec![String::new()];
        let (mut is_quoted, mut spaces) = (false, 0);
        for c in line.chars() {
            match c {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => {
                    spaces += 1;
                    if spaces == 2 {
                        break;
                    }
                    words.push(String::new());
                    continue;
                }
                _ => words.last_mut().unwrap().push(c),
            }
            spaces = 0;
        }
        words.iter().filter(|word| !word.is_empty()).map(OsString::from).collect()
    }

    #[test]
    fn every_topic_is_a_page_of_the_same_form() {
        let mut files: Vec<String> = std::fs::read_dir(docs())
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        assert_eq!(files, TOPICS.map(|(name, _)| format!("{name}.md")));
        for (name, markdown) in TOPICS {
            let page = render::text(&document(markdown), Style { color: false, width: 100 });
            for title in ["In fathom's output", "What to do", "More"] {
                assert!(page.lines().any(|line| line == title), "{name}: {title} in {page}");
            }
            assert!(page.contains("  • "), "{page}");
            for left in ["](", "\n#", "\n*"] {
                assert!(!page.contains(left), "{name}: {left} in {page}");
            }
            let (lines, widest) = (page.lines(), page.lines().map(|line| line.chars().count()));
            assert!(lines.count() <= 50 && widest.max() <= Some(100), "{page}");
        }
    }

    #[test]
    fn the_help_of_help_names_every_topic() {
        let cli = crate::Cli::command();
        let help = cli.find_subcommand("help").unwrap().get_long_about().unwrap().to_string();
        assert!(help.contains(&list()), "{help}");
    }

    #[test]
    fn topics_show_command_lines_and_files_that_exist() {
        let cli = crate::manual::prepared(crate::Cli::command());
        let mut lines = 0;
        for (name, markdown) in TOPICS {
            let markdown = markdown.replace("\\\n", "");
            let of_topic = markdown.lines().filter_map(|line| line.strip_prefix(CODE));
            for line in of_topic.filter(|line| line.starts_with("fathom ")) {
                lines += 1;
                let parsed = cmdline::parse(cli.clone(), &words(line));
                assert!(parsed.is_ok(), "{name}: {line}: {:?}", words(line));
            }
            for target in markdown.split("](").skip(1).filter_map(|link| link.split(')').next()) {
                let file = target.split('#').next().unwrap_or_default();
                assert!(docs().join(file).is_file(), "{name}: {target}");
            }
        }
        assert!(lines > 10);
        assert_eq!(words("fathom limit 'a b' c   remark").len(), 4);
        assert!(cmdline::parse(cli, &words("fathom limit --nosuch")).is_err());
    }
}
