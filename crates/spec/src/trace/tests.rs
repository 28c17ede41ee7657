use super::*;
use crate::sources::tests::MemorySources;

fn parsed(args: &str, sources: &MemorySources) -> Result<Vec<Arc<Trace>>, String> {
    let words = std::iter::once("--name=a").chain(args.split_whitespace());
    let args: Vec<String> = words.map(str::to_string).collect();
    match crate::parse(&args, sources) {
        Ok(spec) => Ok(spec.jobs[0].traces.clone()),
        Err(problems) => {
            let errors: Vec<String> = problems.errors.iter().map(ToString::to_string).collect();
            Err(errors.join("\n"))
        }
    }
}

/// Time in microseconds, operation, file, offset and length of each event.
fn events(args: &str, sources: &MemorySources) -> Vec<(u64, TraceOp, String, u64, u32)> {
    let trace = parsed(args, sources).unwrap().remove(0);
    let name = |event: &TraceEvent| trace.files[event.file as usize].name.clone();
    let event =
        |event: &TraceEvent| (event.at_ns / 1000, event.op, name(event), event.offset, event.len);
    trace.events.iter().map(event).collect()
}

const READ: TraceOp = TraceOp::Io(Dir::Read);
const WRITE: TraceOp = TraceOp::Io(Dir::Write);
const TRIM: TraceOp = TraceOp::Io(Dir::Trim);

#[test]
fn version_3_is_sorted_and_begins_with_its_first_io() {
    let text = "fio version 3 iolog\n0 a add\n0 a open\n900 a write 4096 512\n100 my file read 0 4096\n\
                150 a sync 0 0\n160 a datasync 0 0\n170 a trim 0 3221225472\n990 a close\n";
    let sources = MemorySources::new(&[("t", text)]);
    let (a, mine) = (|| "a".to_string(), "my file".to_string());
    let gib = 1 << 30;
    assert_eq!(
        events("--read_iolog=t", &sources),
        [
            (0, READ, mine, 0, 4096),
            (50, TraceOp::Fsync, a(), 0, 0),
            (60, TraceOp::Fdatasync, a(), 0, 0),
            (70, TRIM, a(), 0, gib),
            (70, TRIM, a(), u64::from(gib), gib),
            (70, TRIM, a(), 2 * u64::from(gib), gib),
            (800, WRITE, a(), 4096, 512),
        ]
    );
}

#[test]
fn waits_of_version_2_add_up() {
    let text = "fio version 2 iolog\na add\na open\na read 0 512\na wait 100 0\na read 512 512\n\
                a wait 50 0\na read 0 512\na close\n";
    let sources = MemorySources::new(&[("t", text)]);
    let times = |args| events(args, &sources).iter().map(|event| event.0).collect::<Vec<_>>();
    assert_eq!(times("--read_iolog=t"), [0, 100, 150]);
    assert_eq!(times("--read_iolog=t --replay_time_scale=200"), [0, 50, 75]);
    assert_eq!(times("--read_iolog=t --replay_no_stall=1"), [0, 0, 0]);
}

#[test]
fn version_1_is_of_the_file_of_the_job() {
    let sources = MemorySources::new(&[("t", "0, 0, 512\n1,512,1024\n")]);
    let job = |args| {
        let spec = crate::parse(
            &["--name=a".to_string(), String::from(args), "--read_iolog=t".into()],
            &sources,
        );
        spec.unwrap().jobs.remove(0)
    };
    let paths = |args| crate::names::paths(&job(args), 0).unwrap();
    assert_eq!(paths("--filename=f:g"), ["f"]);
    assert_eq!(paths("--direct=0"), ["a.0.0"]);
    assert_eq!(
        job("--direct=0").access.mix,
        fathom_model::plan::Mix::Traced(PerDir { read: true, write: true, trim: false })
    );
}

#[test]
fn places_are_changed_as_requested() {
    let text = "fio version 3 iolog\n0 a write 10000 500\n5 b read 20480 512\n6 b sync 0 0\n7 b trim 0 9\n";
    let sources = MemorySources::new(&[("t", text)]);
    let all = |args: &str| events(&format!("--read_iolog=t {args}"), &sources);
    let to = || "/dev/x".to_string();
    assert_eq!(
        all("--replay_redirect=/dev/x --replay_scale=2 --replay_align=4k --replay_skip=sync,trim"),
        [(0, WRITE, to(), 4096, 4096), (5, READ, to(), 8192, 4096)]
    );
    assert_eq!(all("--readonly --replay_skip=sync"), [(0, READ, "b".to_string(), 20480, 512)]);
}

#[test]
fn clones_replay_the_traces_in_turn() {
    let text = |file: &str| format!("fio version 3 iolog\n0 {file} read 0 512\n");
    let sources = MemorySources::new(&[("s", &text("f")), ("t", &text("g"))]);
    let args = ["--name=a", "--read_iolog=s:t", "--numjobs=3"].map(String::from);
    let spec = crate::parse(&args, &sources).unwrap();
    let paths = |clone| crate::names::paths(&spec.jobs[0], clone).unwrap();
    assert_eq!([paths(0), paths(1), paths(2)], [["f"], ["g"], ["f"]]);
}

