//! Programs that execute `fio` and decode its JSON: the fields that they read, by the types that they expect.
//!
//! Two of them are not on a package registry. To run their own code as well, name checkouts of it:
//!
//! ```sh
//! apt-get install golang python3-venv
//! KUBESTR=DIR PERFKITBENCHMARKER=DIR cargo test -p fathom --test all -- --ignored decoders::
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{Place, tool};
use crate::fio::script;
use serde_json::Value;
use std::path::Path;

/// kubestr's own jobs, shorter. It passes the file, and the directory of the volume.
const KUBESTR_JOBS: &str = "[global]\nrandrepeat=0\nverify=0\nioengine=libaio\ndirect=0\ngtod_reduce=1\n\
    [job1]\nname=read_iops\nbs=4K\niodepth=64\nsize=2M\nreadwrite=randread\n\
    time_based\nramp_time=100ms\nruntime=1s\n\
    [job2]\nname=write_bw\nbs=128k\niodepth=64\nsize=2M\nreadwrite=randwrite\n\
    time_based\nramp_time=100ms\nruntime=1s\n";

/// The fields of kubestr's Go types. Decoding fails for an integer with a fraction or out of range.
type Fields = &'static [(&'static str, &'static str)];
const KUBESTR_RUN: Fields = &[("string", "fio version|time"), ("int64", "timestamp|timestamp_ms")];
const KUBESTR_GLOBAL: Fields =
    &[("string", "directory|randrepeat|verify|ioengine|direct|gtod_reduce")];
const KUBESTR_OPTIONS: Fields = &[("string", "name|bs|iodepth|size|rw|ramp_time|runtime")];
const KUBESTR_JOB: Fields = &[
    ("string", "jobname"),
    ("int64", "groupid|error|eta|elapsed"),
    ("int32", "job_runtime|ctx|majf|minf|latency_depth|latency_target|latency_window"),
    ("float32", "usr_cpu|sys_cpu|latency_percentile"),
];
const KUBESTR_STATS: Fields = &[
    ("int64", "io_bytes|io_kbytes|bw_bytes|bw|runtime|total_ios|short_ios|drop_ios|bw_min|bw_max"),
    ("int32", "bw_samples|iops_min|iops_max|iops_samples"),
    ("float32", "iops|bw_agg|bw_mean|bw_dev|iops_mean|iops_stddev"),
];
const KUBESTR_LATENCY: Fields = &[("int64", "min|max|N"), ("float32", "mean|stddev")];
const KUBESTR_DEPTH: Fields = &[("float32", "1|2|4|8|16|32|>=64")];
const KUBESTR_BATCH: Fields = &[("float32", "0|4|8|16|32|64|>=64")];
const KUBESTR_DISK: Fields = &[
    ("string", "name"),
    ("int64", "read_ios|write_ios|read_merges|write_merges|read_ticks|write_ticks|in_queue"),
    ("float32", "util"),
];

fn decodes(object: &Value, fields: Fields) {
    for (kind, names) in fields {
        for name in names.split('|') {
            let value = &object[name];
            let fits = match *kind {
                "string" => value.is_string(),
                "int64" => value.is_i64(),
                "int32" => value.as_i64().is_some_and(|value| i32::try_from(value).is_ok()),
                _ => value.as_f64().is_some_and(|value| value.abs() < f64::from(f32::MAX)),
            };
            assert!(fits, "{name}: {value} is no {kind}");
        }
    }
}

fn kubestr_runs(place: &Place) -> Value {
    place.write("jobs.fio", KUBESTR_JOBS);
    let answer =
        script(place, "mkdir volume && fio --directory volume jobs.fio --output-format=json");
    answer.done().json()
}

#[test]
fn kubestr_decodes_the_result() {
    let result = kubestr_runs(&Place::new());
    decodes(&result, KUBESTR_RUN);
    decodes(&result["global options"], KUBESTR_GLOBAL);
    let jobs = result["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 2);
    for (job, dir) in jobs.iter().zip(["read", "write"]) {
        decodes(job, KUBESTR_JOB);
        decodes(&job["job options"], KUBESTR_OPTIONS);
        decodes(&job["iodepth_level"], KUBESTR_DEPTH);
        decodes(&job["iodepth_submit"], KUBESTR_BATCH);
        decodes(&job["iodepth_complete"], KUBESTR_BATCH);
        for dir in ["read", "write", "trim"] {
            decodes(&job[dir], KUBESTR_STATS);
            for latency in ["slat_ns", "clat_ns", "lat_ns"] {
                decodes(&job[dir][latency], KUBESTR_LATENCY);
            }
        }
        // It prints these, also where gtod_reduce is set.
        for name in ["iops", "bw", "iops_max", "iops_mean", "bw_max", "bw_mean"] {
            assert!(job[dir][name].as_f64() > Some(0.0), "{dir} {name}: {}", job[dir]);
        }
        // On a busy machine, nothing may be done in one of its intervals.
        for name in ["iops_min", "bw_min"] {
            assert!(job[dir][name].as_f64() >= Some(0.0), "{dir} {name}: {}", job[dir]);
        }
    }
    for disk in result["disk_util"].as_array().into_iter().flatten() {
        decodes(disk, KUBESTR_DISK);
    }
}

/// The directory in a variable.
fn checkout(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} must name a checkout"))
}

