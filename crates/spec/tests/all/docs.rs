//! The tables of `docs/fio-compat.md` are those of the code.

use fathom_spec::{compat_table, key_help, keys, run_help};
use std::path::Path;

const BEGIN: &str =
    "<!-- tables: begin; made by FATHOM_UPDATE_DOCS=1 cargo test -p fathom-spec the_document -->\n";
const END: &str = "<!-- tables: end -->\n";

/// With `FATHOM_UPDATE_DOCS=1` the document is brought up to date instead.
#[test]
fn the_document_holds_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fio-compat.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(BEGIN).expect("the marker before the tables");
    let (tables, tail) = rest.split_once(END).expect("the marker behind the tables");
    let current = format!("\n{}\n", compat_table());
    if std::env::var_os("FATHOM_UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{current}{END}{tail}")).unwrap();
        return;
    }
    assert!(
        tables == current,
        "docs/fio-compat.md differs from the keys; run\n  \
         FATHOM_UPDATE_DOCS=1 cargo test -p fathom-spec the_document"
    );
}

#[test]
fn every_key_has_help() {
    for key in keys() {
        for name in key.names() {
            assert!(key_help(name).unwrap().contains(key.doc), "{name}");
        }
    }
    assert!(key_help("iodeth").unwrap_err().to_string().contains("iodepth"));
    for word in ["--output-format", "--erase", "--overwrite=PATH", "iodepth", "rw|readwrite"] {
        assert!(run_help().contains(word), "{word}");
    }
}
