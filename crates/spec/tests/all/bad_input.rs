//! Each wrong request gives one error that names the thing and says what to do.

use crate::common::{command, facts, job};
use fathom_spec::plan;

/// Asserts that the message holds all of `parts`.
fn says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "'{part}' is not in: {error}");
    }
}

fn refuses_file(text: &str, parts: &[&str]) {
    says(&job(text).unwrap_err().to_string(), parts);
}

fn refuses_command(line: &str, parts: &[&str]) {
    says(&command(line).unwrap_err().to_string(), parts);
}

fn refuses_plan(line: &str, parts: &[&str]) {
    let spec = command(line).unwrap();
    says(&plan(&spec, &facts(&spec)).unwrap_err().to_string(), parts);
}

#[test]
fn misspelt_and_unknown_keys() {
    refuses_file("[a]\nrw=read\niodeth=4", &["job:3", "iodeth", "did you mean 'iodepth'"]);
    refuses_command("--iodeth=4 x", &["iodeth", "iodepth"]);
    refuses_command("--out-put=x", &["did you mean '--output'"]);
    refuses_file("[a]\nfoobarbaz=1", &["job:2", "foobarbaz", "--help"]);
}

#[test]
fn arguments_that_cannot_be_files() {
    let of = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|a| (*a).to_string()).collect();
        fathom_spec::parse(&args, &crate::common::OneFile("")).unwrap_err().to_string()
    };
    says(&of(&[""]), &["an argument is empty", "leave it out"]);
    says(&of(&["--rw=read", ""]), &["an argument is empty"]);
}

#[test]
fn refused_keys_name_the_reason() {
    refuses_file("[a]\nexec_prerun=reboot", &["exec_prerun", "never runs commands"]);
    refuses_file("[a]\nallow_mounted_write=1", &["never writes to a device in use", "--erase="]);
    refuses_file("[a]\nverify=crc32c", &["verify", "not supported yet"]);
    refuses_file("[a]\nerase=/dev/disk", &["command line", "--erase="]);
    refuses_file("[a]\noverwrite=/data/file", &["overwrite", "command line"]);
    refuses_file("[a]\nhugepage-size=2m", &["hugepage-size", "iomem=mmaphuge"]);
    refuses_command("--client=host x", &["--client", "many machines"]);
    refuses_command("--server", &["--server", "many machines"]);
    refuses_command("--idle-prof=system x", &["--idle-prof"]);
    refuses_command("--rw=trimwrite x", &["trimwrite", "a job of trims"]);
    refuses_command("--rw=read --ioengine=posixaio x", &["posixaio", "libaio"]);
    refuses_command("--rw=read --ioengine=iouring x", &["use io_uring"]);
}

#[test]
fn values_out_of_range() {
    refuses_command("--iodepth=40000 x", &["iodepth", "40000", "32768"]);
    refuses_command("--iodepth=0 x", &["0 is not within 1"]);
    refuses_command("--numjobs=5000 x", &["numjobs", "4096"]);
    refuses_command("--bs=0 x", &["bs", "0"]);
    refuses_command("--bs=4g x", &["bs", "2 GiB"]);
    refuses_command("--bs=4q x", &["'q'"]);
    refuses_command("--rwmixread=101 x", &["rwmixread", "100"]);
    refuses_command("--runtime=1fortnight x", &["fortnight", "us, ms, s"]);
    refuses_command("--direct=yes x", &["direct", "neither 0 nor 1"]);
    refuses_command("--bs", &["--bs needs a value"]);
    refuses_file("[a]\nbs=\n", &["'bs=' has no value"]);
    refuses_file("[a]\nbs\n", &["'bs' needs a value"]);
    refuses_plan("--rw=read --numjobs=4096 --nrfiles=30 --size=1g", &["RLIMIT_NOFILE", "numjobs"]);
}

#[test]
fn conflicting_keys() {
    refuses_command("--bs=4k --bssplit=4k/50:8k/50 x", &["bs and bssplit"]);
    refuses_command("--direct=1 --buffered=1 x", &["direct and buffered"]);
    refuses_command("--rw=rw --rwmixread=70 --rwmixwrite=70 x", &["add up to 140"]);
    refuses_command("--record=a --no-record --rw=read x", &["contradict"]);
    refuses_command("--output-format=json,json+ --rw=read x", &["json+ holds all"]);
    refuses_plan("--rw=read --rate=1m --rate_iops=100 /data/file", &["rate and rate_iops"]);
    refuses_plan("--rw=read --ioengine=psync --fixedbufs /data/file", &["fixedbufs", "psync"]);
    refuses_plan("--rw=read --hipri /data/file", &["hipri", "direct=1"]);
    for flush in ["fsync=8", "fdatasync=1", "end_fsync", "fsync_on_close"] {
        let line = format!("--rw=randrw --direct=1 --hipri --{flush} /data/file");
        refuses_plan(&line, &["hipri", "flush", flush.split('=').next().unwrap(), "pvsync2"]);
    }
    refuses_plan("--rw=randtrim --direct=1 --hipri /data/file", &["hipri", "trim"]);
    refuses_plan("--rw=read --sqthread_poll_cpu=1 /data/file", &["without sqthread_poll"]);
    refuses_plan("--rw=read --time_based /data/file", &["time_based needs a runtime"]);
}

