//! `fathom help`: terms explained, and the manual pages of commands.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common::{Place, assert_one_error, says};

#[test]
fn help_explains_terms_and_commands() {
    let place = Place::new();
    let list = place.ask(&["help"]).done().stdout;
    assert_eq!(list, place.ask(&["-h"]).done().stdout);
    let line = list.lines().find_map(|line| line.strip_prefix("`fathom help TOPIC` explains "));
    let topics: Vec<&str> = line.unwrap().trim_end_matches('.').split(", ").collect();
    assert!(topics.contains(&"knee") && topics.contains(&"queue-depth"), "{list}");
    for topic in &topics {
        let page = place.ask(&["help", topic]).done().stdout;
        says(&page, &["In fathom's output", "What to do", "docs/"]);
        assert!(page.to_lowercase().starts_with(&topic.replace('-', " ")), "{page}");
    }
    for command in [&["limit"][..], &["run"], &["runs", "prune"], &["help"]] {
        let help = place.ask(&[&["help"], command].concat()).done().stdout;
        assert_eq!(help, place.ask(&[command, &["--help"]].concat()).done().stdout, "{command:?}");
    }
    let unknown = place.ask(&["help", "nosuch"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(2), ""));
    assert_one_error(&unknown.stderr, &["nosuch", &topics.join(", "), "fathom -h"]);
}
