//! Each invalid request yields an error that names the problem and a remedy.

use crate::common::{command, facts, job};
use fathom_spec::plan;

/// Asserts that the message contains all of `parts`.
fn contains(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "'{part}' is not in: {error}");
    }
}

fn refuses_file(text: &str, parts: &[&str]) {
    contains(&job(text).unwrap_err().to_string(), parts);
}

fn refuses_command(line: &str, parts: &[&str]) {
    contains(&command(line).unwrap_err().to_string(), parts);
}

fn refuses_plan(line: &str, parts: &[&str]) {
    let spec = command(line).unwrap();
    contains(&plan(&spec, &facts(&spec)).unwrap_err().to_string(), parts);
}

#[test]
fn misspelled_and_unknown_keys() {
    refuses_file("[a]\nrw=read\niodeth=4", &["job:3", "iodeth", "did you mean 'iodepth'"]);
    refuses_command("--iodeth=4 x", &["iodeth", "iodepth"]);
    refuses_command("--out-put=x", &["did you mean '--output'"]);
    refuses_file("[a]\nfoobarbaz=1", &["job:2", "foobarbaz", "--help"]);
}

#[test]
fn empty_arguments() {
    let of = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|a| (*a).to_string()).collect();
        fathom_spec::parse(&args, &crate::common::OneFile("")).unwrap_err().to_string()
    };
    contains(&of(&[""]), &["empty argument", "remove it"]);
    contains(&of(&["--rw=read", ""]), &["empty argument"]);
}

#[test]
fn refused_keys_name_the_reason() {
    refuses_file("[a]\nexec_prerun=reboot", &["exec_prerun", "never runs commands"]);
    refuses_file("[a]\nallow_mounted_write=1", &["never writes to a device in use", "--erase="]);
    refuses_file("[a]\nverify_mode=compare", &["verify_mode", "not supported yet"]);
    refuses_file("[a]\nerase=/dev/disk", &["command line", "--erase="]);
    refuses_file("[a]\noverwrite=/data/file", &["overwrite", "command line"]);
    refuses_file("[a]\nhugepage-size=1g", &["hugepage-size", "use 2m"]);
    refuses_file("[a]\nmem_align=8k", &["mem_align", "4096 or less"]);
    refuses_command("--client=host x", &["--client", "start it with mpiexec or srun"]);
    refuses_command("--server", &["--server", "no server", "many-machines.md"]);
    refuses_command("--rw=read --ioengine=windowsaio x", &["windowsaio", "libaio"]);
    refuses_command("--rw=read --ioengine=iouring x", &["use io_uring"]);
    for engine in [
        "pmemblk",
        "spdk_bdev",
        "/opt/spdk/build/fio/spdk_bdev",
        "librpma_apm_client",
        "fusion-aw-sync",
    ] {
        let name = engine.rsplit('/').next().unwrap();
        let refused = format!("fio's engine '{name}' is not supported");
        refuses_command(&format!("--rw=read --ioengine={engine} x"), &[&refused]);
    }
    for (key, engine) in [("program", "exec"), ("pingpong", "a network"), ("https", "http")] {
        refuses_file(&format!("[a]\n{key}=1"), &[key, "belongs to", engine, "not supported"]);
    }
    refuses_file("[a]\nflow=-8", &["negative", "fio before 3.23", "flow=1"]);
}

