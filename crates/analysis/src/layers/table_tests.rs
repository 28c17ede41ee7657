use super::*;

fn all() -> Vec<(&'static str, &'static str)> {
    rows(TEXT).collect()
}

/// A pattern without its wildcard: the characters that are compared.
fn letters(pattern: &str) -> &str {
    beginning(pattern).unwrap_or(pattern)
}

#[test]
fn each_line_has_a_known_key_and_a_pattern_of_a_known_kind() {
    for (number, line) in TEXT.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let (key, pattern) = line.split_once('\t').unwrap_or_else(|| panic!("no tab: {number}"));
        assert!(class_of(key).is_some(), "{line}: unknown key");
        let name = pattern.strip_prefix('[').map_or(letters(pattern), |module| {
            assert!(pattern.ends_with(']'), "{line}: no bracket at the end");
            letters(pattern).strip_prefix('[').unwrap_or(module).trim_end_matches(']')
        });
        assert!(!name.is_empty(), "{line}: fits everything");
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        assert!(name.chars().all(fits), "{line}: a star may only be at the end");
        assert!(!name.starts_with('_'), "{line}: names are written without leading underscores");
    }
}

/// The keys in the order of the table.
fn keys() -> impl Iterator<Item = &'static str> {
    let layers = Layer::KEYS.iter().map(|(key, _)| *key).filter(|key| !key.is_empty());
    layers.chain(["lock", "caller"])
}

#[test]
fn lines_are_sorted_and_none_comes_twice() {
    let rank = |key| keys().position(|word| word == key);
    let order: Vec<_> = all().into_iter().map(|(key, pattern)| (rank(key), pattern)).collect();
    for pair in order.windows(2) {
        assert!(pair[0] < pair[1], "{} must not come before {}", pair[0].1, pair[1].1);
    }
    let mut patterns: Vec<_> = all().into_iter().map(|(_, pattern)| pattern).collect();
    patterns.sort_unstable();
    for pair in patterns.windows(2) {
        assert_ne!(pair[0], pair[1], "one pattern has two keys");
    }
}

#[test]
fn no_line_says_what_a_shorter_pattern_says_already() {
    let table = Table::parse(TEXT);
    for (key, pattern) in all() {
        let text = letters(pattern);
        let own = usize::from(beginning(pattern).is_some());
        let shorter =
            (1..=text.len() - own).rev().find_map(|end| table.beginnings.get(&text[..end]));
        assert_ne!(shorter.copied(), class_of(key), "{key} {pattern} is not needed");
    }
}

#[test]
fn every_class_has_lines() {
    for key in keys() {
        assert!(all().iter().any(|(of, _)| *of == key), "{key}");
    }
}

#[test]
fn the_longest_pattern_counts() {
    let table = Table::parse("fs\tio_*\nuring\tio_uring_*\nblock\tio_uring_x\nlock\t[io*]\n");
    assert_eq!(table.find("io_schedule"), Some(TableEntry::Layer(Layer::FileSystem)));
    assert_eq!(table.find("io_uring_enter"), Some(TableEntry::Layer(Layer::Uring)));
    assert_eq!(table.find("io_uring_x"), Some(TableEntry::Layer(Layer::Block)));
    assert_eq!(table.find("io_uring_xy"), Some(TableEntry::Layer(Layer::Uring)));
    assert_eq!(table.find("[iomod]"), Some(TableEntry::Lock));
    assert_eq!(table.find("i"), None);
    assert_eq!(table.find(""), None);
}

#[test]
fn what_compilers_add_to_names_is_taken_off() {
    assert_eq!(plain("__blk_mq_free_request.part.0"), "blk_mq_free_request");
    assert_eq!(plain("blk_mq_get_tag.constprop.0.isra.0.cold"), "blk_mq_get_tag");
    assert_eq!(plain("__pi___memcpy"), "memcpy");
    assert_eq!(plain("pid_task"), "pid_task");
    assert_eq!(plain("___"), "");
}

#[test]
fn a_module_goes_before_a_name() {
    assert_eq!(class("submit_bio"), Some(TableEntry::Layer(Layer::Block)));
    assert_eq!(class("submit_bio [raid1]"), Some(TableEntry::Layer(Layer::Mapper)));
    assert_eq!(class("submit_bio [unheard_of]"), Some(TableEntry::Layer(Layer::Block)));
    assert_eq!(class("frobnicate [nvme_core]"), Some(TableEntry::Layer(Layer::Driver)));
    assert_eq!(class("frobnicate"), None);
    assert_eq!(class(""), None);
    assert_eq!(class("[unknown]"), None);
}
