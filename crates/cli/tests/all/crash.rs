//! `run --journal` and `fathom verify`: what is lost of what was acknowledged. What a cache loses is simulated in the engine, and
//! lost by the lab's disks.
#![allow(clippy::unwrap_used)]

use crate::common::{Answer, MIB, Place, is_root, says, tool, until};
use fathom_model::record::{BlockOutcomes, PromiseReport};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::FileExt;

const BLOCK: usize = 4096;

fn report(answer: &Answer) -> PromiseReport {
    serde_json::from_str(&answer.stdout).unwrap()
}

/// What `fathom verify j` finds in the blocks of all jobs, and its exit status.
fn found(place: &Place) -> (BlockOutcomes, Option<i32>) {
    let answer = place.ask(&["verify", "j", "--json"]);
    let mut all = BlockOutcomes::default();
    for job in report(&answer).jobs {
        all.as_acknowledged += job.blocks.as_acknowledged;
        all.newer += job.blocks.newer;
        all.lost_zero += job.blocks.lost_zero;
        all.lost_stale += job.blocks.lost_stale;
        all.lost_torn += job.blocks.lost_torn;
        all.lost_other += job.blocks.lost_other;
        all.not_judged += job.blocks.not_judged;
    }
    (all, answer.code)
}

/// Writes 64 blocks of `f` twice, with a flush after each pass, and returns what was there after the first.
fn written_twice(place: &Place) -> Vec<u8> {
    let job = ["--name=a", "--filename=f", "--size=256k", "--bs=4k", "--ioengine=psync"];
    let how = ["--verify=crc32c", "--do_verify=0", "--rw=randwrite", "--end_fsync=1", "--loops=2"];
    let first = ["--journal=first", "--rw=randwrite", "--overwrite=f", "--end_fsync=1"];
    place.run(&[&job[..], &first, &how[..2]].concat()).done();
    let before = fs::read(place.path("f")).unwrap();
    place.run(&[&job[..], &how, &["--fsync=64", "--journal=j", "--overwrite=f"]].concat()).done();
    before
}

#[test]
fn what_was_lost_is_found_and_called_by_its_name() {
    let place = Place::new();
    let before = written_twice(&place);
    let kept = place.ask(&["verify", "j"]).done();
    says(&kept.stdout, &["Nothing that was acknowledged as durable was lost: 64 blocks judged."]);
    let right = fs::read(place.path("f")).unwrap();
    let file = fs::File::options().write(true).open(place.path("f")).unwrap();
    let put = |block: usize, data: &[u8]| file.write_all_at(data, (block * BLOCK) as u64).unwrap();
    put(3, &[0; BLOCK]);
    put(7, &before[7 * BLOCK..8 * BLOCK]);
    put(9, &[&right[9 * BLOCK..][..1024], &before[9 * BLOCK + 1024..][..512]].concat());
    put(20, &right[21 * BLOCK..][..BLOCK]);
    let lost = BlockOutcomes {
        as_acknowledged: 60,
        lost_zero: 1,
        lost_torn: 1,
        lost_other: 2,
        ..BlockOutcomes::default()
    };
    assert_eq!(found(&place), (lost, Some(1)));
    let page = place.ask(&["verify", "j"]);
    assert_eq!(page.code, Some(1));
    let page = page.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = [
        "4 blocks of 64 were lost although acknowledged",
        "offset 12288, 4096 bytes: all zeroes; write ",
        "offset 28672, 4096 bytes: of another run or job",
        "offset 36864, 4096 bytes: torn: bytes 1024 to 1536 of it hold something else",
        "offset 81920, 4096 bytes: misplaced: it is the block of offset 86016",
    ];
    says(&page, &parts);
    // A file that is shorter has lost its end.
    file.set_len(right.len() as u64 - BLOCK as u64).unwrap();
    assert_eq!(found(&place).0.lost_zero, 2);
}

#[test]
fn an_earlier_write_of_the_same_run_is_older_and_a_later_one_is_newer() {
    let place = Place::new();
    let job = ["--name=a", "--filename=f", "--size=64k", "--bs=4k", "--rw=write", "--verify=md5"];
    // Two jobs, one after the other, on parts of their own; the second flushes only after its first pass.
    let more = ["--do_verify=0", "--journal=j", "--loops=3", "--fsync=16", "--thinktime=300ms"];
    let more = [&more[..], &["--thinktime_blocks=16", "--ioengine=psync"]].concat();
    let running = place.start(&[&["run", "--no-record"], &job[..], &more].concat());
    let pass = |number: u64| {
        until("a pass", || {
            let journal = fs::read(place.path("j/job-1.journal")).unwrap_or_default();
            // Each write has two records, and each flush.
            journal.len() as u64 >= number * 34 * 32
        });
        fs::read(place.path("f")).unwrap()
    };
    let first = pass(1);
    let second = pass(2);
    running.wait().done();
    let kept = BlockOutcomes { as_acknowledged: 16, ..BlockOutcomes::default() };
    assert_eq!(found(&place), (kept, Some(0)));
    assert!(first != second);
    place.write("f", &second);
    let stale = BlockOutcomes { lost_stale: 16, ..BlockOutcomes::default() };
    assert_eq!(found(&place), (stale, Some(1)));
}

