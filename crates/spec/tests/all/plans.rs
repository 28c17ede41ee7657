//! What plans come of requests.

use crate::common::{command, facts, job};
use fathom_model::facts::ZoneFacts;
use fathom_model::plan::{
    BlockSizes, Distribution, Engine, ExitWhat, Fill, Mix, Order, Plan, Psync, Rate, Region,
    SqPoll, Zoning,
};
use fathom_model::{Dir, plan::SyncIo};
use fathom_spec::{Format, plan};

fn of_file(text: &str) -> Plan {
    let spec = job(text).unwrap();
    plan(&spec, &facts(&spec)).unwrap()
}

fn of_command(line: &str) -> Plan {
    let spec = command(line).unwrap();
    plan(&spec, &facts(&spec)).unwrap()
}

#[test]
fn short_form() {
    let plan = of_command("--rw=randread --bs=4k --iodepth=32 --numjobs=3 --direct=1 /dev/disk");
    assert_eq!(plan.jobs.len(), 3);
    assert_eq!(plan.targets.len(), 1);
    let job = &plan.jobs[2];
    assert_eq!((job.name.as_str(), job.clone, job.depth, job.direct), ("randread", 2, 32, true));
    assert_eq!(job.regions, [Region { target: 0, start: 0, len: 1 << 30 }]);
    assert_eq!(job.access.mix, Mix::Only(Dir::Read));
    assert_eq!(job.until.bytes, Some(1 << 30));
    let each_once = Order::Random { distribution: Distribution::EachOnce, run: 1 };
    assert_eq!(job.access.order, each_once);
    assert!(!plan.targets[0].written);
}

#[test]
fn clones_draw_different_sequences_that_repeat() {
    let line = "--rw=randread --numjobs=4 /dev/disk";
    let seeds =
        |line: &str| of_command(line).jobs.iter().map(|j| j.access.seed).collect::<Vec<_>>();
    let mut first = seeds(line);
    assert_eq!(first, seeds(line));
    assert_ne!(first, seeds(&format!("--randseed=5 {line}")));
    assert_ne!(first, seeds(&format!("--randrepeat=0 {line}")));
    first.sort_unstable();
    first.dedup();
    assert_eq!(first.len(), 4);
}

#[test]
fn paths_with_colons_are_one_target() {
    let spec = command("--rw=read /by-path/pci-0000:00 b").unwrap();
    let paths: Vec<String> = spec.target_paths().unwrap().into_iter().map(|q| q.path).collect();
    assert_eq!(paths, ["/by-path/pci-0000:00", "b"]);
}

#[test]
fn percentages_are_of_the_target() {
    let plan = of_command("--rw=read --bs=64k --offset=50% --size=25% /data/file");
    assert_eq!(plan.jobs[0].regions[0], Region { target: 0, start: 32 << 20, len: 16 << 20 });
    let text = "[a]\nfilename=${DISK}\nrw=read\nnumjobs=4\noffset_increment=25%\nsize=25%";
    let starts: Vec<u64> = of_file(text).jobs.iter().map(|j| j.regions[0].start).collect();
    assert_eq!(starts, [0, 256 << 20, 512 << 20, 768 << 20]);
}

#[test]
fn parts_of_a_file_go_up_to_its_end() {
    let plan = of_command(
        "--rw=randread --zonesize=1m --zonerange=2m --zoneskip=1m --offset=4m --size=8m --bs=4k /data/file",
    );
    assert_eq!(plan.jobs[0].regions, [Region { target: 0, start: 4 << 20, len: 60 << 20 }]);
    assert_eq!(plan.jobs[0].until.bytes, Some(8 << 20));
    let zoning = Zoning::Strided { bytes: 1 << 20, range: 2 << 20, skip: 1 << 20 };
    assert_eq!(plan.jobs[0].access.zoning, Some(zoning));
    let plan =
        of_command("--rw=read --zonemode=strided --zonesize=1m --offset=2z --size=3z /data/file");
    assert_eq!((plan.jobs[0].regions[0].start, plan.jobs[0].until.bytes), (2 << 20, Some(3 << 20)));
}

