//! What fio accepts and fathom used to refuse.

use crate::common::{OneFile, command, facts, job};
use fathom_model::plan::{
    Advice, BlockSizes, DataPlacement, Directive, Distribution, Donor, Engine, Fallocate, Flow,
    JobPlan, MemoryPolicy, Mix, Order, PlacementSelect, Plan, Psync, Region, ScsiCommands,
    ScsiWrite, SteadyState, WriteMode,
};
use fathom_spec::{check, parse, plan};

fn planned(line: &str) -> Plan {
    let spec = command(line).unwrap();
    plan(&spec, &facts(&spec)).unwrap()
}

fn args(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_string).collect()
}

#[test]
fn values_that_turn_a_feature_off() {
    let keys = "verify=0 verify=none do_verify=0 verify_fatal=0 verify_state_save=0 zonemode=none \
                pre_read=0 fadvise_hint=0 fdp=0 atomic=0 uncached=0 serialize_overlap=0 flow=0 \
                latency_target=0 max_latency=0 fill_device=0 allow_mounted_write=0 lockfile=none \
                unlink_each_loop=0 cmdprio_percentage=0 trim_percentage=0 stats=1 ss_dur=0";
    for key in keys.split_whitespace() {
        let text = format!("[global]\n{key}\n[a]\nrw=read\nfilename=/data/file");
        let spec = job(&text).unwrap_or_else(|error| panic!("{key}: {error}"));
        let plan = plan(&spec, &facts(&spec)).unwrap();
        assert!(plan.jobs[0].options.get("rw").is_some_and(|rw| rw == "read"), "{key}");
    }
    let lock = job("[a]\nrw=read\nlockfile=exclusive").unwrap_err().to_string();
    assert!(lock.contains("at the same time") && lock.contains("a file of its own"), "{lock}");
    for key in ["lockfile=exclusive", "verify_mode=compare"] {
        let error = job(&format!("[a]\nrw=read\n{key}")).unwrap_err().to_string();
        assert!(error.starts_with("job:3: ") && error.contains("is refused"), "{error}");
    }
}

#[test]
fn numbers_end_where_fio_stops_reading_them() {
    let text = "[a]\nfilename=/data/own\nrw=write\niodepth=128*1\nblocksize=,4k/15:64k:85,\ntime_based\nruntime=40+30";
    let spec = job(text).unwrap();
    let said: Vec<&str> =
        spec.notes.iter().filter_map(|note| note.split(": as in fio").next()).collect();
    assert_eq!(
        said[..3],
        ["iodepth=128*1", "bs=,4k/15:64k:85,", "runtime=40+30"],
        "{:?}",
        spec.notes
    );
    let plan = plan(&spec, &facts(&spec)).unwrap();
    let job = &plan.jobs[0];
    assert_eq!((job.depth, job.until.runtime_ns), (128, Some(40_000_000_000)));
    assert_eq!(job.access.block_sizes.write, BlockSizes::Fixed(4096));
    let split = planned("--rw=randwrite --bssplit=4k/95:8k/5. /data/own");
    let split = &split.jobs[0].access.block_sizes.write;
    assert_eq!(*split, BlockSizes::Split(vec![(4096, 95), (8192, 5)]));
}

#[test]
fn more_than_all_of_a_device_is_all_of_it() {
    let spec = command("--rw=write --size=200% /dev/disk").unwrap();
    assert!(spec.notes[0].contains("size=200%: as in fio, a pass ends"), "{:?}", spec.notes);
    let region = Region { target: 0, start: 1 << 20, len: (1 << 30) - (1 << 20) };
    let whole = planned("--rw=write --size=200% --offset=1m /dev/disk");
    assert_eq!(whole.jobs[0].regions, [region]);
    // A file of nearly 2^64 bytes, or random blocks without an end.
    for line in
        ["--rw=read --size=200% /data/file", "--rw=randread --norandommap --size=200% /dev/disk"]
    {
        let spec = command(line).unwrap();
        let error = plan(&spec, &facts(&spec)).unwrap_err().to_string();
        assert!(error.contains("use size=100%"), "{error}");
    }
}

#[test]
fn a_file_without_jobs_may_stand_beside_others_and_be_parsed() {
    for text in ["", "# nothing", "[global]\nrw=read"] {
        assert!(parse(&args("--parse-only job"), &OneFile(text)).is_ok());
        let spec =
            parse(&args("--name=a --rw=read --filename=/data/file job"), &OneFile(text)).unwrap();
        assert_eq!(spec.jobs.len(), 1);
    }
}

