//! Stored records of bottlenecks that were created on purpose (limited_by.rs, `cargo xtask verdicts --keep`), and of near
//! misses, are still judged so.

use crate::common::{Place, block};
use std::fs;
use std::path::Path;

#[test]
fn stored_loads_are_limited_by_what_was_made_to_limit_them() {
    let (place, mut loads) = (Place::new(), 0);
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/limiters");
    for load in fs::read_dir(stored).unwrap().flatten() {
        let page = place.ask(&["show", "--judge", load.path().to_str().unwrap()]).done().stdout;
        let (block, name) = (block(&page), load.file_name());
        for line in fs::read_to_string(load.path().join("words")).unwrap().lines() {
            let (sign, words) = line.split_at(1);
            assert_eq!(block.contains(words), sign == "+", "{words:?} in {name:?}: {block}");
        }
        loads += 1;
    }
    assert!(loads >= 20, "{loads} stored loads");
}
