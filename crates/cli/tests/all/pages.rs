//! What is common to the pages of all commands: how they begin, and that `--quiet` prints only results and errors.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common::{MIB, Place, fetched, is_root, until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;

/// Commands that print a page, with what they need to end soon.
const PAGES: [(&str, &[&str]); 8] = [
    ("run", &["--eta=never", "--rw=read", "--sampling=off", "data"]),
    ("limit", &["-t", "5", "--sampling=off", "data"]),
    ("sweep", &["-t", "1", "--bs=4k", "--iodepth=1,2", "--sampling=off", "data"]),
    ("try", &["-t", "1", "--sampling=off", "rw=read bs=4k", "rw=read bs=8k", "data"]),
    ("watch", &["-t", "300ms", "-i", "100ms"]),
    ("threads", &["-t", "300ms"]),
    ("doctor", &[]),
    ("topo", &[]),
];
const PAGES_OF_ROOT: [(&str, &[&str]); 2] =
    [("stacks", &["-t", "300ms"]), ("blocks", &["-n", "2", "-i", "100ms"])];
/// Commands that print JSON, or lines of it, with the published schema.
const JSON: [(&str, &[&str]); 7] = [
    ("limit", &["-t", "5", "--sampling=off", "data"]),
    ("watch", &["-t", "300ms", "-i", "100ms"]),
    ("threads", &["-t", "400ms", "-i", "100ms"]),
    ("doctor", &[]),
    ("topo", &[]),
    ("runs", &[]),
    ("show", &[]),
];

fn kernel_file(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap().trim().to_string()
}

#[test]
fn every_page_begins_with_command_host_date_kernel_and_command_line() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let root = if is_root("stacks and blocks") { &PAGES_OF_ROOT[..] } else { &[] };
    for (name, args) in PAGES.iter().chain(root) {
        let answer = place.ask(&[&["--utc", "-q", *name], *args].concat());
        assert_eq!(answer.stderr, "", "{name}");
        let all = &answer.stdout;
        let Some(at) = all.find(&format!("fathom {name} · ")) else {
            panic!("{name}: {all}{}", answer.stderr)
        };
        // `blocks` prints its lines before.
        let lines: Vec<&str> = all[at..].lines().collect();
        let parts: Vec<&str> = lines[0].split(" · ").collect();
        assert_eq!(parts[1], kernel_file("hostname"), "{name}: {all}");
        assert!(parts[2].starts_with("20") && parts[2].ends_with(" +00:00"), "{name}: {all}");
        let machine = format!("Linux {} · ", kernel_file("osrelease"));
        assert!(lines[1].starts_with(&machine) && lines[1].contains(" CPU"), "{name}: {all}");
        let command = lines.iter().find(|line| line.starts_with("$ "));
        let wanted = format!("$ fathom --utc -q {name}");
        assert!(command.is_some_and(|line| line.starts_with(&wanted)), "{name}: {all}");
        // The machine as it is now leaves no record.
        if !matches!(*name, "doctor" | "topo") {
            let shown = place.ask(&["show", "--utc"]).done().stdout;
            assert_eq!(&shown, all, "{name}");
            let html = place.ask(&["show", "--utc", "--format=html"]).done().stdout;
            assert!(html.contains(&format!("<title>{}</title>", lines[0])), "{name}: {html}");
            let markdown = place.ask(&["show", "--utc", "--format=markdown"]).done().stdout;
            assert!(markdown.starts_with(&format!("# {}\n\n", lines[0])), "{name}: {markdown}");
            let titles = markdown.lines().filter(|line| line.starts_with("# ")).count();
            assert_eq!(titles, 1, "{name}: {markdown}");
        }
    }
}

/// The titles of the charts of an HTML page, each of which is drawn.
fn charts(page: &str) -> Vec<String> {
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"), "{page}");
    assert_eq!(fetched(page), None);
    assert!(!page.contains("NaN"));
    let title = |figure: &str| -> String {
        let figure = figure.split("</figure>").next().unwrap();
        let is_drawn = ["<polyline ", "<path ", "<rect "].iter().any(|part| figure.contains(part));
        assert!(is_drawn && figure.matches("role=\"img\"").count() == 2, "{figure}");
        let (title, _) = figure.split_once("</figcaption>").unwrap();
        title.trim().replace("<figcaption>", "")
    };
    page.split("<figure>").skip(1).map(title).collect()
}

