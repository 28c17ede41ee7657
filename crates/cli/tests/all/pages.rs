//! What is common to the pages of all commands: how they begin, and that `--quiet` prints only results and errors.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common::{MIB, Place, as_root};
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

fn kernel_file(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap().trim().to_string()
}

#[test]
fn every_page_begins_with_command_host_date_kernel_and_command_line() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let root = as_root("stacks and blocks").map(|_| &PAGES_OF_ROOT[..]).unwrap_or_default();
    for (name, args) in PAGES.iter().chain(root) {
        let answer = place.ask(&[&["--utc", *name], *args].concat());
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
        let wanted = format!("$ fathom --utc {name}");
        assert!(command.is_some_and(|line| line.starts_with(&wanted)), "{name}: {all}");
        if matches!(*name, "run" | "limit" | "sweep" | "try" | "watch") {
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

#[test]
fn quiet_prints_results_and_errors_only() {
    let place = Place::new();
    place.data("data", 8 * MIB);
    let others: [(&str, &[&str]); 5] = [
        ("sweep", &["-t", "1", "--bs=4k", "--size=8m"]),
        ("run", &["--rw=randread", "--sampling=off", "--runtime=1", "--time_based", "data"]),
        ("runs", &["prune", "--max-size=0"]),
        ("clean", &[]),
        ("restore", &["--list"]),
    ];
    let root = as_root("stacks and blocks").map(|_| &PAGES_OF_ROOT[..]).unwrap_or_default();
    for (name, args) in PAGES.iter().chain(root).chain(&others) {
        let answer = place.ask(&[&["-q", *name], *args].concat());
        assert_eq!(answer.stderr, "", "{name}");
    }
}