#[test]
fn two_outputs_to_one_file() {
    refuses_command("--output=a --output=b --rw=read x", &["given twice", "a", "b"]);
    refuses_command("--output=r --record=r/ --rw=read x", &["both name r"]);
    let args = ["--output=job".to_string(), "job".to_string()];
    let error = fathom_spec::parse(&args, &crate::common::OneFile("[a]")).unwrap_err();
    says(&error.to_string(), &["--output=job is a job file"]);
    refuses_command("--output=x --rw=read x", &["--output=x is a target"]);
}

#[test]
fn ambiguous_command_lines() {
    refuses_command("--rw=read a.fio", &["a.fio", "job file or a target"]);
    refuses_command("--rw=read --filename=a b", &["--filename", "'b'"]);
    refuses_command("--name=a --rw=read /dev/disk", &["is a device, not a job file"]);
    refuses_command("nothing", &["cannot read job file nothing"]);
    refuses_command("", &["no jobs"]);
    refuses_command("--section=c job", &["no [section]"]);
    refuses_command("- -", &["only once"]);
}

#[test]
fn targets_that_cannot_be() {
    refuses_plan("--rw=read /data/none", &["/data/none does not exist", "size="]);
    refuses_plan("--rw=read --size=1m /dev/none", &["/dev/none", "no files under /dev"]);
    refuses_plan("--rw=read --size=1m /x/../dev/none", &["no files under /dev"]);
    refuses_plan("--rw=read --size=1m /dev/shm/new", &["no files under /dev"]);
    refuses_plan("--rw=read --size=1m --allow_file_create=0 n", &["allow_file_create=0"]);
    refuses_plan("--rw=read --size=1m --readonly n", &["--readonly"]);
    refuses_plan("--rw=read /data", &["is a directory", "directory=/data"]);
    refuses_plan("--rw=read /data/empty", &["is empty"]);
    refuses_plan("--rw=read /dev/null", &["neither a file nor a block device"]);
    refuses_plan("--rw=read --offset=1g /dev/disk", &["beyond the end"]);
    refuses_plan("--rw=read --size=2g /dev/disk", &["/dev/disk is 1 GiB"]);
    refuses_plan("--rw=trim /dev/disk", &["cannot discard"]);
    refuses_plan("--rw=read /dev/ng0n1", &["io_uring_cmd"]);
    refuses_plan("--rw=read --ioengine=io_uring_cmd /dev/disk", &["/dev/ng0n1"]);
    refuses_plan("--rw=read --size=30g /data/new", &["20 GiB are free"]);
    refuses_plan("--rw=read --size=1g /data/file", &["shorter", "--overwrite=/data/file"]);
}

#[test]
fn blocks_that_do_not_fit() {
    refuses_plan("--rw=read --bs=128m /data/file", &["128 MiB is larger than the 64 MiB"]);
    refuses_plan("--rw=read --direct=1 --bs=512 /dev/disk", &["multiples of 4096", "bs=4096"]);
    refuses_plan("--rw=read --direct=1 --bs=1000 /data/file", &["bs=1024"]);
    refuses_plan(
        "--rw=randread --direct=1 --bssplit=4k/50:4608/50 /dev/disk",
        &["4608", "bs=8192"],
    );
    refuses_plan("--rw=read --direct=1 --offset=512 /dev/disk", &["offset=4096"]);
    refuses_plan("--rw=randread --direct=1 --ba=512 /dev/disk", &["blockalign=4096"]);
    refuses_plan("--rw=read --direct=1 --size=1m --bs=1k --offset=100 new", &["offset=512"]);
    refuses_plan("--rw=read --direct=1 /tmpfs/file", &["cannot do direct I/O"]);
    refuses_plan("--rw=read --ioengine=io_uring_cmd --bs=512 /dev/ng0n1", &["passthrough", "4096"]);
}

#[test]
fn more_than_the_machine_has() {
    refuses_plan("--rw=read --bs=1m --iodepth=16384 /data/file", &["16 GiB", "8 GiB", "iodepth"]);
    refuses_plan("--rw=read --cpus_allowed=2-5 /data/file", &["processor 4", "0-3"]);
    refuses_plan("--rw=read --sqthread_poll --sqthread_poll_cpu=9 /data/file", &["processor 9"]);
}

#[test]
fn readonly_refuses_writers() {
    for rw in ["write", "randrw", "trim"] {
        let text = format!("[a]\nrw={rw}\nfilename=/data/file");
        let args = ["--readonly".to_string(), "job".to_string()];
        let error =
            fathom_spec::parse(&args, &crate::common::OneFile(&text)).unwrap_err().to_string();
        says(&error, &["job:1", "'a'", "--readonly"]);
    }
}

#[test]
fn files_that_leave_their_directory() {
    for name in ["../passwd", "/etc/passwd"] {
        let spec = job(&format!("[a]\ndirectory=/data\nfilename={name}\nsize=1m")).unwrap();
        says(&spec.target_paths().unwrap_err().to_string(), &[name, "leaves /data"]);
    }
}
