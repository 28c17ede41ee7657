use super::*;
use crate::doc::{
    Block, DataColumn, Document, Quantity, QuantityUnit, Text, bandwidth, count, named, number,
    percent, text, time,
};
use fathom_model::finding::{Evidence, Finding, Severity};

pub(crate) fn unwrapped(document: &Document) -> String {
    text(document, Style { color: false, width: 4000 })
}

/// Checks that the document's lines fit terminals, that no word is broken and no number parted from its unit.
pub(crate) fn assert_fits(document: &Document) {
    let whole = unwrapped(document);
    let is_whole = |word: &str| whole.contains(word.trim_end_matches(':')) || word == "·";
    for width in [60, 80, 120] {
        let text = text(document, Style { color: false, width });
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}\n{text}");
            assert!(line.split_whitespace().all(is_whole), "{width}: {line}\n{text}");
            let first = line.split_whitespace().next().unwrap_or_default();
            let units = ["ns", "µs", "ms", "KiB", "MiB/s", "GiB/s", "IOPS,"];
            assert!(!units.contains(&first), "{width}: {line}\n{text}");
        }
    }
}

fn figures() -> Document {
    let ratio = Quantity::new(1.02, QuantityUnit::Ratio).within(0.98, 1.061);
    let mut body = Document::default();
    let columns = vec![
        DataColumn::text("name"),
        DataColumn::number("IOPS"),
        DataColumn::number("bandwidth").ranked(1),
        DataColumn::number("ratio (95% CI)"),
        DataColumn::text("why"),
    ];
    let words = "a sentence of several words that can be wrapped";
    let row = |name: &str| {
        vec![
            name.into(),
            count(12_345.0).into(),
            bandwidth(4096.0 * 12_345.0).into(),
            ratio.into(),
            words.into(),
        ]
    };
    body.table(columns, vec![row("read"), row("a|b\x1b*"), vec!["none".into()]]);
    body.entry(
        "latency",
        Text::join([named("p50", time(83_100.0)), named("p99", time(1.2e6))], ", "),
    );
    body.entry("gain", text!("doubling the queue depth yields ", ratio, " the IOPS"));
    body.entry("", Text::default());
    let mut page = Document::default();
    page.findings(&[Finding {
        rule: "r".into(),
        severity: Severity::Warning,
        summary: "40 I/Os failed.".into(),
        evidence: vec![
            Evidence::text("", "40 failed"),
            Evidence::text("", "p99 271 µs in service"),
        ],
        next_step: Some("check dmesg".into()),
        ..Finding::default()
    }]);
    page.section("job", text!("4 KiB, ", percent(5.0), " of ", number(12.5)), body);
    page
}

#[test]
fn text_has_aligned_columns_and_unbroken_numbers() {
    let wanted = "\
WARNING 40 I/Os failed. (40 failed; p99 271 µs in service) → check dmesg

job  4 KiB, 5.00% of 12.5
  name       IOPS  bandwidth     ratio (95% CI)  why
  read      12.3k  48.2 MiB/s  1.02× (0.98–1.06)  a sentence of several words that can be wrapped
  a|b\\x1b*  12.3k  48.2 MiB/s  1.02× (0.98–1.06)  a sentence of several words that can be wrapped
  none
  latency  p50 83.1 µs, p99 1.2 ms
  gain     doubling the queue depth yields 1.02× (95% CI 0.98–1.06) the IOPS
";
    let wanted = wanted.replace("  bandwidth     ratio", "   bandwidth     ratio");
    assert_eq!(text(&figures(), Style::default()), wanted);
}

#[test]
fn narrow_terminals_lose_columns_then_wrap_then_list_rows() {
    let at = |width| text(&figures(), Style { color: false, width });
    assert!(at(80).contains(" words that can be\n") && !at(80).contains("MiB/s"), "{}", at(80));
    assert!(at(60).contains("1.02× (0.98–1.06)"), "{}", at(60));
    let rows = at(36);
    assert!(rows.contains("read · IOPS 12.3k ·\n"), "{rows}");
    for width in 24..130 {
        for line in at(width).lines() {
            assert!(line.chars().count() <= width.max(38), "{width}: {line}");
            assert!(!line.ends_with("p50") && !line.ends_with("p99"), "{width}: {line}");
            assert!(!line.trim_start().starts_with("µs"), "{width}: {line}");
        }
    }
}