#[test]
fn zones_with_write_pointers_are_whole() {
    let plan =
        of_command("--rw=read --zonemode=zbd --zonesize=3m --offset=1m --size=20m /data/file");
    assert_eq!(plan.jobs[0].regions, [Region { target: 0, start: 3 << 20, len: 18 << 20 }]);
    let spec = command("--rw=read --zonemode=zbd --zonesize=3m --size=2m /data/file").unwrap();
    let error = fathom_spec::plan(&spec, &facts(&spec)).unwrap_err().to_string();
    assert!(error.contains("there is no whole zone of 3 MiB; raise size"), "{error}");
}

#[test]
fn zones_of_a_device_decide() {
    let of = |line: &str, open_max| {
        let spec = command(&format!("--zonemode=zbd --bs=64k --erase=/dev/disk {line} /dev/disk"))
            .unwrap();
        let mut facts = facts(&spec);
        let device = facts.targets[0].device.get_or_insert_default();
        let zones = ZoneFacts { managed: true, zone_bytes: 4 << 20, open_max, active_max: 6 };
        (device.zones, device.scheduler) = (Some(zones), Some("mq-deadline".into()));
        facts.host.kernel = "6.1.0".into();
        fathom_spec::plan(&spec, &facts)
            .map(|plan| plan.jobs[0].access.zoning)
            .map_err(|error| error.to_string())
    };
    let rules = |line: &str, open_max| match of(line, open_max) {
        Ok(Some(Zoning::WritePointers(rules))) => rules,
        other => panic!("{other:?}"),
    };
    let seen = rules("--rw=write --direct=1 --ioengine=libaio --iodepth=8", 8);
    assert_eq!(
        (seen.zone_bytes, seen.capacity, seen.open_max, seen.keeps_order),
        (4 << 20, 4 << 20, 6, true)
    );
    let ring = rules("--rw=write --direct=1 --ioengine=io_uring --iodepth=8 --max_open_zones=3", 4);
    assert_eq!((ring.open_max, ring.keeps_order), (3, false));
    assert_eq!(rules("--rw=write --direct=1 --ignore_zone_limits=1", 4).open_max, 0);
    let by_command = "--ioengine=io_uring_cmd --rw=write --iodepth=8 --erase=/dev/ng0n1 /dev/ng0n1";
    let orders = |keys: &str| {
        let spec = command(&format!("--zonemode=zbd {keys} {by_command}")).unwrap();
        let mut facts = facts(&spec);
        let zones = ZoneFacts { managed: true, zone_bytes: 4 << 20, open_max: 0, active_max: 0 };
        facts.targets[0].device.get_or_insert_default().zones = Some(zones);
        let zoning = fathom_spec::plan(&spec, &facts).unwrap().jobs[0].access.zoning;
        matches!(zoning, Some(Zoning::WritePointers(rules)) if rules.keeps_order)
    };
    assert!(!orders("--write_mode=write") && orders("--write_mode=zone_append"));
    assert!(!orders("--write_mode=zone_append/50:write/50"));
    assert!(!orders("--write_mode=zone_append --verify=md5"));
    for (line, said) in [
        ("--rw=write", "set direct=1"),
        ("--rw=write --direct=1 --max_open_zones=5", "exceeds the 4"),
        ("--rw=write --direct=1 --zonesize=1m", "not zonesize=1048576"),
        ("--rw=randtrim --direct=1", "use bs=4194304 for trims"),
        ("--rw=read --zoneskip=1m", "no multiple of a zone"),
    ] {
        let error = of(line, 4).unwrap_err();
        assert!(error.contains(said), "{line}: {error}");
    }
}