#[test]
fn a_killed_run_has_lost_nothing() {
    let how = [
        "--bs=4k --fsync=16",
        "--bs=4k --sync=dsync --ioengine=libaio --direct=1",
        "--bsrange=2k-16k --fdatasync=5",
    ];
    for more in how {
        let place = Place::new();
        let args = "run --no-record --name=a --filename=f --size=4m --rw=randwrite --iodepth=8 --time_based \
                    --runtime=60 --verify=crc32c --journal=j";
        let args: Vec<&str> = args.split(' ').filter(|arg| !arg.is_empty()).collect();
        let running = place.start(&[args, more.split(' ').collect()].concat());
        let journal = place.path("j/job-1.journal");
        until("some writes", || fs::metadata(&journal).is_ok_and(|file| file.len() > 200_000));
        running.signal(Signal::KILL);
        assert_eq!(running.wait().signal, Some(9));
        let answer = place.ask(&["verify", "j", "--json"]).done();
        let job = report(&answer).jobs.remove(0);
        assert!(job.durable > 1000 && job.blocks.judged() > 100, "{more}: {job:?}");
        assert!(job.submitted >= job.completed && job.completed >= job.durable, "{job:?}");
        // What is submitted is in the journal before.
        let data = fs::read(place.path("f")).unwrap();
        let word = |at: usize| u64::from_ne_bytes(data[at..at + 8].try_into().unwrap());
        // Random data may begin with a header's magic number, but does not hold its own offset.
        let is_header = |at: &usize| {
            data[*at..].starts_with(&0xacca_u16.to_ne_bytes()) && word(at + 16) == *at as u64
        };
        let headers = (0..data.len()).step_by(512).filter(is_header);
        let newest = headers.map(|at| word(at + 32)).max().unwrap();
        assert!(newest < job.submitted && newest >= job.completed / 2, "{newest} {job:?}");
        // What the power cut left of a last record is no harm.
        let whole = fs::read(&journal).unwrap();
        fs::write(&journal, [&whole[..], &[7; 25]].concat()).unwrap();
        let answer = place.ask(&["verify", "j", "--json"]).done();
        assert_eq!(report(&answer).jobs[0].journal_tail_bytes, 25);
    }
}

#[test]
fn no_job_is_accused_that_ended() {
    let jobs = [
        "--rw=randwrite --bs=4k --fsync=8",
        "--rw=randrw --bs=4k,8k --fsync=8 --end_fsync=1 --blockalign=2k",
        "--rw=randwrite --bsrange=512-16k --norandommap --fdatasync=7 --io_size=4m",
        "--rw=randtrimwrite --bsrange=4k-12k --fsync=16",
        "--rw=trimwrite --bs=4k --fsync=16",
        "--rw=randwrite --bs=4k --sync=dsync --io_size=2m",
        "--rw=randwrite --bs=16k --verify_interval=1k --verify_offset=128 --fsync=4 --loops=3",
        "--rw=randwrite --bs=4k --io_size=512k --loops=2 --unlink_each_loop=1 --fsync=8",
        "--rw=randwrite --bs=4k --nrfiles=3 --file_service_type=random --fsync=8 --rate_iops=4k",
        "--rw=write --bs=4k --ramp_time=20ms --verify_backlog=16 --io_size=4m --fsync=32",
        "--rw=randwrite --bs=4k --numjobs=2 --offset_increment=512k --size=512k --fsync=8",
        "--rw=randwrite --bs=4k --random_distribution=zipf:1.2 --io_size=4m --fsync=64",
        "--rw=write --bs=4k --buffer_compress_percentage=80 --verify=meta --fsync=8 --loops=2",
        "--rw=write --bs=4k --verify=pattern_hdr --verify_pattern=0xab%o --fsync=8",
    ];
    let engines = ["io_uring", "psync", "libaio", "posixaio", "mmap", "vsync"];
    for (index, job) in jobs.into_iter().enumerate() {
        let place = Place::new();
        let engine = format!("--ioengine={}", engines[index % engines.len()]);
        let common = ["--name=a", "--size=1m", &engine, "--iodepth=8", "--verify=xxhash"];
        let more = ["--do_verify=0", "--journal=j"];
        place.run(&[&common[..], &more, &job.split(' ').collect::<Vec<_>>()].concat()).done();
        let (blocks, code) = found(&place);
        assert_eq!((blocks.lost(), code), (0, Some(0)), "{job} {engine}: {blocks:?}");
        // Nothing is promised of mappings by sync=, or of what was trimmed last.
        assert!(blocks.judged() > 20, "{job} {engine}: {blocks:?}");
    }
}