#[test]
#[ignore = "needs Go, and a checkout of kastenhq/kubestr named by KUBESTR"]
fn kubestr_s_own_types_decode_it() {
    let source = checkout("KUBESTR");
    let place = Place::new();
    let result = kubestr_runs(&place);
    place.write("result.json", result.to_string());
    let types = std::fs::read_to_string(Path::new(&source).join("pkg/fio/fio_types.go")).unwrap();
    place.write("types.go", types.replace("package fio", "package main"));
    let main = "package main\nimport (\"encoding/json\"; \"fmt\"; \"os\")\nfunc main() {\n\
                data, _ := os.ReadFile(os.Args[1])\nvar result FioResult\n\
                if err := json.Unmarshal(data, &result); err != nil { panic(err) }\n\
                fmt.Print(result.Print())\n}\n";
    place.write("main.go", main);
    let file = |name: &str| place.path(name).to_str().unwrap().to_string();
    let printed = tool("go", &["run", &file("main.go"), &file("types.go"), &file("result.json")]);
    assert!(printed.contains("read:\n  IOPS=") && printed.contains("write:\n  IOPS="), "{printed}");
    assert!(!printed.contains("min=0 "), "{printed}");
}

const PERFKIT_PERCENTILES: &str =
    "1:5:10:20:25:30:40:50:60:70:75:80:90:95:99:99.5:99.9:99.95:99.99";

fn perfkit_runs(place: &Place) -> Value {
    let jobs = format!(
        "[global]\nfilesize=2m\nfilename=fio_test_file\nioengine=libaio\n\
         percentile_list={PERFKIT_PERCENTILES}\ngroup_reporting=1\n\
         [sequential_write]\noverwrite=0\nrw=write\nblocksize=512k\nsize=2m\niodepth=64\nend_fsync=1\n\
         [random_read_test]\ninvalidate=1\nstonewall\nrw=randread\nblocksize=4k\niodepth=1\nsize=1m\n"
    );
    place.write("fio.job", jobs);
    script(place, "fio --output-format=json --random_generator=tausworthe64 fio.job").done().json()
}

#[test]
fn perfkitbenchmarker_reads_the_result() {
    let result = perfkit_runs(&Place::new());
    assert_eq!(result["global options"]["group_reporting"], "1");
    let jobs = result["jobs"].as_array().unwrap();
    for (job, (name, dir)) in
        jobs.iter().zip([("sequential_write", "write"), ("random_read_test", "read")])
    {
        assert_eq!(job["jobname"], name);
        for other in ["read", "write", "trim"] {
            assert_eq!(job[other]["io_bytes"].as_u64() > Some(0), other == dir, "{name} {other}");
        }
        let stats = &job[dir];
        for field in ["bw", "bw_min", "bw_max", "bw_dev", "bw_agg", "bw_mean", "iops"] {
            assert!(stats[field].is_number(), "{field}: {stats}");
        }
        let latency = &stats["clat_ns"];
        let fields = ["min", "max", "mean", "stddev"].map(|field| &latency[field]);
        assert!(fields.iter().all(|value| value.is_number()), "{latency}");
        for percentile in PERFKIT_PERCENTILES.split(':') {
            let key = format!("{:.6}", percentile.parse::<f64>().unwrap());
            assert!(latency["percentile"][&key].is_u64(), "{key}: {latency}");
        }
    }
}

/// Runs its parser. What drives virtual machines is replaced: the parser needs two names of it.
const PERFKIT: &str = "\
import importlib.util, json, sys, types
source = sys.argv[1]
sys.path.insert(0, source)
import perfkitbenchmarker
for name, values in [('vm_util', {'Retry': lambda **_: lambda f: f}), ('linux_packages', {'INSTALL_DIR': '/opt'})]:
    module = types.ModuleType('perfkitbenchmarker.' + name)
    module.__dict__.update(values)
    sys.modules[module.__name__] = module
    setattr(perfkitbenchmarker, name, module)
path = source + '/perfkitbenchmarker/linux_packages/fio.py'
spec = importlib.util.spec_from_file_location('fio', path)
fio = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fio)
for sample in fio.ParseResults(open(sys.argv[2]).read(), json.load(open(sys.argv[3]))):
    print(sample.metric, sample.value)
";

#[test]
#[ignore = "needs python3-venv, and a checkout of PerfKitBenchmarker named by PERFKITBENCHMARKER"]
fn perfkitbenchmarker_s_own_parser_reads_it() {
    let source = checkout("PERFKITBENCHMARKER");
    let place = Place::new();
    place.write("result.json", perfkit_runs(&place).to_string());
    place.write("parse.py", PERFKIT);
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("perfkitbenchmarker");
    let python = venv.join("bin/python").to_str().unwrap().to_string();
    if !venv.join("bin/pip").exists() {
        tool("python3", &["-m", "venv", venv.to_str().unwrap()]);
        tool(&python, &["-m", "pip", "--quiet", "install", "absl-py", "numpy", "pytz"]);
    }
    let file = |name: &str| place.path(name).to_str().unwrap().to_string();
    let printed =
        tool(&python, &[&file("parse.py"), &source, &file("fio.job"), &file("result.json")]);
    for metric in [
        "sequential_write:write:bandwidth ",
        "random_read_test:read:latency:p99.95 ",
        "random_read_test:read:iops ",
    ] {
        assert!(printed.contains(metric), "{metric}: {printed}");
    }
}