#[test]
fn a_file_that_fills_its_file_system_has_no_size() {
    let plan = of_command("--rw=write --fill_device=1 new");
    assert_eq!((plan.targets[0].create_size, plan.jobs[0].until.bytes), (Some(0), None));
    assert!(plan.jobs[0].until.full);
    let plan = of_command("--rw=write --fill_device=1 --size=1m new");
    assert_eq!(
        (plan.targets[0].create_size, plan.jobs[0].until.bytes),
        (Some(1 << 20), Some(1 << 20))
    );
}

#[test]
fn think_time_of_loads_and_after_io_time() {
    let plan = of_command("--name=a --ioengine=cpuio --cpuload=20 --cpuchunks=1000 --runtime=1");
    let think = plan.jobs[0].think.unwrap();
    assert_eq!((think.time_ns, think.blocks), (4_000_000, 1));
    let plan = of_command("--rw=read --thinktime=1ms --thinktime_iotime=9ms /data/file");
    let think = plan.jobs[0].think.unwrap();
    assert_eq!((think.io_ns, think.blocks), (9_000_000, 0));
}

#[test]
fn missing_files_are_made() {
    let plan = of_file("[a]\ndirectory=/data\nsize=10m\nnrfiles=3\nbs=1m\nrw=randread\nunlink=1");
    let third = (10 << 20) / 3;
    let sizes: Vec<u64> = plan.targets.iter().filter_map(|t| t.create_size).collect();
    assert_eq!(sizes, [third, third, third]);
    assert_eq!(plan.targets[1].path, "/data/a.0.1");
    assert_eq!(plan.targets[1].within.as_deref(), Some("/data"));
    assert!(plan.targets.iter().all(|t| t.fill && t.unlink && !t.written));
    let written = of_file("[a]\nfilename=new\nsize=1m\nrw=write");
    assert!(written.targets[0].written && !written.targets[0].fill);
}

#[test]
fn files_stay_within_the_directory_that_any_job_names() {
    let within = |text: &str| {
        let plan = of_file(text);
        assert_eq!(plan.targets.len(), 1);
        plan.targets[0].within.clone()
    };
    let (free, bound) = ("[a]\nrw=read\nfilename=/data/file", "[b]\nrw=read\nfilename=file");
    assert_eq!(within(free), None);
    assert_eq!(within(&format!("{free}\n{bound}\ndirectory=/data/")).as_deref(), Some("/data"));
    assert_eq!(within(&format!("{bound}\ndirectory=/data\n{free}")).as_deref(), Some("/data"));
    assert_eq!(within("[a]\nrw=read\nfilename=x\nsize=1m\ndirectory=/").as_deref(), Some("/"));
    let spec = job("[a]\nrw=read\ndirectory=/a\nfilename=b/c\nsize=1m\n\
        [b]\nrw=read\ndirectory=/a/b\nfilename=c\nsize=1m")
    .unwrap();
    let error = plan(&spec, &facts(&spec)).unwrap_err().to_string();
    assert!(error.contains("/a/b/c") && error.contains("directory=/a/b"), "{error}");
}

#[test]
fn sizes_of_files() {
    let plan = of_file("[a]\nnrfiles=3\nfilesize=1m-2m\nbs=64k\nrw=randread");
    assert!(
        plan.targets.iter().all(|t| t.create_size.is_some_and(|n| n >> 20 == 1 || n == 2 << 20))
    );
    // Beside filesize, size is the most that is moved.
    let plan = of_file("[a]\nnrfiles=3\nfilesize=1m\nsize=2m\nrw=read");
    assert_eq!(plan.jobs[0].until.bytes, Some(2 << 20));
    // An existing file of a size within the range stays as it is.
    let plan = of_command("--rw=read --filesize=1m-1g --offset=1m /data/file");
    assert_eq!(plan.jobs[0].regions, [Region { target: 0, start: 1 << 20, len: 63 << 20 }]);
    assert_eq!(plan.targets[0].create_size, None);
}

