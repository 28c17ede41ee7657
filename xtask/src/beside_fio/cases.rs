//! The jobs, chosen to cover the keys.

/// What must be the same.
pub enum Same {
    /// I/Os and bytes of each direction.
    All,
    /// All bytes, and about the I/Os and bytes of each direction.
    Bytes,
    /// The bytes of each direction; the number of I/Os is left to chance.
    Total,
    /// About the I/Os and bytes of each direction, and the runtime.
    Rate,
    /// The runtime.
    Runtime,
    /// The exit status alone.
    Exit,
}

/// A job.
pub struct Case {
    /// Its keys, without their dashes.
    pub keys: &'static str,
    pub same: Same,
    /// The text of docs/fio-compat.md about a difference.
    pub documented: Option<&'static str>,
}

const fn case(keys: &'static str, same: Same) -> Case {
    Case { keys, same, documented: None }
}

pub const CASES: &[Case] = &[
    case("name=a filename=data rw=read bs=4k", Same::All),
    case("name=a filename=data rw=write bs=64k", Same::All),
    case("name=a filename=data rw=randread bs=4k", Same::All),
    case("name=a filename=data rw=randwrite bs=8k", Same::All),
    case("name=a filename=data rw=randread bs=4k norandommap", Same::All),
    case("name=a filename=data rw=rw bs=4k", Same::Bytes),
    case("name=a filename=data rw=randrw bs=4k rwmixread=70", Same::Bytes),
    case("name=a filename=data rw=randrw bs=4k rwmixread=70 rwmixwrite=40", Same::Bytes),
    case("name=a filename=data rw=read bs=4k number_ios=7", Same::All),
    case("name=a filename=data rw=randread bs=4k number_ios=10 numjobs=3", Same::All),
    case("name=a filename=data rw=read bs=4k size=1m", Same::All),
    case("name=a filename=data rw=read bs=4k size=25% offset=50%", Same::All),
    case(
        "name=a filename=data rw=read bs=4k size=1m offset=1m offset_increment=1m numjobs=3",
        Same::All,
    ),
    case("name=a filename=data rw=read bs=4k io_size=6m", Same::All),
    case("name=a filename=data rw=randread bs=4k io_size=1m", Same::All),
    case("name=a filename=data rw=read bs=4k loops=3", Same::All),
    case("name=a filename=data rw=read bs=4k loops=0", Same::All),
    case("name=a filename=data rw=read:4k bs=4k", Same::All),
    case("name=a filename=data rw=randread:8 bs=4k", Same::All),
    case("name=a filename=data rw=read bs=6k", Same::All),
    case("name=a filename=data rw=read bs=1Mi", Same::All),
    case("name=a filename=data rw=read bs=4kib", Same::All),
    case("name=a filename=data rw=read bsrange=4k-16k", Same::Bytes),
    case("name=a filename=data rw=randread bsrange=4k-16k", Same::Bytes),
    // Sizes and collisions, and so the number of I/Os, depend on the seed.
    case("name=a filename=data rw=randread bssplit=4k/50:64k/50", Same::Total),
    case("name=a filename=data rw=randread bssplit=4k/30:16k/68", Same::Bytes),
    case("name=a filename=data rw=read bssplit=4k-8k/50:64k/50", Same::Total),
    case("name=a filename=data rw=randread bs=4k percentage_random=50", Same::All),
    case("name=a filename=data rw=randread bs=4k random_distribution=zipf:1.2", Same::All),
    case("name=a filename=data rw=randread bs=4k ioengine=libaio direct=1 iodepth=8", Same::All),
    case(
        "name=a filename=data rw=randwrite bs=4k ioengine=libaio direct=1 iodepth=8 serialize_overlap=1 norandommap",
        Same::All,
    ),
    case("name=a filename=data rw=read bs=4k ioengine=sync", Same::All),
    case("name=a filename=data rw=read bs=4k ioengine=pvsync", Same::All),
    case("name=a filename=data rw=read bs=4k ioengine=pvsync2", Same::All),
    case("name=a filename=data rw=read bs=4k ioengine=vsync", Same::All),
    case("name=a filename=data rw=randwrite bs=4k ioengine=vsync fsync=64", Same::All),
    Case {
        keys: "name=a filename=data rw=write bs=4k ioengine=vsync iodepth=16 iodepth_batch=8",
        same: Same::All,
        documented: Some("fio loses the completions of some batches"),
    },
    case("name=a filename=data rw=read bs=4k ioengine=mmap", Same::All),
    case("name=a filename=data rw=randwrite bs=4k ioengine=mmap fsync=64", Same::All),
    case("name=a filename=data rw=randrw bs=4k ioengine=mmap direct=1", Same::Bytes),
    case(
        "name=a filename=data rw=randread bs=16k ioengine=mmap loops=2 fadvise_hint=random",
        Same::All,
    ),
    case("name=a filename=data rw=read bs=128k ioengine=splice", Same::All),
    case("name=a filename=data rw=randwrite bs=4k ioengine=splice end_fsync=1", Same::All),
    case("name=a filename=data rw=randread bs=4k ioengine=posixaio iodepth=16", Same::All),
    case(
        "name=a nrfiles=4 size=4m rw=write bs=16k ioengine=posixaio iodepth=8 fdatasync=16",
        Same::All,
    ),
    case("name=a filename=data rw=randrw bs=4k ioengine=posixaio iodepth=4 direct=1", Same::Bytes),
    case("name=a ioengine=filecreate nrfiles=20 filesize=4k rw=write", Same::All),
    case("name=a ioengine=filecreate nrfiles=20 filesize=4k unlink=1 numjobs=2", Same::All),
    case("name=a ioengine=filestat nrfiles=20 filesize=4k", Same::All),
    case("name=a ioengine=filestat nrfiles=20 filesize=4k stat_type=lstat loops=3", Same::All),
    case("name=a ioengine=filestat filename=data size=4k stat_type=statx", Same::All),
    case("name=a ioengine=filedelete nrfiles=20 filesize=4k rw=write", Same::All),
    case("name=a ioengine=null size=64m rw=randrw bs=4k", Same::Bytes),
    case("name=a ioengine=null size=4m rw=trimwrite bs=4k", Same::All),
    case("name=a ioengine=null size=4m rw=randtrimwrite bs=16k number_ios=100", Same::All),
    case("name=a filename=data rw=randread:4 bs=4k rw_sequencer=identical", Same::All),
    case(
        "name=a filename=data rw=randread bs=4k random_distribution=zoned_abs:60/1m:40/3m norandommap",
        Same::All,
    ),
    case("name=a filename=data rw=randread bs=4k random_distribution=normal:10:0.3", Same::All),
    case("name=a filename=data rw=randread bs=4k pre_read=1 lockmem=1m", Same::All),
    case("name=a filename=data rw=read bs=1m max_latency=1us", Same::Exit),
    case("name=a filename=data rw=read bs=1m max_latency=1000s", Same::All),
    case("name=a ioengine=null size=1g rw=write bs=1m numjobs=4", Same::All),
    case("name=a nrfiles=4 size=4m rw=read bs=4k", Same::All),
    case("name=a nrfiles=5 size=4m rw=write bs=4k openfiles=2", Same::All),
    case("name=a nrfiles=4 size=4m rw=randread bs=4k file_service_type=random", Same::Bytes),
    case("name=a filesize=1m nrfiles=3 rw=write bs=4k", Same::All),
    case("name=a size=2m rw=write bs=4k end_fsync=1", Same::All),
    case("name=a size=2m rw=write bs=4k fsync=16", Same::All),
    case("name=a size=2m rw=write bs=4k fdatasync=8", Same::All),
    case("name=a size=2m rw=write bs=4k fsync_on_close=1 unlink=1", Same::All),
    case("name=a size=1m rw=write bs=4k create_on_open=1 fallocate=none", Same::All),
    case("name=a size=1m rw=write bs=4k sync=dsync refill_buffers=1", Same::All),
    case("name=a size=2m rw=write bs=4k create_only=1", Same::All),
    case("name=a filename=data rw=write bs=4k size=1m file_append=1 numjobs=2", Same::All),
    case("name=a size=1m rw=write bs=4k unlink_each_loop=1 loops=3 unlink=1", Same::All),
    case("name=a size=1m rw=write bs=4k ioengine=falloc unlink_each_loop=1 loops=3", Same::All),
    case("name=a size=1m rw=write bs=4k stats=0 name=b size=1m rw=write bs=8k", Same::All),
    case("name=a filename=data rw=read bs=4k*2 size=1m+1m", Same::All),
    case("name=a filename=data rw=randread size=1m bssplit=4k/60:2m/10:8k/30", Same::Total),
    case(
        "name=a filename=data rw=read bs=4k name=b filename=data stonewall rw=randread bs=16k",
        Same::All,
    ),
    case("name=a filename=data rw=read bs=4k time_based runtime=1", Same::Runtime),
    case("name=a filename=data rw=randread bs=4k time_based runtime=2 ramp_time=1", Same::Runtime),
    case("name=a filename=data rw=read bs=4k rate_iops=200", Same::Rate),
    case("name=a filename=data rw=read bs=16k rate=2m", Same::Rate),
    case("name=a filename=data rw=read bs=64k thinktime=10000 thinktime_blocks=0", Same::Rate),
    case("name=a filename=data rw=read bs=64k startdelay=1", Same::All),
    case(
        "name=a ioengine=null size=1g rw=read bs=4k flow=1 time_based runtime=1 name=b ioengine=null size=1g rw=write bs=4k flow=3 time_based runtime=1",
        Same::Runtime,
    ),
    case(
        "name=a filename=data rw=read bs=4k verify=0 do_verify=0 zonemode=none pre_read=0 fadvise_hint=0",
        Same::All,
    ),
    case("name=a filename=data rw=read bs=4k exitall_on_error=1 write_hint=none", Same::All),
    case(
        "name=a filename=data rw=read bs=4k gtod_reduce=1 direct=0 buffered=1 invalidate=0",
        Same::All,
    ),
    case("name=a rw=read size=1m allow_file_create=0 filename=none", Same::Exit),
    case("name=a filename=data rw=raed", Same::Exit),
    case("name=a filename=data rw=read nosuchkey=1", Same::Exit),
    case(
        "name=a filename=data rw=read bs=4k rate_iops_min=1000000000 time_based runtime=4",
        Same::Exit,
    ),
];