#[test]
fn merged_traces_are_scaled_and_repeated() {
    let read = 1 << 16 | 1;
    let trace = |big, sector| {
        let notes = record(big, 0, 0, 0, 1 << 26, b"a message");
        let [first, last] = [0, 100_000].map(|at_ns| record(big, at_ns, sector, 512, read, b"xy"));
        let done = record(big, 90_000, sector, 512, 1 << 16 | 8, b"");
        [notes, first, done, last].concat()
    };
    let sources = MemorySources::new(&[("v", "fio version 3 iolog\n0 f read 0 512\n")])
        .with_file("s", trace(true, 1))
        .with_file("t", trace(false, 2));
    let to = "--replay_redirect=x --merge_blktrace_file=m";
    let args =
        format!("--read_iolog=s:t {to} --merge_blktrace_scalars=50:100 --merge_blktrace_iters=2:1");
    let order: Vec<(u64, u64)> =
        events(&args, &sources).into_iter().map(|event| (event.0, event.3)).collect();
    let (s, t) = (512, 1024);
    assert_eq!(order, [(0, s), (0, t), (50, s), (50, s), (100, s), (100, t)]);
    // The file that is written is a trace of the same.
    let merged = parsed(&args, &sources).unwrap()[0].merged.clone();
    assert_eq!(merged.len(), 6 * 48);
    let again = MemorySources::default().with_file("m", merged);
    let read = events("--read_iolog=m --replay_redirect=x", &again);
    assert_eq!(read, events(&args, &sources));
    let error = parsed(&format!("--read_iolog=s:t {to} --merge_blktrace_iters=2"), &sources);
    assert!(error.unwrap_err().contains("1 numbers for 2 traces"));
    let error = parsed(&format!("--read_iolog=s:v {to}"), &sources).unwrap_err();
    assert!(error.contains("v is no trace of blktrace"), "{error}");
}

/// A record of `struct blk_io_trace`.
fn record(big: bool, time_ns: u64, sector: u64, len: u32, action: u32, data: &[u8]) -> Vec<u8> {
    let u32s = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let u64s = |n: u64| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let len16 = data.len() as u16;
    let len16 = if big { len16.to_be_bytes() } else { len16.to_le_bytes() };
    let device = 7 << 20 | 3;
    let mut bytes = [u32s(0x6561_7407), u32s(0)].concat();
    bytes.extend([u64s(time_ns), u64s(sector)].concat());
    bytes.extend([len, action, 1, device, 0].map(u32s).concat());
    bytes.extend([[0, 0], len16].concat());
    bytes.extend(data);
    bytes
}

#[test]
fn traces_of_the_block_layer_in_both_orders_of_bytes() {
    let of = |category: u32, what: u32| (1 << category) << 16 | what;
    for big in [false, true] {
        let bytes = [
            record(big, 1000, 0, 0, of(10, 0), b"message"),
            record(big, 5000, 8, 4096, of(0, 1), b""),
            record(big, 6000, 16, 512, of(1, 1), b"xy"),
            record(big, 6500, 16, 512, of(1, 7), b""),
            record(big, 7000, 16, 512, of(1, 8), b""),
            record(big, 8000, 0, 0, of(2, 1) | of(1, 0), b""),
            record(big, 9000, 24, 8192, of(13, 1) | of(1, 0), b""),
        ];
        let sources =
            MemorySources::new(&[("/sys/dev/block/7:3/uevent", "MAJOR=7\nDEVNAME=loop3\n")])
                .with_file("t", bytes.concat());
        let loop3 = || "/dev/loop3".to_string();
        assert_eq!(
            events("--read_iolog=t", &sources),
            [
                (0, READ, loop3(), 4096, 4096),
                (1, WRITE, loop3(), 8192, 512),
                (3, TraceOp::Fsync, loop3(), 0, 0),
                (4, TRIM, loop3(), 12288, 8192),
            ]
        );
        assert_eq!(parsed("--read_iolog=t", &sources).unwrap()[0].depth, Some(3));
        let cut = bytes.concat();
        let sources = MemorySources::default().with_file("t", cut[..cut.len() - 1].to_vec());
        let error = parsed("--read_iolog=t --replay_redirect=x", &sources).unwrap_err();
        assert!(error.contains("t: cut off in the record at byte 297"), "{error}");
        let error = parsed("--read_iolog=t", &sources).unwrap_err();
        assert!(error.contains("no device 7:3; name another with replay_redirect"), "{error}");
    }
}

#[test]
fn what_is_no_trace_is_named_by_its_lines() {
    let error =
        |text: &str| parsed("--read_iolog=t", &MemorySources::new(&[("t", text)])).unwrap_err();
    assert!(error("").contains("t: the file is empty"));
    assert!(error("hello\n").contains("t:1: no trace: expected `fio version 3 iolog`"));
    assert!(error("fio version 3 iolog\n0 a add\n").contains("t has no I/O to replay"));
    let bad = "fio version 3 iolog\n0 a read 0 x\n1 a wait 5 5\nx a read 0 5\n3 a erase 0 1\n5\n";
    let error = error(bad);
    assert!(error.contains("t:2: expected `TIME FILE ACTION OFFSET LENGTH`"), "{error}");
    assert!(error.contains("t:4: ") && !error.contains("t:5: "), "{error}");
    assert!(error.contains("t: 2 more lines that are not understood"), "{error}");
    let long = "fio version 2 iolog\na read 0 2147483648\na write 18446744073709551615 2\n";
    let error = parsed("--read_iolog=t", &MemorySources::new(&[("t", long)])).unwrap_err();
    assert!(error.contains("t:2: a read of 2147483648 bytes is longer"), "{error}");
    assert!(error.contains("t:3: offset 18446744073709551615 plus length 2"), "{error}");
}