#[test]
fn appended_parts_begin_at_the_end_of_the_file() {
    let append = "--rw=write --file_append=1 --overwrite=/data/file --size=1m";
    let parts = |line: &str| {
        let plan = of_command(&format!("{append} {line} /data/file"));
        let starts = plan.jobs.iter().map(|job| job.regions[0].start >> 20);
        (starts.collect::<Vec<_>>(), plan.targets[0].create_size.map(|size| size >> 20))
    };
    assert_eq!(parts("--offset=1m"), (vec![64], Some(65)));
    assert_eq!(parts("--filesize=70m"), (vec![64], Some(70)));
    // As in fio, a clone sees what the layout for the one before it added.
    assert_eq!(parts("--numjobs=2"), (vec![64, 65], Some(66)));
    assert_eq!(parts("--numjobs=2 --fallocate=none"), (vec![64, 64], Some(65)));
    assert_eq!(parts("--numjobs=2 --create_on_open=1"), (vec![64, 64], Some(65)));
    assert_eq!(parts("--numjobs=2 --fallocate=none --overwrite=1"), (vec![64, 65], Some(66)));
    let plan = of_command("--rw=write --file_append=1 --size=1m new");
    assert_eq!(plan.jobs[0].regions[0], Region { target: 0, start: 0, len: 1 << 20 });
    let plan = of_command("--rw=read --file_append=1 --size=1m /dev/disk");
    assert_eq!(plan.jobs[0].regions[0], Region { target: 0, start: 0, len: 1 << 20 });
}

#[test]
fn passes_of_loops_are_apart_where_files_are_removed_between_them() {
    let passes = |rw: &str, line: &str| {
        let line = format!("--rw={rw} --unlink_each_loop=1 --loops=3 {line} /data/own");
        of_command(&line).jobs[0].fresh_passes
    };
    assert_eq!(passes("write", ""), 3);
    // As in fio, the passes of time_based are one.
    assert_eq!(passes("read", "--time_based --runtime=1"), 1);
    assert_eq!(of_command("--rw=write --loops=3 /data/own").jobs[0].fresh_passes, 1);
}

#[test]
fn files_of_others_grow_only_with_permission() {
    let plan = of_command("--rw=write --size=4m /data/own");
    assert_eq!(plan.targets[0].create_size, Some(4 << 20));
    let plan = of_command("--rw=write --size=128m --overwrite=/data/file /data/file");
    assert_eq!(plan.targets[0].create_size, Some(128 << 20));
}

#[test]
fn a_remainder_shorter_than_a_block_is_skipped() {
    let plan = of_command("--rw=read --bs=4k --size=10k --loops=3 /data/file");
    assert_eq!(plan.jobs[0].until.bytes, Some(3 * 8192));
}

#[test]
fn the_last_block_is_transferred_whole() {
    let bytes = |line: &str| {
        let plan = of_command(&format!("--rw=randrw {line} /data/file"));
        plan.jobs[0].until.bytes.unwrap()
    };
    assert_eq!(bytes("--bs=4k --io_size=10000"), 12_288);
    assert_eq!(bytes("--bs=4k --io_size=1 --loops=2"), 8192);
    assert_eq!(bytes("--bs=4k --io_size=1% --size=1m"), 12_288);
    // Sizes that differ: what all of them are multiples of.
    assert_eq!(bytes("--bs=6k,4k --io_size=10000"), 10_240);
    assert_eq!(bytes("--bssplit=4k/50:10k/50 --size=999424"), 999_424);
}

#[test]
fn end_conditions() {
    let until = |line: &str| of_command(&format!("--rw=read {line} /data/file")).jobs[0].until;
    assert_eq!(until("--runtime=10 --time_based").bytes, None);
    assert_eq!(until("--runtime=1m").runtime_ns, Some(60_000_000_000));
    assert_eq!(until("--io_size=1g").bytes, Some(1 << 30));
    assert_eq!(until("--io_size=50%").bytes, Some(32 << 20));
    assert_eq!(until("--number_ios=7 --loops=2").ios, Some(14));
    assert_eq!(until("--create_only").ios, Some(0));
    assert_eq!(until("--ramp_time=500ms").ramp_ns, 500_000_000);
}