#[test]
fn values_out_of_range() {
    refuses_command("--iodepth=40000 x", &["iodepth", "40000", "32768"]);
    refuses_command("--iodepth=0 x", &["0 is out of range; use 1 to"]);
    refuses_command("--numjobs=5000 x", &["numjobs", "4096"]);
    refuses_command("--bs=0 x", &["bs", "0"]);
    refuses_command("--bs=4g x", &["bs", "use less than 4g"]);
    refuses_plan("--rw=read --bs=2g /data/file", &["bs", "2 GiB", "use 1g or less"]);
    refuses_command("--bs=4q x", &["'q'"]);
    refuses_command("--rwmixread=101 x", &["rwmixread", "100"]);
    refuses_command("--runtime=1fortnight x", &["fortnight", "us, ms, s"]);
    refuses_command("--direct=2 x", &["direct", "use 0 or 1"]);
    refuses_command("--bs=4k-512k x", &["bsrange=4k-512k", "bs=4k,512k"]);
    refuses_command("--iodepth=70% x", &["'70%' is a percentage"]);
    let zoned = "--rw=randread --random_distribution=zoned_abs=60/2m:40/2m x";
    refuses_command(zoned, &["':' follows the kind", "use zoned_abs:60/2m:40/2m"]);
    refuses_plan(
        "--rw=read --bs=1m --size=1% /data/file",
        &["1 MiB", "655 KiB that size=1% of /data/file"],
    );
    refuses_command("--direct=yes x", &["direct", "use 0 or 1"]);
    refuses_command("--bs", &["--bs needs a value"]);
    refuses_file("[a]\nbs=\n", &["'bs=' has no value"]);
    refuses_file("[a]\nbs\n", &["'bs' needs a value"]);
    refuses_plan("--rw=read --numjobs=4096 --nrfiles=30 --size=1g", &["RLIMIT_NOFILE", "numjobs"]);
}

#[test]
fn conflicting_keys() {
    refuses_command("--record=a --no-record --rw=read x", &["conflict"]);
    refuses_command("--output-format=json,json+ --rw=read x", &["use json+"]);
    refuses_plan("--rw=read --rate=1m --rate_iops=100 /data/file", &["rate and rate_iops"]);
    refuses_plan("--rw=read --ioengine=psync --fixedbufs /data/file", &["fixedbufs", "psync"]);
    refuses_plan("--rw=read --hipri /data/file", &["hipri", "direct=1"]);
    refuses_plan("--rw=read --direct=1 --hybrid_iopoll /data/file", &["hipri=1"]);
    for flush in ["fsync=8", "fdatasync=1", "end_fsync", "fsync_on_close"] {
        let line = format!("--rw=randrw --direct=1 --hipri --{flush} /data/file");
        refuses_plan(&line, &["hipri", "flush", flush.split('=').next().unwrap(), "pvsync2"]);
    }
    refuses_plan("--rw=randtrim --direct=1 --hipri /data/file", &["hipri", "trim"]);
    refuses_plan("--rw=read --sqthread_poll_cpu=1 /data/file", &["without sqthread_poll"]);
}

#[test]
fn two_outputs_to_one_file() {
    refuses_command("--output=a --output=b --rw=read x", &["given as both a and b"]);
    refuses_command("--output=r --record=r/ --rw=read x", &["both name r"]);
    let args = ["--output=job".to_string(), "job".to_string()];
    let error = fathom_spec::parse(&args, &crate::common::OneFile("[a]")).unwrap_err();
    contains(&error.to_string(), &["--output=job is a job file"]);
    refuses_command("--output=x --rw=read x", &["--output=x is a target"]);
}

#[test]
fn ambiguous_command_lines() {
    refuses_command("--rw=read a.fio x", &["a.fio", "is ambiguous"]);
    refuses_command("--rw=read a.fio", &["cannot read job file a.fio"]);
    refuses_command("--rw=read --filename=a b", &["--filename", "'b'"]);
    refuses_command("--name=a --rw=read /dev/disk", &["is a device, not a job file"]);
    refuses_command("nothing", &["cannot read job file nothing"]);
    refuses_command("", &["no jobs"]);
    for text in ["", "# nothing", "[global]\nrw=read"] {
        refuses_file(text, &["no jobs in job"]);
    }
    refuses_command("--section=c job", &["unknown section 'c'"]);
    refuses_command("- -", &["is given twice"]);
}

