//! Verification of data. What it says of each kind of damage is tested in the engine.
#![allow(clippy::unwrap_used)]

use crate::common::{Place, Tmpfs, is_root, says};
use std::fs;

const BLOCK: usize = 4096;

fn methods() -> Vec<String> {
    let dir = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/verify")).unwrap();
    dir.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

/// Two blocks by each method as fio 3.42 writes them (`fio --bs=512 --size=1k --rw=write --verify=METHOD`).
#[test]
fn what_fio_wrote_is_right() {
    let place = Place::new();
    let methods = methods();
    assert_eq!(methods.len(), 17);
    for method in methods {
        let by_fio = format!("{}/tests/verify/{method}", env!("CARGO_MANIFEST_DIR"));
        let mut data = fs::read(by_fio).unwrap();
        place.write("f", &data);
        let verify = format!("--verify={method}");
        let mut args =
            vec!["--name=a", "--filename=f", "--rw=read", "--bs=512", "--ioengine=psync", &verify];
        if method.starts_with("pattern") {
            args.push("--verify_pattern=0xab%o");
        }
        let page = place.run(&args).done();
        says(&page.stdout, &[&format!("Verified by {method}: 2 blocks (1 KiB), all right")]);
        data[1000] ^= 4;
        place.write("f", &data);
        // That of the header alone says nothing of the data.
        let answer = place.run(&args);
        assert_eq!(answer.code, Some(i32::from(method != "meta")), "{method}: {}", answer.stdout);
    }
}

#[test]
fn every_engine_reads_back_what_it_wrote() {
    let place = Place::new();
    let engines = ["psync", "pvsync2", "vsync", "libaio", "posixaio", "io_uring", "mmap", "splice"];
    let jobs = [
        &["--rw=randwrite", "--bs=4k", "--verify=crc32c"][..],
        &["--rw=write", "--bs=16k", "--verify=md5", "--verify_interval=4k"],
        &["--rw=randwrite", "--bsrange=4k-32k", "--verify=xxhash", "--verify_backlog=16"],
        &["--rw=randrw", "--bs=4k", "--norandommap=1", "--verify=sha1", "--verify_offset=128"],
    ];
    for engine in engines {
        for job in jobs {
            let engine = format!("--ioengine={engine}");
            let common = ["--name=a", "--filename=f", "--size=1m", "--iodepth=8", &engine];
            let format = ["--output-format=json", "--overwrite=f"];
            let answer = place.run(&[&common[..], job, &format].concat()).done();
            let job = &answer.json()["jobs"][0];
            let (read, written) = (&job["read"], &job["write"]);
            assert_eq!(job["error"], 0);
            let bytes = |of: &serde_json::Value| of["io_bytes"].as_u64().unwrap();
            assert!(bytes(written) > 0 && bytes(read) > 0 && bytes(read) <= 1 << 20, "{engine}");
        }
    }
}

#[test]
fn wrong_blocks_are_named_and_end_the_job_unless_asked_to_go_on() {
    let place = Place::new();
    let job = ["--name=a", "--filename=f", "--size=64k", "--ioengine=psync", "--verify=crc32c"];
    place.run(&[&job[..], &["--rw=write", "--do_verify=0"]].concat()).done();
    let mut data = fs::read(place.path("f")).unwrap();
    data.copy_within(5 * BLOCK..6 * BLOCK, 2 * BLOCK);
    data[7 * BLOCK..8 * BLOCK].fill(0);
    data[9 * BLOCK + 600] ^= 1;
    place.write("f", &data);
    let reads = [&job[..], &["--rw=read"]].concat();
    let first = place.run(&reads);
    assert_eq!(first.code, Some(1));
    says(&first.stderr, &["verification failed", "offset 8192", "it is the block of offset 20480"]);
    let all = place.run(&[&reads[..], &["--continue_on_error=verify"]].concat());
    assert_eq!(all.code, Some(1));
    let page = all.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts =
        ["16 blocks (64 KiB), 3 wrong", "offset 28672, 4096 bytes: all zeroes", "1 bit differs"];
    says(&page, &parts);
    let json = [&reads[..], &["--output-format=json", "--ignore_error=,,EILSEQ"]].concat();
    // EILSEQ.
    let found = place.run(&json).json();
    assert_eq!(found["jobs"][0]["error"], 84);
    let verified = &found["fathom"]["jobs"][0]["verified"];
    assert_eq!((verified["blocks"].as_u64(), verified["wrong"].as_u64()), (Some(16), Some(3)));
    let bits = serde_json::json!({"bits": {"count": 1, "bytes": [600]}});
    assert_eq!(
        (&verified["first"][0]["damage"], &verified["first"][2]["damage"]),
        (&"misplaced".into(), &bits)
    );
}

/// Places that are no multiples of blocks, and what interrupts a job.
#[test]
fn right_data_is_right_however_it_is_written() {
    let place = Place::new();
    let jobs = [
        "--rw=write:1k --bs=4k",
        "--rw=randwrite --bs=4k --blockalign=512 --norandommap",
        "--rw=randwrite --bs=8k --blockalign=12k",
        "--rw=randrw --bs=4k,8k --blockalign=2k",
        "--rw=randwrite --bs=4k --random_distribution=zipf:1.2 --io_size=4m",
        "--rw=randtrimwrite --bsrange=4k-12k --thinktime=100us --ramp_time=20ms",
        "--rw=write --bs=4k --ramp_time=20ms --verify_backlog=16 --io_size=4m",
        "--rw=randwrite --bs=4k --io_size=512k --loops=2 --unlink_each_loop=1",
        "--rw=randwrite --bs=4k --fsync=8 --verify_backlog=5 --verify_backlog_batch=3",
        "--rw=randwrite --bs=4k --nrfiles=3 --file_service_type=random --rate_iops=4k",
        "--rw=write --bs=4k --time_based --runtime=100ms --experimental_verify=1",
    ];
    for (index, job) in jobs.into_iter().enumerate() {
        let name = format!("--name=job{index}");
        let common = [&name, "--size=1m", "--ioengine=io_uring", "--iodepth=16", "--verify=xxhash"];
        let job: Vec<&str> = common.into_iter().chain(job.split(' ')).collect();
        let page = place.run(&job).done();
        assert!(page.stdout.contains(", all right."), "{job:?}: {}", page.stdout);
    }
}

#[test]
fn what_is_only_verified_is_not_changed() {
    let place = Place::new();
    let job = ["--name=a", "--filename=f", "--size=1m", "--io_size=256k", "--rw=randwrite"];
    let job = [&job[..], &["--ioengine=psync", "--verify=crc64"]].concat();
    place.run(&[&job[..], &["--do_verify=0"]].concat()).done();
    // A job before may write what is verified.
    let common = ["--filename=g", "--size=64k", "--rw=write", "--verify=md5"];
    let writes = [&["--name=b"], &common[..], &["--do_verify=0"]].concat();
    let verifies = [&["--name=c", "--stonewall"], &common[..], &["--verify_only"]].concat();
    let page = place.run(&[writes, verifies].concat()).done();
    says(&page.stdout, &["16 blocks (64 KiB), all right"]);
    let before = place.look();
    let page =
        place.run(&[&job[..], &["--verify_only", "--readonly", "--no-record"]].concat()).done();
    says(&page.stdout, &["verification of random write", "64 blocks (256 KiB), all right"]);
    assert_eq!(place.look(), before);
}

#[test]
fn what_cannot_be_verified_is_refused() {
    let place = Place::new();
    let job = ["--name=a", "--filename=f", "--size=1m", "--rw=write"];
    let refused = [
        (
            &["--verify=md5", "--bs=512", "--verify_offset=480"][..],
            &["verify_offset=480", "512"][..],
        ),
        (&["--verify=sha512", "--bs=128"], &["176 bytes", "raise bs"]),
        (&["--verify=crc64", "--verify_only"], &["does not exist", "written before"]),
        (&["--verify=pattern"], &["set verify_pattern"]),
    ];
    for (keys, parts) in refused {
        place.refuses(&[&job[..], keys].concat(), parts);
    }
}

#[test]
fn a_full_file_system_is_read_back() {
    if !is_root("verify with fill_device") {
        return;
    }
    let place = Place::new();
    let _small = Tmpfs::new(&place, "small", 1);
    let write = ["--name=a", "--filename=small/f", "--rw=write", "--fill_device=1", "--verify=md5"];
    for engine in ["--ioengine=psync", "--ioengine=io_uring"] {
        let page = place.run(&[&write[..], &[engine, "--iodepth=4", "--unlink=1"]].concat()).done();
        says(&page.stdout, &["256 blocks (1 MiB), all right"]);
    }
    place.refuses(&[&write[..], &["--journal=j"]].concat(), &["fill_device", "set size"]);
}

/// The blocks that a page says were verified.
fn verified_kib(page: &str, kib: u64) {
    says(page, &[&format!("{} blocks ({kib} KiB), all right", kib / 4)]);
}

#[test]
fn a_pattern_is_read_from_a_file() {
    let place = Place::new();
    let pattern: Vec<u8> = (0..BLOCK).map(|n| (n * 7 % 251) as u8).collect();
    place.write("pat", &pattern);
    let job = ["--name=a", "--filename=f", "--size=64k", "--ioengine=psync", "--rw=write"];
    place.run(&[&job[..], &["--buffer_pattern='pat'"]].concat()).done();
    let data = fs::read(place.path("f")).unwrap();
    assert!(data.len() == 65536 && data.chunks(BLOCK).all(|block| block == pattern));
    let reads = ["--name=a", "--filename=f", "--rw=read", "--verify=pattern", "--bs=4k"];
    let page = place.run(&[&reads[..], &["--verify_pattern='pat'"]].concat()).done();
    verified_kib(&page.stdout, 64);
    place.refuses(
        &[&job[..], &["--buffer_pattern=0x1'none'"]].concat(),
        &["'none'", "not a regular file; name one"],
    );
}

/// A run that was stopped early, of which only what was written is verified by another.
#[test]
fn a_saved_state_limits_what_is_verified() {
    let place = Place::new();
    let job = ["--name=a/b", "--filename=f", "--size=1m", "--rw=randwrite", "--verify=crc32c"];
    let writes = ["--io_size=256k", "--do_verify=0", "--verify_state_save=1"];
    place.run(&[&job[..], &writes].concat()).done();
    assert!(place.path("local-a.b-0-verify.state").exists(), "{:?}", place.look());
    let only = [&job[..], &["--verify_only"]].concat();
    assert_eq!(place.run(&only).code, Some(1), "most was not written");
    let page = place.run(&[&only[..], &["--verify_state_load=1"]].concat()).done();
    verified_kib(&page.stdout, 256);
    let reads =
        ["--name=a/b", "--filename=f", "--rw=randread", "--verify=crc32c", "--verify_state_load"];
    let page = place.run(&reads).done();
    verified_kib(&page.stdout, 256);
    // What is no state stays what it is.
    place.write("local-a.b-0-verify.state", b"notes");
    for (keys, part) in
        [(&reads[..], "verify_state_load"), (&[&job[..], &writes].concat(), "move it")]
    {
        let answer = place.run(keys);
        assert_eq!(answer.code, Some(1));
        says(&answer.stderr, &["not a verification state", part]);
    }
    assert_eq!(fs::read(place.path("local-a.b-0-verify.state")).unwrap(), b"notes");
    let nowhere = [&job[..], &writes, &["--aux-path=nowhere", "--filename=g"]].concat();
    let answer = place.run(&nowhere);
    says(&answer.stderr, &["cannot write nowhere/local-a.b-0-verify.state"]);
    assert_eq!(
        fs::read(place.path("g")).map_or(0, |data| data.iter().filter(|b| **b != 0).count()),
        0
    );
    let answer = place.run(&[&reads[..], &["--aux-path=nowhere"]].concat());
    says(&answer.stderr, &["nowhere/local-a.b-0-verify.state"]);
}

#[test]
fn only_what_was_flushed_is_verified_on_request() {
    let place = Place::new();
    let job = ["--name=a", "--filename=f", "--size=256k", "--rw=write", "--verify=md5"];
    let writes =
        ["--number_ios=50", "--fsync=16", "--verify_policy=fsynced", "--verify_state_save=1"];
    let page = place.run(&[&job[..], &writes].concat()).done();
    verified_kib(&page.stdout, 200);
    let page = place.run(&[&job[..], &["--verify_only", "--verify_state_load=1"]].concat()).done();
    verified_kib(&page.stdout, 192);
}

#[test]
fn trimmed_blocks_are_to_be_zeroes() {
    let place = Place::new();
    let job = ["--name=a", "--filename=f", "--size=256k", "--rw=randwrite", "--verify=xxhash"];
    for (keys, trims, reads) in [
        (&["--trim_percentage=100", "--trim_backlog=16"][..], 64, 64),
        (&["--trim_percentage=100", "--trim_backlog=16", "--trim_verify_zero=0"], 64, 0),
        (&["--trim_percentage=100", "--trim_backlog=16", "--trim_backlog_batch=4"], 16, 64),
        (&["--trim_percentage=100", "--trim_backlog=1", "--number_ios=64"], 32, 32),
        (&["--trim_percentage=100"], 0, 64),
    ] {
        let format = ["--output-format=json", "--ioengine=io_uring", "--iodepth=4"];
        let answer = place.run(&[&job[..], keys, &format].concat()).done();
        let job = &answer.json()["jobs"][0];
        let ios = |dir: &str| job[dir]["total_ios"].as_u64().unwrap();
        assert_eq!((ios("trim"), ios("read")), (trims, reads), "{keys:?}");
    }
}

#[test]
fn several_threads_verify_and_wrong_blocks_go_to_files() {
    let place = Place::new();
    let job = ["--name=a", "--filename=f", "--size=1m", "--verify=sha1", "--iodepth=16"];
    let threads = ["--verify_async=3", "--verify_async_cpus=0", "--ioengine=libaio"];
    let page = place.run(&[&job[..], &threads, &["--rw=randwrite"]].concat()).done();
    says(&page.stdout, &["256 blocks (1 MiB), all right"]);
    let right = fs::read(place.path("f")).unwrap();
    let mut data = right.clone();
    data[3 * BLOCK + 99] ^= 1;
    data[8 * BLOCK..9 * BLOCK].fill(0);
    place.write("f", &data);
    let reads = ["--rw=read", "--verify_dump=1", "--continue_on_error=verify"];
    let reads = [&job[..], &threads, &reads].concat();
    for _ in 0..2 {
        let answer = place.run(&reads);
        assert_eq!(answer.code, Some(1));
        says(
            &answer.stdout,
            &["256 blocks (1 MiB), 2 wrong", "f.12288.received and f.12288.expec"],
        );
        let dumped = |name: &str| fs::read(place.path(name)).unwrap();
        assert!(dumped("f.12288.received") == data[3 * BLOCK..4 * BLOCK]);
        assert!(dumped("f.12288.expected") == right[3 * BLOCK..4 * BLOCK]);
        assert!(dumped("f.32768.received") == [0; BLOCK]);
        assert!(!place.path("f.32768.expected").exists(), "nothing says what it was");
    }
    // A file of that name that belongs to somebody.
    place.write("f.12288.received", "theirs");
    let answer = place.run(&reads);
    says(&answer.stdout, &["f.12288.received: it exists and fathom did not write it"]);
    assert_eq!(place.read("f.12288.received"), "theirs");
    place.refuses(
        &[&job[..], &["--rw=read", "--verify_async=2", "--verify_async_cpus=x"]].concat(),
        &["verify_async_cpus"],
    );
}

/// As in fio, a state that cannot be written fails nothing.
#[test]
fn as_fio_a_job_succeeds_whose_state_cannot_be_written() {
    let place = Place::new();
    let job = "fio --name=a --filename=f --size=64k --rw=write --verify=md5 --aux-path=nowhere";
    let answer = crate::fio::script(&place, job);
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    says(&answer.stderr, &["cannot write nowhere/local-a-0-verify.state"]);
    says(&answer.stdout, &["err= 0"]);
    let data = fs::read(place.path("f")).unwrap();
    assert!(data.len() == 65536 && data.chunks(BLOCK).all(|block| block.iter().any(|b| *b != 0)));
}