#[test]
fn global_sections_apply_to_later_jobs() {
    let text = "[global]\nfilename=/dev/disk\nbs=8k\n[a]\n[global]\nbs=16k\n[b]\nstonewall\n\
                [c]\nbssplit=4k/50:64k/50\nrw=randwrite:8\n";
    let plan = of_file(text);
    let sizes: Vec<u64> = plan.jobs.iter().map(|j| j.access.block_sizes.read.max()).collect();
    assert_eq!(sizes, [8192, 16384, 65536]);
    let waves: Vec<(u32, u32)> = plan.jobs.iter().map(|j| (j.wave, j.group)).collect();
    assert_eq!(waves, [(0, 0), (1, 1), (1, 1)]);
    let split = BlockSizes::Split(vec![(4096, 50), (65536, 50)]);
    assert_eq!(plan.jobs[2].access.block_sizes.write, split);
    let run = Order::Random { distribution: Distribution::EachOnce, run: 8 };
    assert_eq!(plan.jobs[2].access.order, run);
    assert_eq!(plan.global_options.get("bs").map(String::as_str), Some("16k"));
    assert_eq!(plan.jobs[2].options.get("rw").map(String::as_str), Some("randwrite:8"));
    assert!(plan.targets[0].written);
}

#[test]
fn engines() {
    let engine = |line: &str| of_command(&format!("--rw=read {line} /data/file")).jobs[0].clone();
    let Engine::IoUring(ring) = engine("").engine else { panic!("io_uring is the default") };
    assert!(ring.fixed_buffers && ring.registered_files && !ring.vectored && !ring.iopoll);
    let Engine::IoUring(ring) =
        engine("--hipri --direct --sqthread_poll --sqthread_poll_cpu=1").engine
    else {
        panic!("io_uring is the default")
    };
    assert!(ring.iopoll);
    assert_eq!(ring.sqpoll, Some(SqPoll { cpu: Some(1), idle_ms: None }));
    let job = engine("--ioengine=pvsync2 --hipri --iodepth=8");
    let flags = Psync::VectoredFlags { hipri: true, nowait: false };
    assert_eq!((job.engine, job.depth), (Engine::Psync(flags), 1));
    let null = of_command("--ioengine=null --rw=randread --size=1g");
    let batch = engine("--iodepth=4 --iodepth_batch=9 --iodepth_batch_complete_min=9").batch;
    assert_eq!((batch.submit_max, batch.complete_min, batch.complete_max), (Some(4), 4, None));
    assert!(null.jobs[0].regions.is_empty() && null.targets.is_empty());
    assert_eq!(null.jobs[0].until.bytes, Some(1 << 30));
}

/// As fio 3.33 counts them.
#[test]
fn an_engine_without_a_target_takes_offsets_from_the_sizes_of_files() {
    let of = |line: &str| {
        let job = of_command(&format!("--name=a --ioengine=null --bs=4k --rw=read {line}"))
            .jobs
            .remove(0);
        let regions: Vec<_> =
            job.virtual_regions.iter().map(|region| (region.start, region.len)).collect();
        (regions, job.until.bytes)
    };
    const M: u64 = 1 << 20;
    assert_eq!(of("--size=1m"), (vec![(0, M)], Some(M)));
    assert_eq!(of("--filesize=1m"), (vec![(0, M)], Some(M)));
    assert_eq!(of("--size=1m --offset=4m"), (vec![(4 * M, M)], Some(M)));
    assert_eq!(of("--size=1m --filesize=64k"), (vec![(0, 64 << 10)], Some(64 << 10)));
    assert_eq!(of("--size=1m --nrfiles=2"), (vec![(0, M / 2); 2], Some(M)));
    assert_eq!(of("--size=1m --io_size=2m"), (vec![(0, M)], Some(2 * M)));
    assert_eq!(of("--size=1m --bs=3k"), (vec![(0, M)], Some(341 * 3072)));
    assert_eq!(of("--number_ios=9"), (vec![], None));
}