#[test]
fn invalid_targets() {
    refuses_plan("--rw=read /data/none", &["/data/none does not exist", "size="]);
    refuses_plan("--rw=read --size=1m /dev/none", &["/dev/none", "no files under /dev"]);
    refuses_plan("--rw=read --size=1m /x/../dev/none", &["no files under /dev"]);
    refuses_plan("--rw=read --size=1m /dev/shm/new", &["no files under /dev"]);
    refuses_plan(
        "--name=a --rw=read --size=1m --filename=/dev/disk/by-path/pci-0000:06:00.0",
        &["/dev/disk/by-path/pci-0000 does not exist", "split at ':'", "write '\\:'"],
    );
    refuses_plan("--name=a --rw=read --filename=/data/none:/data/file", &["split at ':'"]);
    refuses_plan("--rw=read --size=1m --allow_file_create=0 n", &["allow_file_create=0"]);
    refuses_plan("--rw=read --size=1m --readonly n", &["--readonly"]);
    refuses_plan("--rw=read /data", &["is a directory", "directory=/data"]);
    refuses_plan("--rw=read /data/empty", &["is empty"]);
    refuses_plan("--rw=write --file_append=1 /data/own", &["/data/own", "set size"]);
    refuses_plan("--rw=write --file_append=1 --size=1m /data/file", &["--overwrite=/data/file"]);
    refuses_plan(
        "--rw=write --file_append=1 --size=1m --ioengine=mmap a",
        &["does not support file_append"],
    );
    refuses_plan(
        "--rw=randrw --unlink_each_loop=1 --loops=2 /data/own",
        &["unlink_each_loop leaves nothing"],
    );
    refuses_plan("--rw=read /dev/null", &["neither a file nor a block device"]);
    refuses_plan("--rw=read --offset=1g /dev/disk", &["beyond the end"]);
    refuses_plan("--rw=read --size=2g /dev/disk", &["/dev/disk is 1 GiB"]);
    refuses_plan("--rw=trim /dev/disk", &["does not support discard"]);
    refuses_plan("--rw=read /dev/ng0n1", &["io_uring_cmd"]);
    refuses_plan("--rw=read --ioengine=io_uring_cmd /dev/disk", &["/dev/ng0n1"]);
    let bsg = r"--ioengine=io_uring_cmd --cmd_type=bsg --filename=/dev/bsg/0\:0\:0\:0 --erase=/dev/bsg/0:0:0:0";
    refuses_plan("--rw=read --ioengine=io_uring_cmd --cmd_type=bsg /dev/sg0", &["bsg device"]);
    refuses_plan(r"--rw=read --filename=/dev/bsg/0\:0\:0\:0", &["cmd_type=bsg"]);
    refuses_plan(&format!("{bsg} --rw=write --write_mode=zeroes"), &["write or verify"]);
    let timed = "--rw=write --verify=md5 --verify_only=1 --time_based --runtime=1 /data/file";
    refuses_plan(timed, &["remove time_based"]);
    refuses_plan(&format!("{bsg} --rw=trim --num_range=2"), &["one range at a time"]);
    refuses_plan(&format!("{bsg} --rw=write --write_mode=verify --writefua=1"), &["VERIFY has no"]);
    refuses_plan("--rw=read /dev/sg0", &["SCSI generic device", "ioengine=sg"]);
    for path in ["/dev/disk", "/dev/ng0n1", "/data/file"] {
        refuses_plan(&format!("--rw=read --ioengine=sg {path}"), &["/dev/sda", path, "whole"]);
    }
    let sg = "--ioengine=sg --filename=/dev/sda --rw=write";
    refuses_plan(&format!("{sg} --bs=100"), &["passthrough", "512"]);
    refuses_plan(&format!("{sg} --sg_write_mode=write_stream"), &["stream_id"]);
    refuses_plan(&format!("{sg} --sg_write_mode=same --writefua=1"), &["writefua", "remove one"]);
    refuses_plan("--ioengine=sg --filename=/dev/sda --pre_read=1", &["does not support pre_read"]);
    refuses_plan("--rw=write --sg_write_mode=same /data/own", &["does not support sg_write_mode"]);
    refuses_plan("--rw=read --size=30g /data/new", &["20 GiB are free"]);
    refuses_plan("--rw=read --size=1g /data/file", &["shorter", "--overwrite=/data/file"]);
}