#[test]
fn block_sizes_beyond_the_region_are_never_drawn() {
    let plan = planned("--rw=randread --size=25% --bssplit=4k/50:16m/20:32m/30 /data/file");
    let sizes = BlockSizes::Split(vec![(16 << 20, 20), (4096, 80)]);
    assert_eq!(plan.jobs[0].access.block_sizes.read, sizes);
    assert!(plan.notes.iter().any(|note| note.contains("above the 16 MiB")), "{:?}", plan.notes);
}

#[test]
fn all_problems_at_once_with_their_lines() {
    let text = "[global]\niodeth=4\nbs=4q\n[a]\nverify=md6\nrw=raed\n[b]\nrw=read\nioengine=rbd\n";
    let problems = job(text).unwrap_err();
    let lines: Vec<usize> =
        problems.errors.iter().map(|error| error.place.as_ref().unwrap().line).collect();
    assert_eq!(lines, [2, 3, 5, 6, 9], "{problems}");
    let error = command("--iodeth=4 --bs=4q --rw=raed x").unwrap_err();
    assert_eq!(error.errors.len(), 3, "{error}");
    let text = "[a]\nrw=read\nfilename=/data/none\nioengine=psync\nhipri\nfixedbufs\n\
                [b]\nrw=read\nfilename=/data\nsqthread_poll_idle=1\n";
    let spec = job(text).unwrap();
    let error = plan(&spec, &facts(&spec)).unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(lines, ["job:5:", "job:6:", "job:10:", "job:1:", "job:7:"], "{error}");
    for (lines, last) in [
        (100, "unknown key"),
        (101, "and 1 other"),
        (500, "and 400 others"),
        (5000, "and at least 900 others"),
    ] {
        let problems = job(&format!("[a]\n{}", "x=1\n".repeat(lines))).unwrap_err();
        assert!(problems.errors.len() <= 101, "{problems}");
        assert!(problems.errors.last().unwrap().message.starts_with(last), "{problems}");
    }
}

#[test]
fn a_request_is_checked_without_its_targets() {
    let many = "[a]\nrw=randwrite\nnrfiles=31250\nnumjobs=16\nsize=1t\ndirectory=/none\n";
    assert!(check(&job(many).unwrap()).is_ok());
    let error =
        check(&job("[a]\nrw=read\nsqthread_poll_cpu=1\nfilename=/none").unwrap()).unwrap_err();
    assert!(error.to_string().starts_with("job:3: "), "{error}");
    assert_eq!(command("--parse-only").unwrap().jobs, []);
}

#[test]
fn what_fio_accepts_with_less_effect_gets_a_note() {
    let of = |keys: &str| {
        let spec = job(&format!("[a]\n{keys}\n")).unwrap();
        (spec.jobs[0].clone(), spec.notes)
    };
    let (timed, notes) = of("time_based");
    assert!(!timed.time_based && notes[0].contains("ignored without runtime"), "{notes:?}");
    let (split, notes) = of("bssplit=4k/50:8k/50\nbs=64k\nbsrange=1k-2k");
    assert_eq!(split.plan.access.block_sizes.read, BlockSizes::Split(vec![(4096, 50), (8192, 50)]));
    let overrides = ["bsrange overrides bs", "bssplit overrides bs", "bssplit overrides bsrange"];
    assert_eq!(notes, overrides.map(|note| format!("{note}, as in fio")));
    // A job's own key overrides one of [global] on purpose.
    let spec = job("[global]\nbssplit=4k/50:8k/50\n[a]\nbs=64k\n").unwrap();
    assert_eq!(
        (spec.jobs[0].plan.access.block_sizes.read.clone(), spec.notes),
        (BlockSizes::Fixed(65536), vec![])
    );
    let (_, notes) = of("userspace_reap\nmem_align=4k\nhugepage-size=2m");
    assert!(notes[0].starts_with("no effect: userspace_reap; "), "{notes:?}");
}