#[test]
fn colors_only_mark_labels_titles_and_heads() {
    let colored = text(&figures(), Style { color: true, width: 100 });
    for part in ["\x1b[1;33mWARNING \x1b[0m40 I/Os", "\x1b[1mjob\x1b[0m  4 KiB", "\x1b[2m  name "] {
        assert!(colored.contains(part), "{part:?} in {colored:?}");
    }
}

#[test]
fn markdown_escapes_marks_and_terminals() {
    let wanted = "\
- **Warning**: 40 I/Os failed. (40 failed; p99 271 µs in service) → check dmesg

## job

4 KiB, 5.00% of 12.5

| name | IOPS | bandwidth | ratio (95% CI) | why |
| --- | --: | --: | --: | --- |
| read | 12.3k | 48.2 MiB/s | 1.02× (0.98–1.06) | a sentence of several words that can be wrapped |
| a\\|b\\\\x1b\\* | 12.3k | 48.2 MiB/s | 1.02× (0.98–1.06) | a sentence of several words that can be wrapped |
| none |  |  |  |  |

- **latency**: p50 83.1 µs, p99 1.2 ms
- **gain**: doubling the queue depth yields 1.02× (95% CI 0.98–1.06) the IOPS
";
    assert_eq!(markdown(&figures()), wanted);
}

#[test]
fn backticks_mark_code_and_other_backticks_are_text() {
    let mut page = Document::default();
    page.paragraph("Run `fathom top --replay=<DIR>`; the file a`b`c and `this.");
    page.section("Limited by:", Text::default(), Document::default());
    page.paragraph("# not a title");
    page.paragraph("- not a list");
    let wanted = "Run fathom top --replay=<DIR>; the file a`b`c and `this.\n\nLimited by:\n\n# not a title\n\n- not a list\n";
    assert_eq!(text(&page, Style::default()), wanted);
    let wanted = "Run `fathom top --replay=<DIR>`; the file a\\`b\\`c and \\`this.\n\n## Limited by\n\n\\# not a title\n\n\\- not a list\n";
    assert_eq!(markdown(&page), wanted);
    let page = html(&page);
    assert!(
        page.contains("Run <code>fathom top --replay=&lt;DIR&gt;</code>; the file a`b`c"),
        "{page}"
    );
}

#[test]
fn figures_have_three_significant_digits() {
    let shown = |value: Quantity| {
        let mut page = Document::default();
        page.paragraph(value);
        unwrapped(&page).trim_end().to_string()
    };
    let of = |value, unit| shown(Quantity::new(value, unit));
    assert_eq!(of(1_500_000.0, QuantityUnit::BytesPerSecond), "1.43 MiB/s");
    assert_eq!(of(1_500_000.0, QuantityUnit::DecimalBytesPerSecond), "1.5 MB/s");
    assert_eq!(of(12_000_000.0, QuantityUnit::DecimalBitsPerSecond), "12 Mbit/s");
    assert_eq!(of(12_000_000.0, QuantityUnit::BitsPerSecond), "11.4 Mibit/s");
    assert_eq!(of(99.96, QuantityUnit::Percent), "100%");
    assert_eq!(of(0.051, QuantityUnit::Percent), "0.05%");
    assert_eq!(of(9.996, QuantityUnit::Number), "10.0");
    assert_eq!(of(1234.5, QuantityUnit::Whole), "1234");
    assert_eq!(shown(time(0.0).within(0.0, 1000.0)), "<1 µs");
    assert_eq!(of(55.0, QuantityUnit::PercentBar), "███████████");
    assert_eq!(shown(count(0.0).within(0.0, 0.0)), "0 (95% CI 0–0)");
}

