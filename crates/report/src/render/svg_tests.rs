use super::*;
use crate::doc::QuantityUnit;

fn series(name: &str, points: Vec<ChartPoint>) -> ChartSeries {
    ChartSeries { name: name.into(), points, ..ChartSeries::default() }
}

fn at(x: f64, y: f64) -> ChartPoint {
    ChartPoint { x, y, ..ChartPoint::default() }
}

fn chart(kind: ChartKind, series: Vec<ChartSeries>) -> Chart {
    Chart {
        title: "latency vs. throughput".into(),
        kind,
        x: Axis::linear("IOPS", QuantityUnit::Count),
        y: Axis::log("latency", QuantityUnit::Nanoseconds),
        series,
    }
}

/// Checks that tags are balanced and that attributes are text without markup and numbers without NaN.
fn assert_sound(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    for part in svg.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap_or_else(|| panic!("{part}"));
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{svg}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        assert!(!text.contains('"') && !text.contains('>'), "{text}");
    }
    assert_eq!(open, Vec::<&str>::new(), "{svg}");
    for wrong in ["NaN", "inf", "\u{1b}"] {
        assert!(!svg.contains(wrong), "{wrong} in {svg}");
    }
}

fn drawn(chart: &Chart) -> String {
    let svg = figure(chart);
    assert_sound(&svg);
    svg
}

#[test]
fn what_has_no_place_is_left_out_and_names_are_escaped() {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, 1e300, 1e-300];
    let points = odd.iter().flat_map(|x| odd.iter().map(|y| at(*x, *y))).collect::<Vec<_>>();
    let with_intervals = points.iter().map(|point| ChartPoint {
        interval: Some((point.x, point.y)),
        x_interval: Some((point.y, point.x)),
        mark: Some("<b>\u{1b}[1m".into()),
        label: "\"><script>".into(),
        ..point.clone()
    });
    let with_intervals: Vec<ChartPoint> = with_intervals.collect();
    for kind in [ChartKind::Lines, ChartKind::Bars, ChartKind::Histogram] {
        for points in [Vec::new(), vec![at(1.0, 1.0)], points.clone(), with_intervals.clone()] {
            for log in [false, true] {
                let mut chart =
                    chart(kind, vec![series("a&<b>", points.clone()), series("", points.clone())]);
                (chart.x.log, chart.y.log) = (log, !log);
                assert!(!drawn(&chart).contains("<script"));
            }
        }
    }
}

#[test]
fn a_chart_has_a_name_a_description_and_axes_that_say_what_they_are() {
    let knee = ChartPoint { label: "1 × 8".into(), mark: Some("knee".into()), ..at(2e3, 2e5) };
    let points = vec![at(1e3, 1e5), knee, at(3e3, 9e5)];
    let svg =
        drawn(&chart(ChartKind::Lines, vec![series("p50", points.clone()), series("p99", points)]));
    assert_eq!(svg.matches("role=\"img\"").count(), 2, "{svg}");
    assert_eq!(svg.matches("<title>latency vs. throughput</title><desc>p50: 100 µs to 900 µs; knee p50 1 × 8: 200 µs at 2k. p99: ").count(), 2, "{svg}");
    for words in [
        ">IOPS</text>",
        ">latency (log scale)</text>",
        ">200 µs</text>",
        ">2k</text>",
        ">knee 1 × 8</text>",
    ] {
        assert!(svg.matches(words).count() >= 2, "{words} in {svg}");
    }
    // Each size of screen has its picture, whose lines are named directly.
    assert!(svg.contains("<div class=\"wide\">") && svg.contains("<div class=\"narrow\">"));
    assert_eq!(svg.matches("class=\"label c1\"").count(), 2, "{svg}");
    assert!(!svg.contains("legend"), "{svg}");
}

#[test]
fn names_that_do_not_fit_are_in_a_legend() {
    let one =
        |n: usize| series(&format!("bs=4k rw=randread {n}"), vec![at(1.0, 1.0), at(2.0, 2.0)]);
    let svg = drawn(&chart(ChartKind::Lines, vec![one(0), one(1)]));
    assert_eq!(svg.matches("<ul class=\"legend\">").count(), 1, "only the narrow one: {svg}");
    let svg = drawn(&chart(ChartKind::Lines, (0..9).map(one).collect()));
    assert_eq!(svg.matches("<ul class=\"legend\">").count(), 2, "{svg}");
}