#[test]
fn priorities_of_single_ios() {
    let of = |keys: &str| {
        let plan = planned(&format!("--rw=randrw --ioengine=libaio --filename=/data/own {keys}"));
        let rules = plan.jobs[0].priorities.clone();
        rules
            .map(|_, rules| rules.iter().map(|r| (r.block, r.percent, r.value)).collect::<Vec<_>>())
    };
    let half = of("--cmdprio_percentage=20,0 --cmdprio=3");
    assert_eq!((half.read, half.write), (vec![(None, 20, 1 << 13 | 3)], vec![]));
    let split = of("--cmdprio_bssplit=64k/25/1/1:64k/75/3/2/5:1m/0,4k/100 --cmdprio_class=2");
    let (k64, k4) = (Some(65536), Some(4096));
    assert_eq!(split.read, [(k64, 25, 1 << 13 | 1), (k64, 75, 3 << 13 | 5 << 3 | 2)]);
    assert_eq!(split.write, [(k4, 100, 2 << 13)]);
    let notes = command("--rw=read --cmdprio_class=1 x").unwrap().notes;
    assert!(notes[0].contains("no effect without cmdprio_percentage"), "{notes:?}");
    let refused = |keys: &str| {
        let spec = command(&format!("--rw=read --filename=/data/file {keys}")).unwrap();
        plan(&spec, &facts(&spec)).unwrap_err().to_string()
    };
    let both = refused("--cmdprio_percentage=1 --cmdprio_bssplit=4k/50");
    assert!(both.contains("conflict"), "{both}");
    let sum = refused("--cmdprio_bssplit=4k/50/1/0:4k/60/2/0");
    assert!(sum.contains("add up to 110%"), "{sum}");
    assert!(refused("--cmdprio_percentage=1 --ioengine=psync").contains("does not support"));
}

#[test]
fn engines_that_allocate_and_truncate() {
    let refused = |keys: &str| {
        let spec = command(&format!("--filename=/data/own {keys}")).unwrap();
        plan(&spec, &facts(&spec)).unwrap_err().to_string()
    };
    assert!(refused("--rw=randread --ioengine=falloc").contains("falloc does not support read"));
    assert!(refused("--rw=trim --ioengine=ftruncate").contains("ftruncate does not support trim"));
    let plan = planned("--rw=randtrim --ioengine=falloc --filename=/data/own");
    assert_eq!(plan.jobs[0].engine, Engine::Psync(Psync::Allocate));
    assert!(plan.targets[0].trimmed);
    let plan = planned("--rw=write --ioengine=ftruncate --filename=/data/own");
    assert!(plan.targets[0].written && plan.jobs[0].engine == Engine::Psync(Psync::Truncate));
    let several = planned("--rw=read --filename=/data/file --file_service_type=random:16");
    assert_eq!(several.jobs[0].file_service_ios, 16);
}