#[test]
fn rows_name_their_cells() {
    let mut inner = Document::default();
    let mut columns = vec![DataColumn::number("active"), DataColumn::text("").ranked(1)];
    columns.extend(["comm", "syscall", ""].map(DataColumn::text));
    let bar = Quantity::new(100.0, QuantityUnit::PercentBar);
    let name = "a_name_that_is_long";
    let row = vec![number(1.0).into(), bar.into(), name.into(), "-".into(), "worse".into()];
    inner.table(columns, vec![row]);
    let mut outer = Document::default();
    outer.section("", Text::default(), inner);
    let mut page = Document::default();
    page.section("", Text::default(), outer);
    let shown = text(&page, Style { color: true, width: 30 });
    let expected = "    active 1.00 ·\n      comm: a_name_that_is_long ·\n      worse\n";
    assert!(shown.ends_with(expected), "{shown:?}");
}

#[test]
fn trees_have_branches_and_columns() {
    use crate::doc::TreeNode;
    let node = |name: &str, value: f64, children: Vec<TreeNode>| TreeNode {
        cells: vec![name.into(), count(value).into(), "some words".into()],
        children,
        ..TreeNode::default()
    };
    let mut first = node("first of two", 2.0, vec![node("leaf", 12_345.0, Vec::new())]);
    first.severity = Some(Severity::Warning);
    let root = node("root", 1.0, vec![first, node("second", 3.0, Vec::new())]);
    let columns = vec![
        DataColumn::text("name"),
        DataColumn::number("IOPS"),
        DataColumn::text("why").ranked(1),
    ];
    let mut page = Document::default();
    page.tree(columns, vec![root]);
    let at = |width| text(&page, Style { color: false, width });
    let wanted = "\
name              IOPS  why
root                 1  some words
├─ first of two      2  some words
│  └─ leaf       12.3k  some words
└─ second            3  some words
";
    assert_eq!(at(40), wanted);
    assert!(at(30).ends_with("│  └─ leaf       12.3k\n└─ second            3\n"), "{}", at(30));
    assert!(at(20).contains("├─ first of        2\n│  │ two\n"), "{}", at(20));
    let colored = text(&page, Style { color: true, width: 40 });
    assert!(
        colored.contains("\x1b[1;33m├─ first of two      2  some words\x1b[0m\n"),
        "{colored:?}"
    );
    assert_eq!(markdown(&page), format!("```text\n{wanted}```\n"));
}

#[test]
fn a_cut_column_takes_what_is_left_and_stays_on_one_line() {
    let mut page = Document::default();
    let columns = vec![DataColumn::text("result"), DataColumn::cut("command").ranked(1)];
    let row = vec!["4 KiB peak".into(), "run --name=first --rw=randread".into()];
    page.table(columns, vec![row]);
    let at = |width| text(&page, Style { color: false, width });
    assert_eq!(at(60), "result      command\n4 KiB peak  run --name=first --rw=randread\n");
    assert_eq!(at(30), "result      command\n4 KiB peak  run --name=first …\n");
    assert_eq!(at(28), "result      command\n4 KiB peak  run --name=firs…\n");
    assert_eq!(at(27), "result\n4 KiB peak\n");
    assert!(markdown(&page).contains("--rw=randread"));
}

#[test]
fn what_only_html_shows_leaves_no_trace_in_text_and_markdown() {
    let mut drawn = Document::default();
    drawn.section("over time", Text::default(), figures());
    let mut page = Document::default();
    page.paragraph("first");
    page.html_only(drawn.clone());
    page.paragraph("second");
    page.html_only(drawn.clone());
    page.entry("key", "value");
    let mut wanted = Document::default();
    wanted.paragraph("first");
    wanted.paragraph("second");
    wanted.entry("key", "value");
    let style = Style::default();
    assert_eq!(text(&page, style), text(&wanted, style));
    assert_eq!(markdown(&page), markdown(&wanted));
    assert!(html(&page).contains("<h2>over time</h2>") && !html(&wanted).contains("over time"));
    page.html_only(Document::default());
    assert_eq!(page.blocks.len(), 5);
}