#[test]
fn long_series_are_lines_without_dots() {
    let points = |n: u32| (1..=n).map(|x| at(x.into(), x.into())).collect::<Vec<_>>();
    let dots =
        |n| drawn(&chart(ChartKind::Lines, vec![series("", points(n))])).matches("<circle").count();
    assert_eq!((dots(60), dots(61)), (120, 0));
    let svg = drawn(&chart(ChartKind::Lines, vec![series("", points(300))]));
    assert!(svg.len() < 30_000, "{}", svg.len());
}

#[test]
fn labels_do_not_overlap() {
    let marked = |x: f64| ChartPoint { mark: Some("p99".into()), ..at(x, 0.0) };
    let classes = vec![at(1e5, 50.0), at(2e5, 50.0), at(4e5, 0.0)];
    let marks = [2e5, 2.01e5, 2.02e5].map(marked);
    let points = classes.into_iter().chain(marks).collect();
    let mut histogram = chart(ChartKind::Histogram, vec![series("", points)]);
    (histogram.x.log, histogram.y.log) = (true, false);
    let lines = |ends: &[f64]| {
        let one =
            |(n, end): (usize, &f64)| series(&format!("s{n}"), vec![at(1.0, 5.0), at(2.0, *end)]);
        chart(ChartKind::Lines, ends.iter().enumerate().map(one).collect())
    };
    // A name that others would move far from its line is in a legend.
    let crowded = drawn(&lines(&[5.0; 4]));
    assert!(
        crowded.contains("class=\"legend\"") && !crowded.contains("class=\"label"),
        "{crowded}"
    );
    for chart in [histogram, lines(&[5.0, 5.0, 9.0])] {
        let svg = drawn(&chart);
        for picture in svg.split("<svg").skip(1) {
            let labels = picture.split("<text class=\"label").skip(1);
            let heights: Vec<&str> = labels
                .map(|label| label.split("y=\"").nth(1).unwrap().split('"').next().unwrap())
                .collect();
            let mut distinct = heights.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert!(heights.len() >= 3 && distinct.len() == heights.len(), "{heights:?}");
        }
    }
}

#[test]
fn intervals_are_drawn_along_their_axis() {
    let mut point = at(1e3, 1e5);
    point.interval = Some((5e4, 2e5));
    point.x_interval = Some((5e2, 2e3));
    let svg = drawn(&chart(ChartKind::Lines, vec![series("", vec![point.clone()])]));
    let whiskers: Vec<Vec<f64>> = svg
        .split("<line class=\"whisker\"")
        .skip(1)
        .map(|line| {
            line.split('"').skip(1).step_by(2).take(4).map(|n| n.parse().unwrap()).collect()
        })
        .collect();
    assert_eq!(whiskers.len(), 4);
    assert!(whiskers[0][0] == whiskers[0][2] && whiskers[0][1] > whiskers[0][3], "{whiskers:?}");
    assert!(whiskers[1][1] == whiskers[1][3] && whiskers[1][0] < whiskers[1][2], "{whiskers:?}");
    // One that is much wider than the values does not flatten the curve.
    let mut wide = chart(ChartKind::Lines, vec![series("", vec![at(1e3, 1e5), at(2e3, 2e5)])]);
    wide.series[0].points[1].x_interval = Some((0.0, 1e6));
    let svg = drawn(&wide);
    assert!(svg.contains(">2k</text>") && !svg.contains(">3k</text>"), "{svg}");
    let bars = drawn(&chart(ChartKind::Bars, vec![series("", vec![point])]));
    assert_eq!(bars.matches("class=\"whisker\"").count(), 2);
}

#[test]
fn events_are_named_lines_and_what_is_beside_a_line_is_a_dot() {
    let at = |x, is_aside| ChartPoint { x, y: 1.0, is_aside, ..ChartPoint::default() };
    let points = vec![at(0.0, false), at(5.0, true), at(10.0, false)];
    let event = |at, name: &str| AxisEvent { at, name: name.into() };
    // One that is not within the axis has no place.
    let events = Some(vec![event(4.0, "bulk begins"), event(40.0, "later")]);
    let drawn = figure(&Chart {
        title: "t".into(),
        kind: ChartKind::Lines,
        x: Axis { events, ..Axis::linear("s", QuantityUnit::Count) },
        y: Axis::linear("n", QuantityUnit::Count),
        series: vec![ChartSeries { points, ..ChartSeries::default() }],
    });
    assert_eq!(drawn.matches("<g class=\"event\" data-at=\"4\">").count(), 2, "{drawn}");
    assert!(drawn.contains(">bulk begins</text>") && !drawn.contains("later"), "{drawn}");
    let line = drawn.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    assert_eq!(line.split(' ').count(), 2, "{line}");
    assert_eq!(drawn.matches("class=\"dot aside\"").count(), 2, "{drawn}");
}
