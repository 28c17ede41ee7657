//! Flame graphs (Brendan Gregg, "The Flame Graph", CACM 59(6), 2016): one SVG that any browser opens,
//! with search, zoom and details, which needs nothing else.

use super::Sampled;
use crate::render::{markup, shortened};
use fathom_model::escape;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Of a file, and of a part of a page.
const WIDTH: f64 = 1200.0;
const WIDTH_PART: f64 = 930.0;
const EDGE: f64 = 10.0;
const HEIGHT: usize = 17;
const TOP: usize = 40;
const BOTTOM: usize = 34;
/// Narrower frames are left out, in pixels, of a file and of a part of a page.
const NARROWEST: f64 = 0.1;
const NARROWEST_PART: f64 = 0.6;
/// Width of a letter.
const LETTER: f64 = 7.3;
/// Search, zoom and details of all flame graphs of a file.
pub(crate) const FLAME_SCRIPT: &str = include_str!("flame.js");

#[derive(Debug, Default)]
struct FlameNode<'a> {
    count: u64,
    children: BTreeMap<(&'a str, FrameKind), FlameNode<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FrameKind {
    Thread,
    User,
    Kernel,
}

/// The flame graph of all samples, merged by thread name, kernel functions in blue, as a file of its own.
pub fn flame_graph(sampled: &Sampled, title: &str) -> String {
    let title = markup(&escape::text(title));
    let middle = WIDTH / 2.0;
    let more = format!(
        "<rect width=\"100%\" height=\"100%\" fill=\"#f8f8f8\"/>\n\
         <text x=\"{middle}\" y=\"24\" text-anchor=\"middle\" style=\"font-size:16px\">{title}</text>\n"
    );
    let svg = drawn(sampled, WIDTH, NARROWEST, &more);
    let svg = svg.trim_end().trim_end_matches("</svg>");
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{svg}<script><![CDATA[\n{FLAME_SCRIPT}]]></script>\n</svg>\n"
    )
}

/// The same as a part of a page, which has the script; `None` without samples.
pub(crate) fn flame_part(sampled: &Sampled) -> Option<String> {
    sampled.counts().next()?;
    Some(drawn(sampled, WIDTH_PART, NARROWEST_PART, "<title>Flame graph of CPU samples</title>\n"))
}

fn drawn(sampled: &Sampled, width: f64, narrowest: f64, more: &str) -> String {
    let mut root = FlameNode::default();
    for ((comm, frames), count) in sampled.by_name() {
        root.count += count;
        let mut at = &mut root;
        if !comm.is_empty() {
            at = at.children.entry((comm, FrameKind::Thread)).or_default();
            at.count += count;
        }
        for frame in frames {
            let kind = if frame.kernel { FrameKind::Kernel } else { FrameKind::User };
            at = at.children.entry((frame.name, kind)).or_default();
            at.count += count;
        }
    }
    let all = root.count.max(1);
    let mut drawing =
        FlameDrawing { all, depth: depth(&root), width, narrowest, text: String::new() };
    drawing.children(&root, 0, 0);
    let height = TOP + drawing.depth * HEIGHT + BOTTOM;
    let (right, foot) = (width - EDGE, height - 12);
    let reset = EDGE + 14.0 * LETTER;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" class=\"flame\" width=\"{width}\" height=\"{height}\" \
viewBox=\"0 0 {width} {height}\" data-width=\"{width}\" data-all=\"{all}\">\n\
<style>.flame text{{font:12px monospace;fill:#000}}.flame .f{{cursor:pointer}}.flame .f:hover rect{{stroke:#000}}\
.flame .b{{cursor:pointer;text-decoration:underline}}</style>\n{more}\
<text class=\"b search\" x=\"{EDGE}\" y=\"24\"> </text>\n\
<text class=\"b reset\" x=\"{reset}\" y=\"24\" style=\"display:none\">reset zoom</text>\n\
<text class=\"details\" x=\"{EDGE}\" y=\"{foot}\"> </text>\n\
<text class=\"found\" x=\"{right}\" y=\"{foot}\" text-anchor=\"end\"> </text>\n{}</svg>\n",
        drawing.text
    )
}

fn depth(node: &FlameNode<'_>) -> usize {
    node.children.values().map(|child| depth(child) + 1).max().unwrap_or(0)
}

struct FlameDrawing {
    all: u64,
    depth: usize,
    width: f64,
    narrowest: f64,
    text: String,
}

impl FlameDrawing {
    /// Draws what `node` called, `level` frames above the ground, from the sample `start` on.
    fn children(&mut self, node: &FlameNode<'_>, level: usize, mut start: u64) {
        for ((name, kind), child) in &node.children {
            self.frame(name, *kind, child.count, level, start);
            self.children(child, level + 1, start);
            start += child.count;
        }
    }

    fn frame(&mut self, name: &str, kind: FrameKind, count: u64, level: usize, start: u64) {
        let scale = (self.width - 2.0 * EDGE) / self.all as f64;
        let (x, width) = (EDGE + start as f64 * scale, count as f64 * scale);
        if width < self.narrowest {
            return;
        }
        let y = TOP + (self.depth - level - 1) * HEIGHT;
        let percent = count as f64 / self.all as f64 * 100.0;
        let room = ((width - 6.0) / LETTER).max(0.0) as usize;
        let label = if room < 3 { String::new() } else { shortened(&escape::text(name), room) };
        let (name, label, fill) = (markup(&escape::text(name)), markup(&label), color(name, kind));
        let s = if count == 1 { "" } else { "s" };
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.text,
            "<g class=\"f\" data-x=\"{start}\" data-w=\"{count}\" data-d=\"{level}\">\
<title>{name} ({count} sample{s}, {percent:.2}%)</title>\
<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\" fill=\"{fill}\" rx=\"1\"/>\
<text x=\"{:.1}\" y=\"{}\">{label}</text></g>",
            HEIGHT - 1,
            x + 3.0,
            y + 12,
        );
    }
}

/// A color of its own for each name, the same in every graph.
fn color(name: &str, kind: FrameKind) -> String {
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let shade = hash % 50;
    match kind {
        FrameKind::Thread => format!("rgb({0},{0},{0})", 190 + shade / 2),
        FrameKind::User => format!("rgb({},{},{})", 215 + shade / 2, 120 + shade * 2, 60),
        FrameKind::Kernel => format!("rgb({},{},{})", 110 + shade, 160 + shade, 225),
    }
}