#[test]
fn html_draws_what_happened() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let load = ["run", "--eta=never", "--rw=randread", "--time_based", "--runtime=4", "data"];
    let kept = ["--record=kept", "-o", "run.html"];
    place.ask(&[&load, &kept[..]].concat()).done();
    let page = place.read("run.html");
    let found = charts(&page);
    for wanted in ["IOPS over time", "completion latency over time", "read latency"] {
        assert!(found.contains(&wanted.to_string()), "{wanted}: {found:?}");
    }
    let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("no {part}: {page}"));
    assert!(at("<section class=\"figures\">") < at("<figure>"), "{page}");
    assert!(page.len() < 300_000, "{}", page.len());
    assert_eq!(place.ask(&["show", "kept", "--format=html"]).done().stdout, page);

    let limit = ["limit", "-t", "5", "--sampling=off", "data", "--format=html"];
    let page = place.ask(&limit).done().stdout;
    let found = charts(&page);
    assert!(found[0].contains(": latency vs. throughput"), "{found:?}");
    assert!(page.contains("(log scale)") && page.contains(">p99</text>"), "{page}");

    let page = place.ask(&["watch", "-t", "300ms", "-i", "100ms", "--format=html"]).done().stdout;
    // A machine without I/O has none.
    charts(&page);
}

#[test]
fn html_of_a_killed_run_draws_its_samples() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let args =
        ["run", "--eta=never", "--rw=read", "--time_based", "--runtime=60", "--sampling=off"];
    let running = place.start(&[&args[..], &["--record=kept", "data"]].concat());
    let samples = || fs::read_to_string(place.path("kept/samples.ndjson")).unwrap_or_default();
    until("samples", || samples().lines().count() > 3);
    running.signal(Signal::KILL);
    running.wait();
    let page = place.ask(&["show", "kept", "--format=html"]).stdout;
    assert_eq!(charts(&page)[0], "IOPS over time", "{page}");
}

/// What is wrong with `value` by `schema`, a part of `root`.
fn problem(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    let of = |schema: &Value| problem(root, schema, value);
    let all = |schemas: &Value| schemas.as_array().cloned().unwrap_or_default();
    if let Some(path) = schema["$ref"].as_str() {
        return of(root.pointer(path.trim_start_matches('#')).unwrap());
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let is = |name: &Value| match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("{other}"),
    };
    let variants = [&schema["anyOf"], &schema["oneOf"]].into_iter().filter(|one| one.is_array());
    let wrong_variant = variants.clone().any(|some| all(some).iter().all(|one| of(one).is_some()));
    let constant = schema.get("const").is_some_and(|constant| constant != value);
    let enumerated = schema.get("enum").is_some_and(|known| !all(known).contains(value));
    if !types.is_empty() && !types.iter().any(is) || wrong_variant || constant || enumerated {
        return Some(format!("{value} is not {schema}"));
    }
    let items = value.as_array().into_iter().flatten();
    let mut items = items.filter(|_| schema["items"].is_object());
    if let Some(found) = items.find_map(|item| problem(root, &schema["items"], item)) {
        return Some(found);
    }
    let required = all(&schema["required"]);
    let lacks = |name: &&Value| value.is_object() && value.get(name.as_str().unwrap()).is_none();
    if let Some(name) = required.iter().find(lacks) {
        return Some(format!("no {name} in {value}"));
    }
    value.as_object().into_iter().flatten().find_map(|(name, field)| {
        let known = schema["properties"].get(name).or(schema.get("additionalProperties"))?;
        problem(root, known, field).map(|why| format!("{name}: {why}"))
    })
}

#[test]
fn json_keeps_to_its_published_schema() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let root = if is_root("stacks and blocks") { &PAGES_OF_ROOT[..] } else { &[] };
    // The last run is shown last.
    for (name, args) in root.iter().chain(&JSON) {
        let printed = place.ask(&[&[*name, "--json"], *args].concat()).done().stdout;
        let name = if *name == "show" { "threads" } else { name };
        let schema = format!("{}/../../docs/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
        let schema: Value = serde_json::from_slice(&fs::read(schema).unwrap()).unwrap();
        let values = serde_json::Deserializer::from_str(&printed).into_iter::<Value>();
        let values: Vec<Value> = values.map(Result::unwrap).collect();
        assert!(!values.is_empty(), "{name}");
        for value in &values {
            assert_eq!(problem(&schema, &schema, value), None, "{name}");
        }
        let last = values.last().unwrap();
        let is_found = last["findings"].is_array() || last[0]["verdict"].is_string();
        assert!(is_found || name == "runs", "{name}: {last}");
        // What is wrong is noticed.
        assert!(problem(&schema, &schema, &Value::from("text")).is_some(), "{name}");
    }
}

#[test]
fn quiet_prints_results_and_errors_only() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    // With the pages, above.
    let others: [(&str, &[&str]); 5] = [
        ("sweep", &["-t", "1", "--bs=4k", "--iodepth=1,2", "--sampling=off", "--size=8m"]),
        ("run", &["--rw=randread", "--sampling=off", "--runtime=1", "--time_based", "data"]),
        ("runs", &["prune", "--max-size=0"]),
        ("clean", &[]),
        ("restore", &["--list"]),
    ];
    for (name, args) in others {
        let answer = place.ask(&[&["-q", name], args].concat());
        assert_eq!(answer.stderr, "", "{name}");
    }
}
