use super::super::per_cpu::online_cpus;
use super::*;

const ISSUE: &str = "name: block_rq_issue\nID: 1140\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
    \n\
    \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
    \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
    \tfield:char rwbs[10];\toffset:24;\tsize:10;\tsigned:0;\n\
    \tfield:__data_loc char[] cmd;\toffset:36;\tsize:4;\tsigned:0;\n\
    \nprint fmt: \"%d\", REC->dev\n";

fn tree(mounts: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("tracing/events/block/block_rq_issue");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("format"), ISSUE).unwrap();
    let here = root.path().to_str().unwrap();
    std::fs::write(root.path().join("mounts"), mounts.replace("HERE", here)).unwrap();
    root
}

#[test]
fn a_mounted_tracefs_is_used() {
    let root = tree("proc /proc proc rw 0 0\nnodev HERE/tracing tracefs rw 0 0\n");
    let tracefs = Tracefs::find(root.path(), "events").unwrap();
    let issue = tracefs.tracepoint("block", "block_rq_issue").unwrap();
    assert_eq!((issue.id, issue.name.as_str()), (1140, "block:block_rq_issue"));
    assert_eq!(issue.attr().config, 1140);
    let missing = tracefs.tracepoint("block", "block_new").unwrap_err();
    assert!(missing.to_string().contains("block:block_new: not supported"), "{missing}");
}

#[test]
fn unavailable_tracefs_says_what_to_do() {
    let missing = unmounted("events", Errno::PERM);
    assert_eq!(missing.source, "events");
    assert!(missing.remedy.contains("run as root"), "{missing}");
    assert!(unmounted("events", Errno::NODEV).remedy.contains("CONFIG_TRACING"));
    let error = Tracefs::open(CWD, "/nowhere/events".into()).unwrap_err();
    assert!(error.starts_with("/nowhere/events: No such file"), "{error}");
    let denied = refused("a", &Errno::ACCESS.into());
    assert!(denied.remedy.contains("CAP_PERFMON"), "{denied}");
}

#[test]
fn fields_are_found_by_name() {
    let point = Tracepoint::parse("a".into(), ISSUE).unwrap();
    let mut raw = [0_u8; 40];
    raw[4..8].copy_from_slice(&(-7_i32).to_ne_bytes());
    raw[16..24].copy_from_slice(&u64::MAX.to_ne_bytes());
    raw[24..27].copy_from_slice(b"WS\0");
    let number = |name: &str| point.field(name).unwrap().number(&raw);
    assert_eq!(number("common_pid").map(|n| n as i64), Some(-7));
    assert_eq!(number("sector"), Some(u64::MAX));
    assert_eq!(number("dev"), Some(0));
    assert_eq!(number("rwbs"), None);
    assert_eq!(point.field("rwbs").unwrap().text(&raw), Some(&b"WS"[..]));
    assert_eq!(point.field("sector").unwrap().number(&raw[..20]), None);
    assert!(point.field("cmd").is_some() && point.field("bytes").is_none());
}

#[test]
fn malformed_descriptions_are_rejected() {
    for text in ["", "ID: x\n", "ID: 4\n", "ID: 4\n\tfield:int a;\toffset:x;\tsize:4;\n"] {
        assert_eq!(Tracepoint::parse("a".into(), text), None, "{text:?}");
    }
}

#[test]
fn filters_apply_on_the_running_kernel() {
    let tracefs = match Tracefs::find(Path::new("/proc"), "events") {
        Ok(tracefs) => tracefs,
        Err(missing) => return println!("skipped: {missing}"),
    };
    let point = tracefs.tracepoint("sched", "sched_process_fork").unwrap();
    let cpus = online_cpus(Path::new("/sys")).unwrap();
    // By name: in a container the kernel's process IDs are unknown.
    let mine = match point.count(&cpus, Some("parent_comm == \"fathom-forks\"")) {
        Ok(mine) => mine,
        Err(error) => return println!("skipped: {}", refused("counting", &error)),
    };
    let nobody = point.count(&cpus, Some("parent_comm == \"fathom-nobody\"")).unwrap();
    assert_eq!(mine.events().len(), cpus.len());
    mine.enable().unwrap();
    nobody.enable().unwrap();
    let forks = || (0..5).for_each(|_| std::thread::spawn(|| {}).join().unwrap());
    let parent = std::thread::Builder::new().name("fathom-forks".into());
    parent.spawn(forks).unwrap().join().unwrap();
    assert_eq!((mine.read().unwrap(), nobody.read().unwrap()), (5, 0));
    assert!(point.count(&cpus, Some("no_such_field == 1")).is_err());
}