#[test]
fn without_a_flush_nothing_was_promised() {
    let place = Place::new();
    let job = ["--name=a", "--filename=f", "--size=64k", "--rw=write", "--verify=crc32c"];
    place.run(&[&job[..], &["--bs=4k", "--do_verify=0", "--journal=j"]].concat()).done();
    let page = place.ask(&["verify", "j"]);
    assert_eq!(page.code, Some(2));
    says(&page.stdout, &["Nothing to judge", "16 blocks: no write of them was acknowledged"]);
    place.write("f", vec![0; 65536]);
    assert_eq!(found(&place).1, Some(2));
}

#[test]
fn bad_input_changes_nothing() {
    let place = Place::new();
    written_twice(&place);
    fs::create_dir(place.path("x")).unwrap();
    place.data("x/some", 10);
    let before = place.look();
    let run = |more: &[&'static str]| {
        let job = ["--name=a", "--filename=f", "--size=64k", "--overwrite=f"];
        [&job[..], more].concat()
    };
    let verified = ["--rw=write", "--verify=crc32c"];
    let cases: [(Vec<&str>, &[&str]); 6] = [
        (run(&["--rw=write", "--journal=new"]), &["job 'a' writes data", "add verify=crc32c"]),
        (run(&["--rw=write", "--journal=new", "--verify=null"]), &["add verify=crc32c"]),
        (run(&["--rw=read", "--journal=new"]), &["--journal: no job writes; remove it"]),
        (
            run(&[&verified[..], &["--journal=x"]].concat()),
            &["--journal=x exists and is not empty"],
        ),
        (run(&[&verified[..], &["--journal=new", "--numjobs=2"]].concat()), &["the same part of"]),
        (run(&[&verified[..], &["--journal=new", "--repeat=2"]].concat()), &["conflict"]),
    ];
    for (args, parts) in cases {
        place.refuses(&args, parts);
    }
    let asks = |args: &[&str], parts: &[&str]| {
        let answer = place.ask(&[&["verify"], args].concat());
        assert_eq!(answer.code, Some(2), "{args:?} {}", answer.stdout);
        says(&answer.stderr, parts);
    };
    asks(&["none"], &["none holds no journal; name the directory"]);
    asks(&["j", "--target=g=h"], &["the run wrote no g; it wrote "]);
    asks(&["j", "--target=f=nowhere"], &["nowhere does not exist; mount its file system"]);
    asks(&["j", "--target=f=x"], &["x is no regular file or block device"]);
    assert_eq!(place.look(), before);
    fs::rename(place.path("f"), place.path("g")).unwrap();
    place.ask(&["verify", "j", "--target=f=g"]).done();
    let journal = place.path("j/job-1.journal");
    let mut records = fs::read(&journal).unwrap();
    records[40] ^= 1;
    fs::write(&journal, records).unwrap();
    asks(&["j", "--target=f=g"], &["j/job-1.journal: the record at byte 32 is damaged"]);
    place.write("j/journal.json", "{}");
    asks(&["j"], &["j/journal.json: missing field `version`"]);
}

#[test]
fn a_journal_that_cannot_be_written_ends_the_run() {
    if !is_root("a full journal") {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("small")).unwrap();
    let small = place.path("small").display().to_string();
    tool("mount", &["-t", "tmpfs", "-o", "size=64k", "none", &small]);
    let args = ["--name=a", "--filename=f", "--size=4m", "--rw=randwrite", "--bs=4k"];
    let more = ["--verify=crc32c", "--fsync=16", "--journal=small/j", "--ioengine=psync"];
    let answer = place.run(&[&args[..], &more].concat());
    let found = place.ask(&["verify", "small/j", "--json"]);
    tool("umount", &[&small]);
    assert_eq!(answer.code, Some(1));
    says(
        &answer.stderr,
        &["cannot write the journal small/j/job-1.journal: No space left on device"],
    );
    assert_eq!(found.code, Some(0), "{}", found.stderr);
    let job = report(&found).jobs.remove(0);
    assert!(job.durable > 100 && job.blocks.lost() == 0, "{job:?}");
    assert!(fs::metadata(place.path("f")).unwrap().len() == 4 * MIB as u64);
}