#[test]
fn a_job_that_skips_blocks_ends_where_fio_ends_it() {
    let ios = |line: &str| of_command(line).jobs[0].until.bytes.unwrap() / 4096;
    let disk = |line: &str| ios(&format!("--name=a --bs=4k --filename=/dev/disk {line}"));
    assert_eq!(disk("--rw=read:4k --size=4m"), 512);
    assert_eq!(disk("--rw=read:4k --size=4m --loops=2"), 1024);
    assert_eq!(disk("--rw=read:4k --size=4m --io_size=6m"), 1536);
    assert_eq!(disk("--rw=read:4k --size=4m --offset=4m"), 512);
    assert_eq!(disk("--rw=read:3k --size=7k"), 1);
    assert_eq!(disk("--rw=read:-8k --size=4m"), 1024);
    // A skip to the very end of a file, or beyond it, begins again.
    let file = |line: &str| ios(&format!("--name=a --bs=4k --filename=/data/new {line}"));
    assert_eq!(file("--rw=read:4k --size=4m"), 1024);
    assert_eq!(file("--rw=read:3k --size=4m"), 585);
    assert_eq!(ios("--name=a --rw=read:512k --bs=1m --size=128m") / 256, 85);
    assert_eq!(ios("--name=a --rw=read:512k --bs=1m --size=8m --nrfiles=2") / 256, 6);
}

#[test]
fn a_write_has_the_size_of_its_trim() {
    let job = &of_command("--rw=trimwrite --bs=4k,4k,8k /data/own").jobs[0];
    assert_eq!(job.access.block_sizes.write, BlockSizes::Fixed(8192));
}

#[test]
fn flags_byte_order_marks_and_percent_signs() {
    let job =
        &of_file("\u{feff}[a]\nrw=randrw\nsize=1m\nthread=4\nnorandommap=3\nrwmixread=70%").jobs[0];
    assert_eq!(job.access.mix, Mix::ReadWrite { read_percent: 70 });
    let uniform = Order::Random { distribution: Distribution::Uniform, run: 1 };
    assert_eq!(job.access.order, uniform);
}

#[test]
fn a_requested_depth_that_the_engine_cannot_do_is_kept() {
    let depths = |line: &str| {
        let job = of_command(&format!("--rw=read {line} /data/file")).jobs.remove(0);
        (job.depth, job.requested_depth)
    };
    assert_eq!(depths("--ioengine=psync --iodepth=32"), (1, Some(32)));
    assert_eq!(depths("--ioengine=psync"), (1, None));
    assert_eq!(depths("--iodepth=32"), (32, None));
}

#[test]
fn defaults_that_a_job_file_overrides_are_noted() {
    let notes = |file: &str, line: &str| {
        let args: Vec<String> = ["job", line].map(String::from).into();
        fathom_spec::parse(&args, &crate::common::OneFile(file)).unwrap().notes.join("\n")
    };
    let all = "[global]\nruntime=2\n[a]\nsize=1m\n[b]\nsize=1m";
    assert!(
        notes(all, "--runtime=1").contains("--runtime=1 has no effect"),
        "{}",
        notes(all, "--runtime=1")
    );
    assert!(!notes("[a]\nsize=1m\n[b]\nsize=1m\nruntime=2", "--runtime=1").contains("no effect"));
}