#[test]
fn html_begins_with_the_verdict_and_has_its_script_only_for_charts() {
    use crate::doc::{Axis, Chart, ChartKind, ChartPoint, ChartSeries, Lead};
    let part = |words: &str| {
        let mut body = Document::default();
        body.paragraph(words);
        body
    };
    let mut page = Document::default();
    page.blocks.push(Block::Finding(Finding { summary: "odd".into(), ..Finding::default() }));
    page.section("job", Text::default(), part("rates"));
    page.lead(Lead::Figures, "Figures", Text::default(), part("figures"));
    page.lead(Lead::Ceilings, "Ceilings:", Text::default(), part("ceilings"));
    page.lead(Lead::Verdict, "Limited by:", Text::default(), part("$ fathom limit sda"));
    page.lead(Lead::Verdict, "empty", Text::default(), Document::default());
    let drawn = html(&page);
    let at = |words: &str| drawn.find(words).unwrap_or_else(|| panic!("no {words}: {drawn}"));
    let order = ["class=\"verdict\"", "class=\"ceilings\"", "class=\"figures\"", "odd", "rates"];
    assert!(order.map(at).is_sorted(), "{drawn}");
    assert!(drawn.contains("<p class=\"cmd\">$ fathom limit sda</p>") && !drawn.contains("empty"));
    assert!(!drawn.contains("<script"), "{drawn}");
    // Text has all of it where it is.
    let order =
        ["odd", "rates", "figures", "ceilings", "limit"].map(|words| unwrapped(&page).find(words));
    assert!(order.is_sorted() && order[0].is_some(), "{order:?}");

    let points =
        vec![ChartPoint::default(), ChartPoint { x: 1.0, y: 1.0, ..ChartPoint::default() }];
    let axis = || Axis::linear("n", QuantityUnit::Count);
    let series = vec![ChartSeries { points, ..ChartSeries::default() }];
    page.chart(Chart { title: "c".into(), kind: ChartKind::Lines, x: axis(), y: axis(), series });
    let script = html(&page).split("<script>").nth(1).map_or(0, str::len);
    assert!((1..7_000).contains(&script), "{script} bytes");
}

/// The contrast of two colors as WCAG 2 defines it, from 1 to 21.
fn contrast(one: &str, other: &str) -> f64 {
    let luminance = |color: &str| -> f64 {
        let digits = color.trim_start_matches('#');
        let wide: String = match digits.len() {
            3 => digits.chars().flat_map(|digit| [digit, digit]).collect(),
            _ => digits.into(),
        };
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&wide[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Checks that each of `texts` is legible on each of `backs` (WCAG AA), on light and on dark screens. A style sheet has
/// its light colors first.
pub(crate) fn assert_legible(style: &str, texts: &[&str], backs: &[&str]) {
    let colors = |name: &str| -> Vec<&str> {
        let name = format!("--{name}:");
        let found = style.split(&name).skip(1);
        let found = found.filter_map(|rest| rest.trim_start().split([';', '}']).next());
        found.map(str::trim).filter(|color| color.starts_with('#')).collect()
    };
    for (text, back) in texts.iter().flat_map(|text| backs.iter().map(move |back| (text, back))) {
        let (of_text, of_back) = (colors(text), colors(back));
        assert_eq!((of_text.len(), of_back.len()), (2, 2), "{text} {back}: one for each theme");
        for (one, other) in of_text.iter().zip(&of_back) {
            let found = contrast(one, other);
            assert!(found >= 4.5, "{text} {one} on {back} {other}: {found:.2}");
        }
    }
}

#[test]
fn text_is_legible_in_both_themes() {
    assert!((contrast("#fff", "#000000") - 21.0).abs() < 1e-9);
    assert!((contrast("#777", "#fff") - 4.48).abs() < 0.01);
    let texts = ["ink", "soft", "error", "warning", "c0", "c1", "c2", "c3", "c4", "c5"];
    assert_legible(include_str!("html.css"), &texts, &["page", "wash"]);
}
