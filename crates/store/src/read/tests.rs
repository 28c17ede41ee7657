use super::*;
use fathom_model::RunRecord;
use std::fs;
use std::io::Write;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_795_289_760 * SECOND;

/// A record with a sample at each of `seconds` after the start.
fn record(path: &Path, started_unix_ns: u64, seconds: impl IntoIterator<Item = u64>) {
    fs::create_dir_all(path).unwrap();
    let mut record = RunRecord::default();
    record.header.started_unix_ns = started_unix_ns;
    fs::write(path.join("record.json"), serde_json::to_vec(&record).unwrap()).unwrap();
    fs::write(path.join("samples.ndjson"), "").unwrap();
    seconds.into_iter().for_each(|s| append(path, &line(started_unix_ns, s)));
}

fn line(started_unix_ns: u64, second: u64) -> Vec<u8> {
    let elapsed_ns = second * SECOND;
    let unix_ns = started_unix_ns + elapsed_ns;
    let sample = Sample { elapsed_ns, unix_ns, ..Sample::default() };
    let mut line = serde_json::to_vec(&sample).unwrap();
    line.push(b'\n');
    line
}

fn append(path: &Path, text: &[u8]) {
    let samples = path.join("samples.ndjson");
    let mut file = fs::File::options().append(true).open(samples).unwrap();
    file.write_all(text).unwrap();
}

fn seconds(moment: Result<Option<StoredSample>, String>) -> Option<u64> {
    moment.unwrap().map(|moment| (moment.unix_ns - START) / SECOND)
}

#[test]
fn seeking_finds_the_interval_of_every_instant() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), START, (0..400).map(|n| n * 3));
    let mut reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.span().unwrap(), Some((START, START + 1197 * SECOND)));
    for instant in 0..1197 {
        reader.seek(START + instant * SECOND).unwrap();
        assert_eq!(seconds(reader.forward()), Some(instant.div_ceil(3) * 3), "{instant}");
    }
    reader.seek(START + 2000 * SECOND).unwrap();
    assert_eq!(reader.forward().unwrap(), None);
    assert_eq!(seconds(reader.back()), Some(1197));
    assert_eq!(seconds(reader.back()), Some(1194));
    assert_eq!(seconds(reader.forward()), Some(1194));
    reader.seek(0).unwrap();
    assert_eq!(reader.back().unwrap(), None);
    let first = reader.forward().unwrap().unwrap();
    assert!(first.begins && first.unix_ns == START);
    assert!(!reader.forward().unwrap().unwrap().begins);
}

#[test]
fn damaged_lines_are_passed_over_and_half_a_line_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), START, 0..10);
    append(dir.path(), b"\0\0\0\n{\"elapsed_ns\":\n\xff\n");
    (10..20).for_each(|s| append(dir.path(), &line(START, s)));
    let half = line(START, 20);
    append(dir.path(), &half[..half.len() / 2]);
    let mut reader = Reader::open(dir.path()).unwrap();
    for instant in 0..20 {
        reader.seek(START + instant * SECOND).unwrap();
        assert_eq!(seconds(reader.forward()), Some(instant), "{instant}");
    }
    assert_eq!(reader.forward().unwrap(), None);
    append(dir.path(), &half[half.len() / 2..]);
    assert_eq!(seconds(reader.forward()), Some(20));
    let back = std::iter::from_fn(|| seconds(reader.back()));
    assert_eq!(back.collect::<Vec<_>>(), (0..=20).rev().collect::<Vec<_>>());
}

#[test]
fn a_ring_is_one_record_that_begins_anew_with_each_segment() {
    let dir = tempfile::tempdir().unwrap();
    record(&dir.path().join("00000001-20261121-193600"), START, 0..5);
    record(&dir.path().join("00000002-20261121-193610"), START + 10 * SECOND, 0..0);
    record(&dir.path().join("00000003-20261121-193620"), START + 20 * SECOND, 0..5);
    fs::create_dir(dir.path().join("00000004-20261121-193630")).unwrap();
    let mut reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.span().unwrap(), Some((START, START + 24 * SECOND)));
    let all: Vec<StoredSample> = std::iter::from_fn(|| reader.forward().unwrap()).collect();
    let begins: Vec<u64> = all.iter().filter(|m| m.begins).map(|m| m.unix_ns).collect();
    assert_eq!((all.len(), begins), (10, vec![START, START + 20 * SECOND]));
    for (instant, found) in [(4, 4), (7, 20), (15, 20), (22, 22)] {
        reader.seek(START + instant * SECOND).unwrap();
        assert_eq!(seconds(reader.forward()), Some(found), "{instant}");
    }
    reader.seek(START + 20 * SECOND).unwrap();
    assert_eq!(seconds(reader.back()), Some(4));
    // Lines appended while it is read are read too.
    reader.seek(START + 99 * SECOND).unwrap();
    assert_eq!(reader.forward().unwrap(), None);
    record(&dir.path().join("00000004-20261121-193630"), START + 30 * SECOND, 0..1);
    assert_eq!(seconds(reader.forward()), Some(30));
}

#[test]
fn stacks_are_those_of_the_segment_and_may_grow() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), START, 0..2);
    let mut reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.stacks().unwrap(), []);
    let stack = Stack { kernel: vec!["vfs_read".into()], user: Vec::new() };
    let mut text = serde_json::to_vec(&stack).unwrap();
    text.extend(b"\n{\"kernel\":[\"do_");
    fs::write(dir.path().join("stacks.ndjson"), &text).unwrap();
    assert_eq!(reader.stacks().unwrap(), std::slice::from_ref(&stack));
    text.extend(b"x\"]}\n");
    fs::write(dir.path().join("stacks.ndjson"), &text).unwrap();
    assert_eq!(reader.stacks().unwrap()[1].kernel, ["do_x"]);
}

#[test]
fn what_is_no_record_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path| Reader::open(path).err().unwrap();
    assert!(open(dir.path()).contains("contains no record"));
    assert!(open(&dir.path().join("none")).contains("none"));
    fs::write(dir.path().join("record.json"), "{\"started_unix_ns\":1}").unwrap();
    assert!(open(dir.path()).contains("record.json is not a record"));
}

/// Twelve hours at two samples a second.
#[test]
fn a_long_record_is_sought_in_without_being_read() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), START, []);
    let path = dir.path().join("samples.ndjson");
    let mut file = io::BufWriter::new(fs::File::create(&path).unwrap());
    let filler = "x".repeat(700);
    for n in 0..86_400_u64 {
        let elapsed = n * SECOND / 2;
        let unix = START + elapsed;
        let machine = "\"machine\":{}";
        writeln!(
            file,
            "{{\"elapsed_ns\":{elapsed},\"unix_ns\":{unix},\"jobs\":[],{machine},\"f\":\"{filler}\"}}"
        )
        .unwrap();
    }
    file.into_inner().unwrap().sync_data().unwrap();
    let len = fs::metadata(&path).unwrap().len();
    let mut reader = Reader::open(dir.path()).unwrap();
    for instant in [1, 86_399, 43_200, 12_345, 77_777] {
        let before = reader.open.lines.bytes_read;
        reader.seek(START + instant * SECOND / 2).unwrap();
        let moment = reader.forward().unwrap().unwrap();
        assert_eq!(moment.unix_ns, START + instant * SECOND / 2);
        let read = reader.open.lines.bytes_read - before;
        assert!(read < len / 20, "{read} of {len} bytes");
    }
}