#[test]
fn placements_of_writes() {
    let keys = "--ioengine=io_uring_cmd --rw=write --filename=/dev/ng0n1";
    let of = |more: &str| match planned(&format!("{keys} {more}")).jobs.remove(0).engine {
        Engine::IoUringCmd(ring) => ring.nvme.placement,
        engine => panic!("{engine:?}"),
    };
    assert_eq!(of("--plids=1"), None);
    assert_eq!(of("--fdp=1"), Some(DataPlacement::default()));
    assert_eq!(of("--fdp=1 --dataplacement=fdp"), of("--data_placement=fdp"));
    let streams = of("--dataplacement=streams --fdp_pli=5,1-3 --fdp_pli_select=random").unwrap();
    assert_eq!((streams.directive, streams.ids), (Directive::Streams, vec![1, 2, 3, 5]));
    assert_eq!(streams.select, PlacementSelect::Random);
    for (more, said) in [
        ("--plids=3-1", "use 1-3"),
        ("--plids=0-200", "at most 128"),
        ("--dp_scheme=x", "dp_scheme: x: No such file"),
    ] {
        let why = command(&format!("{keys} --fdp=1 {more}")).unwrap_err().to_string();
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn a_donor_is_a_target_of_the_run() {
    let keys = "--rw=write --ioengine=e4defrag --name=a --filename=/data/own";
    let plan = planned(&format!("{keys} --donorname=/data/donor"));
    let donor = |in_place| Engine::MoveExtents(Donor { path: "/data/donor".into(), in_place });
    assert_eq!((&plan.jobs[0].engine, plan.jobs[0].regions.len()), (&donor(false), 1));
    let target = &plan.targets[1];
    assert_eq!((target.path.as_str(), target.create_size), ("/data/donor", Some(1 << 20)));
    assert!(target.written && !target.trimmed);
    let keys = "--rw=write --ioengine=e4defrag --name=a --directory=/data --filename=new --size=64k --offset=64k";
    let plan = planned(&format!("{keys} --donorname=donor --inplace=1 --verify=md5"));
    assert_eq!((&plan.jobs[0].engine, &plan.jobs[0].verify), (&donor(true), &None));
    let target = &plan.targets[1];
    assert_eq!((target.create_size, target.within.as_deref()), (Some(128 << 10), Some("/data")));
    assert!(target.trimmed && target.fallocate == Fallocate::Truncate);
    for (keys, what) in [
        ("--rw=write", "set donorname"),
        ("--rw=randrw --donorname=/data/donor", "e4defrag does not support read"),
        ("--rw=write --donorname=/data/empty", "--overwrite=/data/empty"),
        ("--rw=write --donorname=/dev/disk", "/dev/disk is a device"),
    ] {
        let spec = command(&format!("--ioengine=e4defrag --filename=/data/own {keys}")).unwrap();
        let why = fathom_spec::plan(&spec, &facts(&spec)).unwrap_err().to_string();
        assert!(why.contains(what), "{keys}: {why}");
    }
}

#[test]
fn duplicates_among_buffers() {
    let keys = "--rw=write --bs=8k --filename=/data/own --dedupe_percentage=50";
    let plan = planned(keys);
    let dedupe = plan.jobs[0].buffers.dedupe.clone().unwrap();
    assert!(plan.jobs[0].buffers.refill);
    assert_eq!((dedupe.percent, dedupe.unit_bytes, dedupe.working_set), (50, 8192, None));
    let plan = planned(&format!("{keys} --dedupe_mode=working_set --dedupe_global"));
    let dedupe = plan.jobs[0].buffers.dedupe.clone().unwrap();
    // 5% of 128 blocks.
    assert_eq!((dedupe.working_set, dedupe.global), (Some(6), true));
    assert_eq!(
        planned("--rw=read --filename=/data/file --dedupe_percentage=9").jobs[0].buffers.dedupe,
        None
    );
}

#[test]
fn options_beside_a_job_file_are_defaults() {
    let text = "[global]\nbs=8k\n[a]\nrw=read\n[b]\nrw=write\nfilename=/own\n";
    let spec = parse(&args("job --filename=/data/file --bs=16k"), &OneFile(text)).unwrap();
    let of = |n: usize| {
        (spec.jobs[n].filename.as_slice(), spec.jobs[n].plan.access.block_sizes.read.max())
    };
    assert_eq!(of(0), (&["/data/file".to_string()][..], 8192));
    assert_eq!(of(1), (&["/own".to_string()][..], 8192));
    // Any file that begins like a job file is one.
    let spec = parse(&args("--filename=/data/file job"), &OneFile("; first\n[x] # y\n")).unwrap();
    assert_eq!(spec.jobs[0].name, "x");
    let spec = parse(&args("--rw=read job"), &OneFile("data\n[x]\n")).unwrap();
    assert_eq!(spec.jobs[0].filename, ["job"]);
}

#[test]
fn long_options_may_be_abbreviated() {
    let spec =
        command("--name=a --rw=read --number_i=7 --time_b --runt=5 --output-f=json").unwrap();
    let job = &spec.jobs[0];
    assert_eq!((job.until.ios, job.time_based), (Some(7), true));
    assert!(command("--rw=write --eras=/dev/x x").unwrap_err().to_string().contains("unknown"));
    assert!(command("--rw=read --io=7 x").unwrap_err().to_string().contains("unknown"));
}

#[test]
fn of_contradictions_the_last_applies() {
    let of = |keys: &str| {
        let spec = job(&format!("[a]\n{keys}")).unwrap();
        (spec.jobs[0].direct, spec.jobs[0].rwmixread, spec.notes.join(" "))
    };
    let (direct, _, notes) = of("direct=0\nbuffered=0");
    assert!(direct && notes.contains("direct=0 contradicts buffered=0"), "{notes}");
    assert_eq!(of("buffered=0\ndirect=1"), (true, 50, String::new()));
    let (_, read, notes) = of("rwmixread=70\nrwmixwrite=40");
    assert!(read == 60 && notes.contains("the last one applies"), "{notes}");
    let spec = job("[global]\nrwmixread=70\n[a]\nrwmixwrite=40").unwrap();
    assert_eq!((spec.jobs[0].rwmixread, spec.notes.len()), (60, 0));
}

#[test]
fn forms_of_values() {
    let job = planned(
        "--rw=randread --bs=1Mi --loops=0 --thinktime=1 --thinktime_blocks=0 \
                       --ioengine=aio --mem=mmapshared /data/file",
    )
    .jobs
    .remove(0);
    assert_eq!((job.block_max(), job.think.map(|think| think.blocks)), (1 << 20, Some(1)));
    assert_eq!((job.until.bytes, job.engine.name()), (Some(64 << 20), "libaio"));
    let job = planned("--rw=read --filesize=100% --size=1m /dev/disk").jobs.remove(0);
    assert_eq!(job.regions, [Region { target: 0, start: 0, len: 1 << 30 }]);
    assert_eq!(job.until.bytes, Some(1 << 20));
    let spec = command("--rw=trim --bs=2g /dev/disk").unwrap();
    let mut facts = facts(&spec);
    facts.targets[0].size_bytes = 8 << 30;
    facts.targets[0].device.as_mut().unwrap().discard_max_bytes = Some(1 << 30);
    assert_eq!(plan(&spec, &facts).unwrap().jobs[0].block_max(), 2 << 30);
}

#[test]
fn other_engines_are_known() {
    for (name, instead) in [
        ("rbd", "block device"),
        ("spdk", "io_uring_cmd"),
        ("net", "storage I/O only"),
        ("exec", "never runs commands"),
        ("page_fault", "use mmap"),
        ("mtd", "/dev/mtdblockN"),
    ] {
        let error = command(&format!("--rw=read --ioengine={name} x")).unwrap_err().to_string();
        assert!(
            error.contains(&format!("fio's engine '{name}'")) && error.contains(instead),
            "{error}"
        );
    }
    assert!(
        command("--rw=read --ioengine=libaoi x").unwrap_err().to_string().contains("use libaio")
    );
}

#[test]
fn shares_floors_and_hints() {
    let of = |keys: &str| planned(&format!("--rw=randwrite --size=1m {keys} new")).jobs.remove(0);
    assert_eq!(of("--percentage_random=30,60").access.random_percent.write, 60);
    assert_eq!(
        of("--flow=3 --flow_id=2 --flow_sleep=50").flow,
        Some(Flow { id: 2, weight: 3, sleep_ns: 50_000 })
    );
    let floor = of("--rate_min=1m --rate_iops_min=5 --rate_cycle=2000").rate_floor;
    assert_eq!(
        (floor.bytes.write, floor.iops.write, floor.cycle_ns),
        (Some(1 << 20), Some(5), 2_000_000_000)
    );
    assert_eq!(of("").advice, Advice::Random);
    assert_eq!(of("--fadvise_hint=0").advice, Advice::None);
    assert_eq!(of("--numa_mem_policy=bind:0-1").placement.memory, MemoryPolicy::Bind(vec![0, 1]));
    assert!(of("--exitall_on_error").exitall_on_error && of("--openfiles=1").open_files == Some(1));
    // Their values in fio without them.
    assert_eq!(of("--openfiles=0 --offset_align=0").open_files, None);
    let atomic = of("--atomic=1");
    assert!(atomic.direct && atomic.flags.atomic);
    assert!(of("--atomic=1 --direct=0").direct && !of("--atomic=1 --atomic=0").direct);
    assert!(of("--uncached=1").flags.uncached && !of("--uncached=1 --direct=1").flags.uncached);
    assert!(of("--serialize_overlap=1 --iodepth=4").serialize_overlap);
    assert!(!of("--serialize_overlap=1").serialize_overlap);
}

#[test]
fn flags_that_the_engine_does_not_support_have_no_effect() {
    let flags = |global: &str, engine: &str| {
        let text = format!(
            "[global]\n{global}=1\nsize=1m\n[a]\nrw=write\nfilename=new\nioengine={engine}"
        );
        let spec = job(&text).unwrap();
        let flags = plan(&spec, &facts(&spec)).unwrap().jobs[0].flags;
        (flags.atomic, flags.uncached)
    };
    assert_eq!(flags("uncached", "libaio"), (false, false));
    assert_eq!(flags("uncached", "pvsync2"), (false, true));
    assert_eq!(flags("atomic", "libaio"), (true, false));
    assert_eq!(flags("atomic", "psync"), (false, false));
}

#[test]
fn numa_nodes_select_cpus() {
    let spec = |keys: &str| command(&format!("--rw=read {keys} /data/file")).unwrap();
    let cpus = |keys: &str| {
        let spec = spec(keys);
        let mut facts = facts(&spec);
        facts.host.numa_nodes = [(0, vec![0, 1]), (1, vec![2, 3, 4])].into();
        plan(&spec, &facts).map(|plan| plan.jobs[0].placement.cpus.clone())
    };
    assert_eq!(cpus("--numa_cpu_nodes=1").unwrap(), [2, 3]);
    assert_eq!(cpus("--numa_cpu_nodes=!1").unwrap(), [0, 1]);
    assert_eq!(cpus("--numa_cpu_nodes=all").unwrap(), [0; 0]);
    assert_eq!(cpus("--numa_cpu_nodes=1 --cpus_allowed=1-2").unwrap(), [2]);
    assert!(cpus("--numa_cpu_nodes=2").unwrap_err().to_string().contains("no NUMA node 2"));
    assert!(cpus("--numa_mem_policy=bind:3").unwrap_err().to_string().contains("no NUMA node 3"));
}

#[test]
fn no_engine_and_a_depth_is_noted_where_fio_would_differ() {
    let notes = |line: &str| command(line).unwrap().notes.join(" ");
    assert!(notes("--name=a --rw=read --iodepth=8").contains("fio would use psync"));
    assert_eq!(notes("--name=a --rw=read --iodepth=8 --ioengine=io_uring"), "");
    assert_eq!(notes("--name=a --rw=read"), "");
    assert_eq!(notes("--rw=read --iodepth=8 x"), "");
}

#[test]
fn each_byte_of_trimwrite_counts_twice() {
    let plan = planned("--rw=randtrimwrite --filename=/data/own --loops=3 --number_ios=100");
    let job = &plan.jobs[0];
    assert_eq!((job.access.mix, job.until.bytes), (Mix::TrimThenWrite, Some(6 << 20)));
    assert_eq!(job.until.ios, Some(600));
    assert!(plan.targets[0].written && plan.targets[0].trimmed);
}

#[test]
fn a_file_that_is_read_first_stays_cached() {
    let plan = planned("--rw=read --pre_read=1 /data/file");
    assert!(plan.jobs[0].pre_read && !plan.jobs[0].invalidate && !plan.targets[0].invalidate);
}

#[test]
fn orders_of_random_offsets() {
    let order = |keys: &str| {
        let access = planned(&format!("--rw=randread:4 /data/file {keys}")).jobs.remove(0).access;
        let Order::Random { distribution, .. } = access.order else { panic!("{keys}") };
        (distribution, access.repeat_offset)
    };
    let (sequence, repeats) =
        order("--random_distribution=sequence:2,0,1 --random_sequence_stride=1");
    let wanted = Distribution::Sequence { blocks: vec![2, 0, 1], stride: true };
    assert_eq!((sequence, repeats), (wanted, false));
    let (zones, repeats) =
        order("--random_distribution=zoned_abs:60/1m:40/2m --rw_sequencer=identical");
    let Distribution::ZonedAbs(zones) = zones else { panic!("{zones:?}") };
    assert_eq!((zones[1].bytes, zones[1].access_percent, repeats), (2 << 20, 40.0, true));
    let (bare, _) = order("--random_distribution=normal");
    let even = Distribution::Normal { deviation_percent: 100.0 / 12.0, center_percent: 50.0 };
    assert_eq!(bare, even);
    let (normal, _) = order("--random_distribution=normal:10:0.25");
    assert_eq!(normal, Distribution::Normal { deviation_percent: 10.0, center_percent: 25.0 });
    assert_eq!(order("--random_distribution=zipf:1.2:0.5").0, Distribution::Zipf { theta: 1.2 });
}

#[test]
fn scsi_commands_on_a_ring() {
    let scsi = |keys: &str| {
        let path = "/dev/bsg/0:0:0:0";
        let line = format!("--ioengine=io_uring_cmd --cmd_type=bsg --erase={path} {keys}");
        let line = format!("{line} --filename=/dev/bsg/0\\:0\\:0\\:0");
        let Engine::IoUringCmd(ring) = planned(&line).jobs.remove(0).engine else { panic!() };
        ring.scsi.expect("SCSI commands")
    };
    assert_eq!(scsi("--rw=read"), ScsiCommands::default());
    let fua = ScsiCommands { read_fua: true, write_fua: true, ..ScsiCommands::default() };
    assert_eq!(scsi("--rw=randrw --readfua=1 --writefua=1"), fua);
    assert_eq!(scsi("--rw=write --write_mode=verify").write, ScsiWrite::VerifyMedium);
}

#[test]
fn scsi_commands_of_a_job() {
    let scsi = |path: &str, keys: &str| {
        let line = format!("--ioengine=sg --filename={path} --erase={path} {keys}");
        let job = planned(&line).jobs.remove(0);
        assert_eq!(job.depth, 1);
        let Engine::Sg(commands) = job.engine else { panic!() };
        commands
    };
    assert_eq!(scsi("/dev/sda", "--rw=read"), ScsiCommands::default());
    for (name, write) in [
        ("write", ScsiWrite::Write),
        ("verify", ScsiWrite::WriteAndVerify),
        ("same", ScsiWrite::WriteSame),
        ("write_same_ndob", ScsiWrite::WriteSameNdob),
        ("verify_bytchk_00", ScsiWrite::VerifyMedium),
        ("verify_bytchk_01", ScsiWrite::VerifyData),
        ("verify_bytchk_11", ScsiWrite::VerifyBlock),
    ] {
        let keys = format!("--rw=write --bs=512 --sg_write_mode={name}");
        assert_eq!(scsi("/dev/sg0", &keys).write, write, "{name}");
    }
    let keys = "--rw=randwrite --sg_write_mode=write_stream --stream_id=7 --writefua=1 --readfua=1 --hipri=1";
    let all = scsi("/dev/sda", keys);
    let wanted = ScsiCommands {
        write: ScsiWrite::WriteStream,
        read_fua: true,
        write_fua: true,
        hipri: true,
        stream: 7,
    };
    assert_eq!(all, wanted);
}

#[test]
fn an_ssd_is_written_to_its_steady_state() {
    let job = |keys: &str| {
        let line = format!("--rw=randwrite --bs=4k --filename=/data/own --sprandom=1 {keys}");
        planned(&line).jobs.remove(0)
    };
    let steady = |job: &JobPlan| {
        let Order::Random { distribution: Distribution::SteadyState(plan), run: 1 } =
            job.access.order
        else {
            panic!("{:?}", job.access.order)
        };
        plan
    };
    let plain = job("");
    assert_eq!(steady(&plain), SteadyState::default());
    // 1 MiB and 15% more, in whole blocks; io_size has no effect.
    assert_eq!(plain.until.bytes, Some(((1 << 20) * 115 / 100) / 4096 * 4096));
    let all = job("--spr_op=0.21 --spr_num_regions=10 --spr_cs=64k --norandommap=1 --io_size=4k");
    let wanted = SteadyState { regions: 10, over_provisioning: 0.21, cache_bytes: 64 << 10 };
    assert_eq!(steady(&all), wanted);
    assert_eq!(all.until.bytes, Some(((1_u64 << 20) * 121 / 100) / 4096 * 4096));
}

#[test]
fn nvme_commands_of_a_job() {
    let nvme = |keys: &str| {
        let line =
            format!("--ioengine=io_uring_cmd --filename=/dev/ng0n1 --erase=/dev/ng0n1 {keys}");
        let Engine::IoUringCmd(ring) = planned(&line).jobs.remove(0).engine else { panic!() };
        ring.nvme
    };
    let modes = |text: &str| nvme(&format!("--rw=write --write_mode={text}")).write_modes;
    let shares = modes("write/40:zeroes/30:uncor/20:verify/10");
    assert_eq!(shares.iter().map(|share| share.1).collect::<Vec<_>>(), [40, 30, 20, 10]);
    assert_eq!(
        modes("write/50:zeroes/:uncor/").iter().map(|m| m.1).collect::<Vec<_>>(),
        [50, 25, 25]
    );
    assert_eq!(modes("verify"), [(WriteMode::Verify, 100)]);
    let more = nvme("--rw=randtrim --num_range=8 --readfua=1 --writefua=1 --deac=1");
    assert!(more.ranges == 8 && more.read_fua && more.write_fua && more.deallocate);
}
