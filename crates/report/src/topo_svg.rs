//! The topology as a picture for HTML, on light and dark backgrounds.

use crate::doc::{Text, TreeNode};
use crate::pages;
use crate::render::{self, markup};
use fathom_analysis::topology::TopologyReport;
use fathom_model::escape;
use fathom_model::finding::Severity;
use std::fmt::Write;

/// Pixels. Of text at 12 px, a letter takes this much on average.
const LETTER: f64 = 7.2;
const MARGIN: f64 = 16.0;
const LINE: f64 = 15.0;
/// Between boxes, from one to the next below.
const GAP: f64 = 8.0;
/// Left and right, above and below text in a box.
const PADDING: (f64, f64) = (8.0, 5.0);

const STYLE: &str = "\
.topo{--back:#fff;--text:#1b1f24;--dim:#57606a;--line:#8c9db5;--box:#f3f5f8;--warn:#c0262d}\
@media screen and (prefers-color-scheme:dark){.topo{--back:#14171b;--text:#e6e9ed;--dim:#9aa5b1;--line:#5f7590;--box:#232830;\
--warn:#ff7b72}}\
.topo text{font:12px sans-serif;fill:var(--text)}.topo .dim{fill:var(--dim)}.topo text.warn{fill:var(--warn)}\
.topo rect.box{fill:var(--box);stroke:var(--line)}.topo rect.warn{fill:var(--box);stroke:var(--warn);stroke-width:2}\
.topo path{fill:none;stroke:var(--line)}.topo path.warn{stroke:var(--warn)}";

/// Class and width of that for wide and that for narrow screens, the indentation of each level, and the widest line.
const LISTS: [(&str, f64); 2] = [("topo wide", 680.0), ("topo narrow", 368.0)];
const STEP: f64 = 18.0;
const LIST_STROKE_MAX: f64 = 8.0;

/// Lists that fit on screens, of which the style sheet of HTML shows one.
pub(crate) fn lists(report: &TopologyReport) -> String {
    LISTS.map(|(class, width)| list(report, class, width)).concat()
}

fn list(report: &TopologyReport, class: &str, width: f64) -> String {
    let roots = shapes(report);
    let fastest = roots.iter().map(Shape::fastest).fold(0.0, f64::max);
    let mut drawing = Drawing { width, text: String::new() };
    let mut top = drawing.findings(report, ((width - MARGIN) / LETTER) as usize);
    for root in &roots {
        (_, top) = drawing.listed(root, top, fastest);
    }
    svg(class, (width, top + MARGIN), &drawing.text)
}

fn shapes(report: &TopologyReport) -> Vec<Shape> {
    pages::topo_tree(report).iter().map(|node| Shape::of(node, 0)).collect()
}

fn svg(class: &str, (width, height): (f64, f64), text: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" role=\"img\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n<title>Storage topology</title>\n<style>{STYLE}</style>\n\
         <rect class=\"back\" width=\"100%\" height=\"100%\" style=\"fill:var(--back)\"/>\n{text}</svg>\n"
    )
}

struct Shape {
    depth: usize,
    lines: Vec<String>,
    whole: String,
    /// What its line is as wide as: what was carried, or else what could be.
    rate: Option<f64>,
    is_limited: bool,
    children: Vec<Shape>,
}

impl Shape {
    /// Cells are those of the page's columns: name, link, what it carries, what is below it, path; then what it carried.
    fn of(node: &TreeNode, depth: usize) -> Self {
        let cell = |at: usize| node.cells.get(at).map(render::line).unwrap_or_default();
        let rate =
            |at: usize| node.cells.get(at).and_then(Text::quantity).map(|quantity| quantity.value);
        let below = cell(3);
        let below = if below.is_empty() { below } else { format!("below: {below}") };
        let carried = cell(5);
        let carried = if carried.is_empty() { carried } else { format!("carried {carried}") };
        let details = [carried, cell(1), cell(2), below];
        let details: Vec<String> = details.into_iter().filter(|part| !part.is_empty()).collect();
        let lines = [cell(0), details.join(" · "), cell(4)];
        let lines: Vec<String> = lines.into_iter().filter(|line| !line.is_empty()).collect();
        Self {
            depth,
            whole: lines.join("\n"),
            lines,
            rate: rate(5).or(rate(2)).or(rate(3)),
            is_limited: node.severity >= Some(Severity::Warning),
            children: node.children.iter().map(|child| Self::of(child, depth + 1)).collect(),
        }
    }

    fn fastest(&self) -> f64 {
        let below = self.children.iter().map(Self::fastest).fold(0.0, f64::max);
        self.rate.unwrap_or(0.0).max(below)
    }
}

struct Drawing {
    width: f64,
    text: String,
}

