use super::*;
use crate::runs::set_tag;
use std::fs;
use std::io::Write;
use tar::EntryType;
use tempfile::TempDir;

const FIRST: &str = "20261101-120000-7";
const SECOND: &str = "20261102-120000-8";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// A copy of a fixture as the run `name` in `runs`.
pub(crate) fn copied(from: &str, runs: &Path, name: &str) -> PathBuf {
    let to = runs.join(name);
    fs::create_dir_all(&to).unwrap();
    for entry in fs::read_dir(fixture(from)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    to
}

pub(crate) fn exported(place: &TempDir, dirs: &[PathBuf], is_shared: bool) -> PathBuf {
    let to = HeldDir::open(place.path()).unwrap();
    let name = archive_name(dirs, is_shared).unwrap();
    let bytes = export(dirs, is_shared, &to, OsStr::new(&name)).unwrap();
    assert_eq!(bytes, fs::metadata(place.path().join(&name)).unwrap().len());
    place.path().join(name)
}

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |name: &str| Some((name.to_string(), fs::read(dir.join(name)).ok()?));
    RunDir::FILES.iter().filter_map(|name| read(name)).collect()
}

/// Asserts that `file` is refused for reasons that contain `parts`, and that nothing remains of it.
#[track_caller]
fn refuses(file: &Path, parts: &[&str]) {
    let place = tempfile::tempdir().unwrap();
    let error = import_into(file, &place.path().join("a/runs")).unwrap_err();
    for part in parts {
        assert!(error.contains(part), "{part:?} is not said in: {error}");
    }
    assert!(!error.contains("runs/.fathom-"), "{error}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "{error}");
}

#[test]
fn runs_survive_being_exported_and_imported() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let dirs = [copied("v2/run", &runs, FIRST), copied("v2/limit", &runs, SECOND)];
    set_tag(&dirs[0], "nightly", true).unwrap();
    let file = exported(&place, &dirs, false);
    assert!(file.ends_with(format!("{FIRST}-and-1-more.tar.zst")), "{}", file.display());
    let other = place.path().join("new/runs");
    let imported = import_into(&file, &other).unwrap();
    let names: Vec<&str> = imported.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, [FIRST, SECOND]);
    assert!(imported.iter().all(|run| run.is_new));
    for dir in &dirs {
        assert_eq!(files(&other.join(dir.file_name().unwrap())), files(dir));
    }
    // Tags may differ.
    set_tag(&other.join(FIRST), "mine", true).unwrap();
    assert!(import_into(&file, &other).unwrap().iter().all(|run| !run.is_new));
    assert_eq!(fs::read_to_string(other.join(FIRST).join(TAGS)).unwrap(), "nightly\nmine\n");
    fs::remove_dir_all(other.join(FIRST)).unwrap();
    let record = other.join(SECOND).join("record.json");
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replacen("\"vm\"", "\"wm\"", 1)).unwrap();
    let error = import_into(&file, &other).unwrap_err();
    for part in [SECOND, file.to_str().unwrap(), other.to_str().unwrap(), "differs"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1, "all or nothing");
}

#[test]
fn what_is_not_a_run_that_ended_is_not_exported() {
    let place = tempfile::tempdir().unwrap();
    let to = HeldDir::open(place.path()).unwrap();
    let refuse = |dirs: &[PathBuf], part: &str| {
        let error = export(dirs, false, &to, OsStr::new("x")).unwrap_err();
        assert!(error.contains(part), "{error}");
        assert!(!place.path().join("x").exists());
    };
    let run = copied("v2/run", &place.path().join("runs"), FIRST);
    refuse(&[run.clone(), run.clone()], "named twice");
    refuse(&[place.path().to_path_buf()], "is not a run directory");
    refuse(&[fixture("v1/limit")], "fathom 0.1");
    let active = place.path().join("active");
    let active = RunDir::create(active.to_str(), 0).unwrap();
    let active = active.begin(&fathom_model::RunRecord::default()).unwrap();
    refuse(&[active.path().to_path_buf()], "still being recorded");
    // A run elsewhere gets a name from its record.
    let name = archive_name(&[fixture("v2/run")], true).unwrap();
    assert_eq!(name, "20261124-214152-3538103914-shared.tar.zst");
}