#[test]
fn distributions_beyond_the_target() {
    let random = "--rw=randread --bs=1m /data/file --random_distribution";
    refuses_plan(
        &format!("{random}=sequence:1,64"),
        &["block 64 of 1 MiB", "64 MiB of /data/file"],
    );
    refuses_plan(&format!("{random}=zoned_abs:60/1m:40/64m"), &["65 MiB", "64 MiB of /data/file"]);
    refuses_command(&format!("{random}=sequence:1,-2"), &["invalid block '-2'"]);
    refuses_command(&format!("{random}=sequence:"), &["sequence:2,0,1"]);
    refuses_command(&format!("{random}=zoned_abs:60/1m:30/1m"), &["90%"]);
    refuses_command(&format!("{random}=normal:10:1.5"), &["invalid center", "0 to 1"]);
    refuses_command(&format!("{random}=zoned:50/50:50/50,100/100"), &["one job per direction"]);
}

#[test]
fn trims_that_are_written_or_have_ranges() {
    let own = "--rw=trimwrite --filename=/data/own";
    refuses_plan(&format!("{own} --rate_iops=100"), &["remove rate"]);
    let ranges = "--ioengine=io_uring_cmd --filename=/dev/ng0n1 --num_range=8";
    refuses_plan(&format!("{ranges} --rw=trimwrite"), &["num_range", "one range"]);
    refuses_plan(&format!("{ranges} --rw=trim --bs=512m"), &["num_range", "4 GiB"]);
    refuses_plan(&format!("{ranges} --rw=trim --serialize_overlap=1"), &["conflict"]);
    refuses_plan("--rw=randread --num_range=8 /data/file", &["io_uring", "num_range"]);
    refuses_command("--write_mode=write/60:zeroes/30 x", &["90%"]);
    refuses_command("--write_mode=write/60:zeroes x", &["'zeroes' has no percentage"]);
    refuses_plan("--rw=read --pre_read=1 --direct=1 /data/file", &["pre_read", "bypasses"]);
}

#[test]
fn block_sizes_and_alignment() {
    refuses_plan("--rw=read --bs=128m /data/file", &["128 MiB is larger than the 64 MiB"]);
    refuses_plan("--rw=read --direct=1 --bs=512 /dev/disk", &["multiples of 4096", "bs=4096"]);
    refuses_plan("--rw=read --direct=1 --bs=1000 /data/file", &["bs=1024"]);
    refuses_plan(
        "--rw=randread --direct=1 --bssplit=4k/50:4608/50 /dev/disk",
        &["bssplit of 4608 bytes", "use 8192"],
    );
    refuses_plan(
        "--rw=randread --direct=1 --bssplit=2/50:44k/50 /dev/disk",
        &["bssplit of 2 bytes", "2k is 2048"],
    );
    refuses_plan("--rw=read --direct=1 --bsrange=512-4k /dev/disk", &["bsrange of 512", "4096"]);
    refuses_plan("--rw=read --direct=1 --offset=512 /dev/disk", &["offset=4096"]);
    refuses_plan("--rw=randread --direct=1 --ba=512 /dev/disk", &["blockalign=4096"]);
    refuses_plan("--rw=read --direct=1 --size=1m --bs=1k --offset=100 new", &["offset=512"]);
    refuses_plan("--rw=read --direct=1 /tmpfs/file", &["does not support direct I/O"]);
    refuses_plan("--rw=read --ioengine=io_uring_cmd --bs=512 /dev/ng0n1", &["passthrough", "4096"]);
}