impl Drawing {
    /// The warnings, in red, in lines of so many letters. Returns where the picture begins.
    fn findings(&mut self, report: &TopologyReport, letters: usize) -> f64 {
        let mut y = MARGIN;
        let warnings = report.findings.iter().filter(|found| found.severity >= Severity::Warning);
        for line in warnings.flat_map(|found| textwrap::wrap(&found.summary, letters)) {
            y += LINE;
            self.label((MARGIN, y), "warn", &line);
        }
        if y > MARGIN { y + LINE } else { y }
    }

    /// Draws a box, and what is below it indented. Returns the middle of the box, and where the next
    /// one begins.
    fn listed(&mut self, shape: &Shape, top: f64, fastest: f64) -> (f64, f64) {
        let left = MARGIN / 2.0 + shape.depth as f64 * STEP;
        let width = self.width - MARGIN / 2.0 - left;
        let letters = ((width - 2.0 * PADDING.0) / LETTER) as usize;
        let mut lines = Vec::new();
        for (index, line) in shape.lines.iter().enumerate() {
            let wrapped = textwrap::wrap(line, letters.max(1)).into_iter();
            lines.extend(wrapped.map(|line| (line.into_owned(), index == 0)));
        }
        let height = lines.len() as f64 * LINE + 2.0 * PADDING.1;
        let mut next = top + height + GAP;
        for child in &shape.children {
            let (middle, bottom) = self.listed(child, next, fastest);
            let stroke = (child.rate.unwrap_or(0.0) / fastest.max(1.0) * LIST_STROKE_MAX).max(1.0);
            let class = if child.is_limited { " class=\"warn\"" } else { "" };
            // Writing to a string cannot fail.
            let _ = writeln!(
                self.text,
                "<path{class} stroke-width=\"{stroke:.1}\" d=\"M{:.1},{:.1}V{middle:.1}H{:.1}\"/>",
                left + STEP / 2.0,
                top + height,
                left + STEP
            );
            next = bottom;
        }
        self.boxed(shape, &lines, (left, width), top);
        (top + height / 2.0, next)
    }

    /// A box with lines, each with whether it belongs to the name, from `left` on and as wide as `width`.
    fn boxed(
        &mut self,
        shape: &Shape,
        lines: &[(String, bool)],
        (left, width): (f64, f64),
        top: f64,
    ) {
        let class = if shape.is_limited { "warn" } else { "box" };
        let _ = writeln!(
            self.text,
            "<g><title>{}</title><rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
             height=\"{:.1}\" rx=\"4\"/>",
            markup(&escape::lines(&shape.whole)),
            lines.len() as f64 * LINE + 2.0 * PADDING.1
        );
        let details = lines.iter().position(|(_, is_name)| !is_name);
        for (index, (line, is_name)) in lines.iter().enumerate() {
            let y = top + PADDING.1 + (index as f64 + 0.75) * LINE;
            let class = match (is_name, shape.is_limited && Some(index) == details) {
                (true, _) => "",
                (false, true) => "warn",
                (false, false) => "dim",
            };
            self.label((left + PADDING.0, y), class, line);
        }
        self.text += "</g>\n";
    }

    fn label(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let text = markup(&escape::lines(text));
        let _ = writeln!(self.text, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::assert_legible;
    use fathom_analysis::topology::analyze;
    use fathom_model::topology::{Hop, HopKind, Topology, Volume};

    #[test]
    fn text_is_legible_in_both_themes() {
        assert_legible(STYLE, &["text", "dim", "warn"], &["back", "box"]);
    }

    #[test]
    fn what_a_run_carried_is_in_the_boxes_and_makes_lines_wide() {
        let disk = |name: &str| Hop {
            name: format!("{name}-controller"),
            kind: HopKind::Controller,
            disks: vec![name.into()],
            ..Hop::default()
        };
        let root = Hop {
            name: "pci0000:00".into(),
            kind: HopKind::RootComplex,
            children: vec![disk("nvme0n1"), disk("nvme1n1")],
            ..Hop::default()
        };
        let volume = |name: &str| Volume { name: name.into(), ..Volume::default() };
        let mut report = analyze(Topology {
            roots: vec![root],
            volumes: vec![volume("nvme0n1"), volume("nvme1n1")],
            ..Topology::default()
        });
        assert!(!lists(&report).contains("carried"));
        report.traffic = [("nvme0n1".to_string(), 3e9), ("nvme1n1".to_string(), 1e9)].into();
        let listed = lists(&report);
        for carried in
            ["carried 4 GB/s", "carried 1 GB/s", "stroke-width=\"6.0\"", "stroke-width=\"2.0\""]
        {
            assert!(listed.contains(carried), "{carried}: {listed}");
        }
    }
}