/// An archive with one file of this path, type and claimed size.
fn archive(place: &TempDir, entries: &[(&str, EntryType, u64, &[u8])]) -> PathBuf {
    let path = place.path().join("archive");
    let mut encoder = zstd::Encoder::new(File::create(&path).unwrap(), 1).unwrap();
    for (path, kind, len, contents) in entries {
        let mut header = Header::new_gnu();
        // Not set_path(), which refuses some paths.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(*len);
        header.set_mode(0o777);
        if kind.is_symlink() || kind.is_hard_link() {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        encoder.write_all(header.as_bytes()).unwrap();
        encoder.write_all(contents).unwrap();
        encoder.write_all(&vec![0; contents.len().next_multiple_of(512) - contents.len()]).unwrap();
    }
    encoder.write_all(&[0; 1024]).unwrap();
    encoder.finish().unwrap();
    path
}

#[test]
fn hostile_archives_leave_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let regular = EntryType::Regular;
    let refuse = |entries: &[(&str, EntryType, u64, &[u8])], parts: &[&str]| {
        refuses(&archive(&place, entries), &[&["archive"][..], parts].concat());
    };
    let record = format!("{FIRST}/record.json");
    let others = [
        "/etc/record.json",
        "../record.json",
        "record.json",
        "20261101-120000-7",
        "20261101-120000-7/",
        "20261101-120000-7/.fathom-segment",
        "20261101-120000-7//record.json",
        "20261101-120000-7/../record.json",
        "20261101-120000-7/watch/record.json",
        "20261101-120000-7/record.json/",
        "20261101-120000-7/../../20261101-120000-7/record.json",
        "20261399-120000-7/record.json",
        "./20261101-120000-7/record.json",
        "\u{1b}[2J/record.json",
        "",
    ];
    for other in others {
        refuse(&[(other, regular, 0, b"")], &["is not a file of a run", "fathom runs export"]);
    }
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Fifo,
        EntryType::Block,
        EntryType::Char,
        EntryType::Directory,
        EntryType::Continuous,
        EntryType::GNULongName,
        EntryType::GNULongLink,
        EntryType::GNUSparse,
        EntryType::XHeader,
        EntryType::XGlobalHeader,
    ] {
        refuse(&[(&record, kind, 0, b"")], &["is not a file of a run"]);
    }
    refuse(&[], &["contains no runs"]);
    refuse(&[(&record, regular, 2, b"{}"), (&record, regular, 2, b"{}")], &["twice"]);
    refuse(&[(&record, regular, 2, b"{}")], &[FIRST, "is not a record of fathom"]);
    refuse(&[(&record, regular, 9 << 40, b"{}")], &[&record, "too large"]);
    refuse(&[(&format!("{FIRST}/samples.ndjson"), regular, 5 << 30, b"{}")], &["too large"]);
    refuse(&[(&format!("{FIRST}/samples.ndjson"), regular, 3, b"{}\n")], &[FIRST, "no result"]);
    let many: Vec<String> = (0..=RUNS_MAX).map(|at| format!("20261101-120000-{at}/tags")).collect();
    let many: Vec<_> = many.iter().map(|path| (path.as_str(), regular, 0, &b""[..])).collect();
    refuse(&many, &["more than 1000 runs"]);
    let plain = place.path().join("plain");
    fs::write(&plain, "20261101-120000-7/record.json").unwrap();
    refuses(&plain, &["plain", "not a complete archive"]);
    fs::write(&plain, "").unwrap();
    refuses(&plain, &["plain"]);
    refuses(place.path(), &["Is a directory"]);
    refuses(&place.path().join("none"), &["cannot read", "none"]);
}

#[test]
fn damaged_archives_leave_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let dir = copied("v2/watch", &place.path().join("runs"), FIRST);
    let whole = fs::read(exported(&place, &[dir], false)).unwrap();
    let file = place.path().join("damaged");
    for cut in (0..32).map(|part| whole.len() * part / 32).chain([whole.len() - 1]) {
        fs::write(&file, &whole[..cut]).unwrap();
        refuses(&file, &["damaged"]);
    }
    for at in (0..32).map(|part| whole.len() * part / 32) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&file, &bytes).unwrap();
        refuses(&file, &["damaged"]);
    }
    fs::write(&file, [&whole[..], b"more"].concat()).unwrap();
    refuses(&file, &["damaged"]);
}