#[test]
fn limits_of_the_machine() {
    refuses_plan("--rw=read --bs=1m --iodepth=16384 /data/file", &["16 GiB", "8 GiB", "iodepth"]);
    // 8176 MiB of buffers alone would fit, but not together with requests and ring.
    let all = "--rw=read --bs=511k --iodepth=16384 /data/file";
    refuses_plan(all, &["1 worker needs", "8 GiB", "iodepth"]);
    refuses_plan("--rw=read --cpus_allowed=2-5 /data/file", &["CPU 4", "0-3"]);
    refuses_plan("--rw=read --sqthread_poll --sqthread_poll_cpu=9 /data/file", &["CPU 9"]);
}

#[test]
fn address_space_is_limited() {
    let spec = command("--rw=read --iodepth=64 --bs=64k --numjobs=200 /data/file").unwrap();
    let mut facts = facts(&spec);
    facts.host.address_space_available_bytes = Some(1 << 30);
    let error = plan(&spec, &facts).unwrap_err().to_string();
    contains(&error, &["200 workers need", "address space", "RLIMIT_AS", "1 GiB", "ulimit -v"]);
    facts.host.address_space_available_bytes = Some(1 << 40);
    assert!(plan(&spec, &facts).is_ok());
}

#[test]
fn memory_that_lockmem_needs_is_named() {
    let spec = command("--rw=read --lockmem=9g /data/file").unwrap();
    let error = plan(&spec, &facts(&spec)).unwrap_err().to_string();
    contains(&error, &["1 worker needs 9", "9 GiB of it for lockmem", "8 GiB", "lower lockmem"]);
    let spec = command("--rw=read --iodepth=4096 --bs=4m /data/file").unwrap();
    let error = plan(&spec, &facts(&spec)).unwrap_err().to_string();
    contains(&error, &["16", "8 GiB", "lower iodepth"]);
    assert!(!error.contains("lockmem"), "{error}");
}

#[test]
fn steady_state_needs_whole_random_writes() {
    let job = "--sprandom=1 --bs=4k --filename=/data/own";
    refuses_plan(&format!("{job} --rw=randread"), &["rw=randwrite"]);
    refuses_plan(&format!("{job} --rw=write"), &["rw=randwrite"]);
    refuses_plan(&format!("{job} --rw=randwrite --bsrange=4k-8k"), &["one size"]);
    refuses_plan(&format!("{job} --rw=randwrite --ba=8k"), &["blockalign"]);
    refuses_plan(&format!("{job} --rw=randwrite:8"), &["follows randwrite"]);
    refuses_plan(&format!("{job} --rw=randwrite --numjobs=2"), &["remove numjobs"]);
    refuses_plan(&format!("{job} --rw=randwrite --spr_num_regions=1000"), &["use fewer"]);
    refuses_plan(&format!("{job} --rw=randwrite --spr_cs=64k"), &["spr_cs", "use fewer"]);
    refuses_command("--spr_op=1.5 x", &["spr_op", "between 0 and 1"]);
}

#[test]
fn readonly_refuses_writers() {
    for rw in ["write", "randrw", "trim"] {
        let text = format!("[a]\nrw={rw}\nfilename=/data/file");
        let args = ["--readonly".to_string(), "job".to_string()];
        let error =
            fathom_spec::parse(&args, &crate::common::OneFile(&text)).unwrap_err().to_string();
        contains(&error, &["job:1", "'a'", "--readonly"]);
    }
}

#[test]
fn files_outside_their_directory() {
    for name in ["../passwd", "/../passwd"] {
        let spec = job(&format!("[a]\ndirectory=/data\nfilename={name}\nsize=1m")).unwrap();
        contains(&spec.target_paths().unwrap_err().to_string(), &[name, "is outside /data"]);
    }
}