#[test]
fn rates_and_think_time() {
    let plan = of_command(
        "--rw=randrw --rate_iops=1000,500 --thinktime=2ms --thinktime_blocks=4 /data/file",
    );
    let job = &plan.jobs[0];
    assert_eq!((job.rate.read, job.rate.write), (Some(Rate::Iops(1000)), Some(Rate::Iops(500))));
    assert_eq!(job.think.map(|t| (t.time_ns, t.blocks)), Some((2_000_000, 4)));
}

#[test]
fn notes_report_differences() {
    let notes = |line: &str| of_command(line).notes.join("\n");
    assert!(notes("--rw=read --ioengine=psync --iodepth=32 /data/file").contains("depth 1"));
    assert!(notes("--rw=read --bs=4kib /data/file").contains("powers of 1000"));
    let other_clock = notes("--rw=read --clocksource=gettimeofday /data/file");
    assert!(other_clock.contains("clocksource=gettimeofday has no effect"), "{other_clock}");
    assert_eq!(notes("--rw=read --clocksource=clock_gettime /data/file"), "");
    let text = "[global]\nhipri=1\nfilename=/data/file\n[a]\nioengine=libaio";
    assert!(of_file(text).notes.join("\n").contains("hipri has no effect with ioengine=libaio"));
}

#[test]
fn fio_s_command_line() {
    let spec =
        command("--bs=8k --name=a --rw=read --name=b --rw=write --sync=1 --filename=x").unwrap();
    assert_eq!(spec.jobs.len(), 2);
    assert!(
        spec.jobs.iter().all(|job| job.plan.access.block_sizes.read == BlockSizes::Fixed(8192))
    );
    assert_eq!(spec.jobs[1].plan.sync_io, SyncIo::Sync);
    let spec = command("-name a -rw read -direct 1 -size 1m").unwrap();
    assert!(spec.jobs[0].direct);
}

#[test]
fn options_of_the_run() {
    let line = "--output-format=json,normal --append-terse --eta=never --status-interval=5 \
                --erase=/dev/disk@S1 --overwrite=a --overwrite=./1 --overwrite=1 --rw=write a";
    let spec = command(line).unwrap();
    assert_eq!(spec.output.formats, [Format::Json, Format::Normal, Format::Terse]);
    let formats = |line: &str| command(&format!("{line} --rw=read a")).unwrap().output.formats;
    assert_eq!(formats("--append-terse --output-format=json"), [Format::Json, Format::Terse]);
    assert_eq!(formats("--append-terse --minimal"), [Format::Terse]);
    assert_eq!(formats("--append-terse"), [Format::Normal, Format::Terse]);
    for version in 2..=5 {
        let line = format!("--minimal --terse-version={version} --rw=read a");
        assert_eq!(command(&line).unwrap().output.terse_version, Some(version));
    }
    assert_eq!(spec.output.status_interval_ns, Some(5_000_000_000));
    assert_eq!(spec.permissions.erase, ["/dev/disk@S1"]);
    assert_eq!(spec.permissions.overwrite, ["a", "./1"]);
    assert!(spec.jobs[0].target.fill);
}

#[test]
fn exitall_and_exit_what() {
    let of = |keys: &str| {
        let job = of_file(&format!("[a]\nrw=read\nfilename=/data/file\n{keys}")).jobs.remove(0);
        (job.exitall, job.exit_what)
    };
    assert_eq!(of(""), (false, ExitWhat::Group));
    assert_eq!(of("exitall"), (true, ExitWhat::Group));
    assert_eq!(of("exitall\nexit_what=stonewall"), (true, ExitWhat::Stonewall));
    assert_eq!(of("exitall\nexit_what=all"), (true, ExitWhat::All));
}

#[test]
fn buffer_contents() {
    let of = |keys: &str| of_command(&format!("--rw=write --size=1m {keys} x")).jobs.remove(0);
    let buffers = |keys: &str| of(keys).buffers;
    // Contents change a little for every write unless that is switched off.
    assert!(!buffers("").repeat && !buffers("--scramble_buffers=1").refill);
    assert!(buffers("--scramble_buffers=0").repeat);
    let half = buffers("--buffer_compress_percentage=50 --buffer_pattern=0x11");
    assert_eq!(
        (half.fill, half.compress_percent, half.refill),
        (Fill::Pattern(vec![0x11]), 50, true)
    );
    let all = buffers("--buffer_compress_percentage=50 --buffer_compress_percentage=100");
    assert_eq!((all.fill, all.compress_percent), (Fill::Zero, 0));
}

#[test]
fn section_selects_sections() {
    let args: Vec<String> = ["--section=b", "job"].map(String::from).into();
    let text = "[global]\nbs=8k\n[a]\nrw=write\n[b]\nrw=read\n";
    let spec = fathom_spec::parse(&args, &crate::common::OneFile(text)).unwrap();
    let names: Vec<&str> = spec.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["b"]);
    let args: Vec<String> = ["--section=bb", "job"].map(String::from).into();
    let error = fathom_spec::parse(&args, &crate::common::OneFile(text)).unwrap_err().to_string();
    assert!(error.contains("did you mean 'b'"), "{error}");
}

/// A plan for trims of /dev/disk, which can discard, and /data/file, on this kernel.
fn trims(kernel: &str, paths: &str) -> Plan {
    let spec = command(&format!("--rw=trim --bs=4k --iodepth=8 {paths}")).unwrap();
    let mut facts = facts(&spec);
    facts.host.kernel = kernel.to_string();
    let devices = facts.targets.iter_mut().filter_map(|target| target.device.as_mut());
    devices.for_each(|device| device.discard_max_bytes = Some(1 << 30));
    plan(&spec, &facts).unwrap()
}

#[test]
fn discards_of_devices_before_linux_6_12_run_one_at_a_time() {
    let psync = Engine::Psync(Psync::Plain);
    for paths in ["/dev/disk", "/data/file /dev/disk"] {
        let plan = trims("6.11.5-generic", paths);
        assert_eq!((&plan.jobs[0].engine, plan.jobs[0].depth), (&psync, 1), "{paths}");
        assert!(plan.notes[0].contains("discards run one at a time"), "{:?}", plan.notes);
    }
    for (kernel, paths) in [("6.12.0", "/dev/disk"), ("6.1.0", "/data/file")] {
        let plan = trims(kernel, paths);
        let job = &plan.jobs[0];
        assert_eq!((job.engine.uring().is_some(), job.depth), (true, 8), "{kernel} {paths}");
        assert_eq!(plan.notes, [""; 0]);
    }
}

#[test]
fn synchronous_engines_run_at_depth_1() {
    let plan = of_command("--rw=read --ioengine=psync --iodepth=8 --iodepth_batch=4 /data/file");
    let job = &plan.jobs[0];
    assert_eq!((job.depth, job.batch.submit_max), (1, Some(1)));
    assert!(plan.notes[0].contains("runs at queue depth 1"), "{:?}", plan.notes);
    for engine in ["mmap", "splice"] {
        let plan = of_command(&format!("--rw=read --ioengine={engine} --iodepth=8 /data/file"));
        assert_eq!((plan.jobs[0].engine.name(), plan.jobs[0].depth), (engine, 1));
    }
}

#[test]
fn vsync_and_posixaio_queue_as_many_as_requested() {
    for engine in ["vsync", "posixaio"] {
        let keys = format!("--rw=read --ioengine={engine} --iodepth=8");
        let plan = of_command(&format!("{keys} /data/file"));
        assert_eq!((plan.jobs[0].engine.name(), plan.jobs[0].depth), (engine, 8));
        let warns = plan.notes.iter().any(|note| note.contains("one at a time"));
        assert_eq!(warns, engine == "posixaio", "{:?}", plan.notes);
        let two = of_command(&format!("{keys} --name=a --filename=/data/a:/data/b --size=1m"));
        assert_eq!(two.notes, [""; 0]);
    }
}
