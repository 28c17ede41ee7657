use super::*;
use crate::archive::tests::{copied, exported};
use crate::runs::set_tag;
use crate::stored::read_record;
use fathom_model::Record;
use fathom_model::facts::DeviceFacts;
use fathom_model::inspection::{DiskInspection, Inspection, MountedFileSystem, NvmeReport};
use fathom_model::plan::{Engine, Logs, NameOp, Names as PlanNames, Paths};
use fathom_model::progress::Sample;
use fathom_model::topology::{Hop, Topology, Volume, VolumeKind};
use fathom_model::watch::{
    CgroupIo, CgroupSample, DiskCounters, ProcessFile, ProcessesSample, RemotePeer, SystemSample,
    ThreadCount, ThreadsSample,
};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What every planted name has in it.
const SECRET: &str = "hush";

/// Strings of a schema: the field of the object that they are in, and their own.
#[derive(Default)]
struct Strings {
    found: BTreeSet<(String, String)>,
    maps: BTreeSet<String>,
}

impl Strings {
    fn add(&mut self, root: &Value, schema: &Value, (parent, key): (&str, &str), way: &[String]) {
        if let Some(name) = schema["$ref"].as_str().and_then(|at| at.strip_prefix("#/$defs/")) {
            let step = format!("{name} {key}");
            if !way.contains(&step) {
                let way = [way, &[step]].concat();
                self.add(root, &root["$defs"][name], (parent, key), &way);
            }
            return;
        }
        let is_string = schema["type"] == "string"
            || schema["type"].as_array().is_some_and(|types| types.contains(&"string".into()))
            || schema.get("const").is_some_and(Value::is_string)
            || schema.get("enum").is_some();
        if is_string {
            self.found.insert((parent.into(), key.into()));
        }
        let lists = ["anyOf", "oneOf", "allOf", "prefixItems"].map(|list| schema[list].as_array());
        let parts = lists.into_iter().flatten().flatten();
        for part in parts.chain(schema.get("items")) {
            self.add(root, part, (parent, key), way);
        }
        for (field, part) in schema["properties"].as_object().into_iter().flatten() {
            self.add(root, part, (key, field), way);
        }
        if let Some(part) = schema.get("additionalProperties").filter(|part| part.is_object()) {
            self.maps.insert(key.into());
            self.add(root, part, (key, "*"), way);
        }
    }
}

#[test]
fn every_string_of_a_record_has_its_treatment() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut strings = Strings::default();
    for name in ["record", "limit", "experiment", "samples", "limit-windows", "experiment-windows"]
    {
        let text = fs::read(docs.join(format!("{name}.schema.json"))).unwrap();
        let schema = serde_json::from_slice(&text).unwrap();
        strings.add(&schema, &schema, ("", ""), &[]);
    }
    assert!(strings.found.len() > 150, "{}", strings.found.len());
    // These are derived from a record.
    strings.found.retain(|(parent, _)| parent != "ceilings");
    for (parent, key) in &strings.found {
        let treatment = treatment(parent, key);
        let why = format!("{parent}.{key}: add it to a list above, as what it is");
        assert_ne!(treatment, Treatment::Name("hidden"), "{why}");
    }
    let maps: Vec<&str> = strings.maps.iter().map(String::as_str).collect();
    let known = ["global_options", "missing", "options", "peaks", "texts"];
    assert_eq!(maps, known, "keys of another map are not treated");
    for list in [KEEP, TEXTS, PATHS, KEYS, COMMANDS, DEVICES] {
        assert!(list.split(' ').all(|word| !word.is_empty()), "{list}");
    }
}

fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap()
}

fn change(file: &Path, change: impl FnOnce(&mut Value)) {
    let mut record = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    change(&mut record);
    fs::write(file, record.to_string()).unwrap();
}

fn append(file: &Path, line: &Value) {
    let text = fs::read_to_string(file).unwrap_or_default();
    fs::write(file, format!("{text}{line}\n")).unwrap();
}

fn header(record: &mut Value) {
    record["facts"]["host"]["hostname"] = "hush-host".into();
    record["command"] =
        json!(["/opt/hush/fathom", "run", "/srv/hush jobs/hush.fio", "--name=hush-job"]);
    if let Some(target) = record["facts"]["targets"].get_mut(0) {
        target["path"] = "hush.dat".into();
        target["resolved"] = "/srv/hush space/hush.dat".into();
        target["device"]["serial"] = "hush-serial  ".into();
    }
    let disk = DiskInspection {
        device: DeviceFacts { serial: Some("hush-serial".into()), ..DeviceFacts::default() },
        mounts: vec![MountedFileSystem {
            point: "/mnt/hush".into(),
            options: "rw,lowerdir=/mnt/hush:/mnt/hush2".into(),
            ..MountedFileSystem::default()
        }],
        nvme: Some(NvmeReport { serial: "hush-nvme".into(), ..NvmeReport::default() }),
        nvme_missing: Some("/dev/disk/by-id/hush: denied".into()),
        ..DiskInspection::default()
    };
    let mut inspection = Inspection { disks: vec![disk], ..Inspection::default() };
    inspection.disks[0].files.set("loop/backing_file", "/srv/hush.img");
    record["facts"]["inspection"] = value(&inspection);
    let volume = |kind, label: &str| Volume {
        kind,
        label: label.into(),
        mounts: vec!["/mnt/hush".into(), "[SWAP]".into()],
        ..Volume::default()
    };
    let fabric = Hop { label: "tcp, traddr=10.1.2.3,host=hush".into(), ..Hop::default() };
    record["facts"]["topology"] = value(&Topology {
        roots: vec![Hop { children: vec![fabric], ..Hop::default() }],
        volumes: vec![
            volume(VolumeKind::Mapped, "hush-volume"),
            volume(VolumeKind::Loop, "/srv/hush.img"),
        ],
        ..Topology::default()
    });
    record["outcome"] = json!({"failed": {"because": "/home/hush/x: no space left"}});
    record["samples_lost"] = "~/hush/y: no space left".into();
    record["findings"] = json!([{
        "rule": "sparse-target", "severity": "info",
        "subject": {"kind": "cgroup", "path": "/hush.slice/a.service"},
        "limited_by": "hush-volume",
        "summary": "On hush-host, hush-job waits for hush.dat (/srv/hush space/hush.dat) on hush-volume, hush-serial.",
        "evidence": [
            {"name": "/srv/hush.img allocated", "value": "hush.example (tcp) and 10.1.2.3"},
            "tool --password=hush",
        ],
        "counter_evidence": [{"name": "/mnt/hush2", "value": {"number": 1.5, "unit": "count"}}],
        "next_step": "Look at '/hush.slice/a.service', and fathom limit hush.dat",
        "next_command": "fathom limit hush.dat",
        "confirmed": {"verdict": "not_tested", "metric": "iops", "reason": "hush.dat: no such file"},
    }]);
}

fn run(record: &mut Value) {
    header(record);
    record["plan"]["targets"][0]["path"] = "hush.dat".into();
    record["plan"]["targets"][0]["within"] = "/srv/hush space".into();
    record["plan"]["notes"] = json!(["hush.fio:3: [hush-job] has no effect"]);
    record["plan"]["global_options"] = json!({"directory": "/srv/hush space", "bs": "4k"});
    let job = &mut record["plan"]["jobs"][0];
    job["name"] = "hush-job".into();
    job["description"] = "all of hush".into();
    job["options"]["filename"] = "hush.dat".into();
    job["options"]["name"] = "hush-job".into();
    job["logs"] = value(&Logs {
        bw: Some("hush-log".into()),
        lat: Some("/var/hush".into()),
        named: vec!["hush-log".into()],
        ..Logs::default()
    });
    let (before, after) = ("/srv/hush/f.".to_string(), ".hush".to_string());
    job["engine"] = value(&Engine::Names(PlanNames {
        paths: Paths::Numbered { before, count: 1, after },
        within: Some("/srv/hush space".into()),
        ..PlanNames::new(NameOp::StatFile)
    }));
    let done = &mut record["jobs"][0];
    done["error"] = json!({"errno": 5, "message": "hush.dat: read failed"});
    done["target_changes"] = json!(["/srv/hush space/hush.dat was truncated"]);
    done["cost_missing"] = "hush-host has no counters".into();
    done["granted"]["fallbacks"] = json!(["O_DIRECT on hush.dat"]);
}

fn sample(line: &str) -> Value {
    let mut sample: Sample = serde_json::from_str(line).unwrap();
    let machine = &mut sample.machine;
    let thread = ThreadCount {
        comm: "tool".into(),
        state: 'S',
        filename: "/var/hush".into(),
        cmdline: "tool --password=hush".into(),
        user: "hush".into(),
        ..ThreadCount::default()
    };
    machine.threads = Some(ThreadsSample { active: vec![thread], ..ThreadsSample::default() });
    let remote = |address: &str| RemotePeer { address: address.into(), ..RemotePeer::default() };
    machine.processes = Some(ProcessesSample {
        files: vec![ProcessFile { path: "/var/hush/a b".into(), ..ProcessFile::default() }],
        remotes: vec![remote("hush.example:5432"), remote("10.1.2.3"), remote("[fe80::1]:80")],
        ..ProcessesSample::default()
    });
    let cgroup = "/hush.slice/a.service";
    let io = CgroupIo { cgroup: cgroup.into(), device: "vda".into(), ..CgroupIo::default() };
    let cgroup = CgroupSample {
        path: cgroup.into(),
        io_limits: vec![format!("{cgroup} vda rbps=1048576")],
        io_control: vec![format!("{cgroup} default weight=10")],
        io_done: vec![io],
        ..CgroupSample::default()
    };
    machine.system = Some(SystemSample { cgroup: Some(cgroup), ..SystemSample::default() });
    let disk =
        DiskCounters { name: "dm-0".into(), alias: "hush-volume".into(), ..Default::default() };
    machine.disks.push(disk);
    value(&sample)
}

/// Runs of each kind with names planted wherever one can be.
fn planted(runs: &Path) -> Vec<PathBuf> {
    let kinds = ["run", "watch", "limit", "experiment"];
    let line = include_str!("../../fixtures/v2/run/samples.ndjson");
    let dirs = (1..).zip(kinds).map(|(at, kind)| {
        let dir = copied(&format!("v2/{kind}"), runs, &format!("20261101-120000-{at}"));
        let samples = dir.join("samples.ndjson");
        append(&samples, &sample(line.lines().next().unwrap()));
        set_tag(&dir, SECRET, true).unwrap();
        dir
    });
    let dirs: Vec<PathBuf> = dirs.collect();
    let record = |at: usize| dirs[at].join("record.json");
    append(&dirs[0].join("stacks.ndjson"), &json!({"kernel": ["f"], "user": ["/opt/hush/lib.so"]}));
    change(&record(0), run);
    change(&record(1), |record| {
        header(record);
        record["watch"]["command"]["argv"] = json!(["/opt/hush/tool", "--password=hush"]);
        record["watch"]["missing"] = json!([
            {"what": "disk of hush.dat", "why": "/mnt/hush2: denied", "allow": "ask hush-host"}
        ]);
    });
    change(&record(2), |record| {
        header(record);
        record["config"]["targets"] = json!(["hush.dat"]);
        record["config"]["queues"][0]["io_limits"] = json!(["/hush.slice/a.service vda riops=1"]);
        record["report"]["targets"][0]["name"] = "hush.dat".into();
        record["costs_missing"] = "hush.dat is gone".into();
    });
    change(&record(3), |record| {
        header(record);
        let request = &mut record["request"];
        request["targets"] = json!(["hush.dat"]);
        request["scratch_dir"] = "/srv/hush space".into();
        request["peaks"] = json!({"filename=hush.dat bs=4k": 1.5});
        let conditions = &mut request["experiment"]["conditions"];
        conditions[0]["load"] = json!({"command": "dd if=hush of=$TARGET"});
        conditions[0]["settings"] = json!(["scheduler:/dev/disk/by-id/hush=none"]);
        conditions[1]["load"] = json!({"job": ["rw=randread", "bs=8k", "filename=hush.dat"]});
        conditions[1]["cell"] = json!(["hush.dat"]);
        record["report"]["conditions"][0]["first_error"] = "hush.dat: read failed".into();
    });
    append(
        &dirs[3].join("windows.ndjson"),
        &json!({"condition": 0, "round": 9, "outcome": {"Err": "/srv/hush space: no space left"}}),
    );
    dirs
}

#[test]
fn nothing_of_a_planted_name_is_in_a_shared_archive() {
    let place = tempfile::tempdir().unwrap();
    let dirs = planted(&place.path().join("runs"));
    let unpack = |is_shared| {
        let file = fs::File::open(exported(&place, &dirs, is_shared)).unwrap();
        zstd::stream::decode_all(file).unwrap()
    };
    let (plain, shared) = (unpack(false), unpack(true));
    let places = |bytes: &[u8], text: &str| {
        let text = text.as_bytes();
        let found = bytes.windows(text.len()).enumerate().filter(|(_, part)| *part == text);
        let around = |at: usize| {
            let around = &bytes[at.saturating_sub(100)..bytes.len().min(at + 100)];
            String::from_utf8_lossy(around).into_owned()
        };
        found.map(|(at, _)| around(at)).collect::<Vec<_>>()
    };
    assert!(places(&plain, SECRET).len() > 100);
    for secret in [SECRET, "10.1.2.3", "fe80::1"] {
        assert_eq!(places(&shared, secret), Vec::<String>::new());
    }
    for kept in ["vda", "\"tool\"", "randread", ":5432", "rbps=1048576", "[SWAP]"] {
        assert!(!places(&shared, kept).is_empty(), "{kept}");
    }
}

#[test]
fn a_shared_run_is_read_like_others() {
    let place = tempfile::tempdir().unwrap();
    let dirs = planted(&place.path().join("runs"));
    let to = place.path().join("shared");
    let shared = |dirs: &[PathBuf]| -> Vec<Record> {
        fs::create_dir(&to).unwrap();
        let open = |dir: &PathBuf| {
            let name = dir.file_name().unwrap().to_str().unwrap().to_string();
            (name, HeldDir::open(dir).unwrap())
        };
        let runs: Vec<NamedRun> = dirs.iter().map(open).collect();
        let copies = share(&runs, &HeldDir::open(&to).unwrap()).unwrap();
        let records = copies.iter().map(|(_, dir)| read_record(dir.path()).unwrap()).collect();
        fs::remove_dir_all(&to).unwrap();
        records
    };
    let records = shared(&dirs);
    assert!(records.iter().all(|record| record.header().shared));
    let Record::Run(run) = &records[0] else { panic!("not a run") };
    let path = &run.plan.targets[0].path;
    assert!(path.starts_with("path-"), "{path}");
    assert_eq!(run.header.facts.targets[0].path, *path);
    assert_eq!(run.plan.jobs[0].options["filename"], *path);
    let job = &run.plan.jobs[0].name;
    let (finding, host) = (&run.header.findings[0], &run.header.facts.host.hostname);
    for name in [path, job, host] {
        assert!(finding.summary.contains(name.as_str()), "{name} is not in {}", finding.summary);
    }
    assert_eq!(finding.next_command, None);
    assert_eq!(run.header.command[..2], ["fathom", "run"]);
    assert!(run.header.command[2].starts_with("command-"), "{:?}", run.header.command);
    let Record::Limit(limit) = &records[2] else { panic!("not a search") };
    assert_eq!((&limit.config.targets[0], &limit.header.facts.host.hostname), (path, host));
    // With another key.
    assert_ne!(shared(&dirs)[0].header().facts.host.hostname, *host);
    let fixtures = ["v1/run", "v1/watch", "v2/run", "v2/watch", "v2/limit", "v2/experiment"];
    let fixture = |name| Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    for name in fixtures {
        assert!(shared(&[fixture(name)])[0].header().shared, "{name}");
    }
}

#[test]
fn only_names_and_paths_are_replaced_in_texts() {
    let mut names = Names::default();
    let [data, short] = ["/srv/data", "db"].map(|name| names.name("path", name));
    let ring = names.name("job", "ring");
    let command = names.name("command", "/proc/self/exe --token=1");
    names.devices.insert("vda".into());
    names.complete();
    let plain = "1/2 of 5 reads/s at /proc/1/io and /dev/vda: ringing, string; db / dbx: 4 KiB";
    assert_eq!(names.text(plain), plain);
    assert_eq!(names.text(&short), short);
    assert_eq!(names.text("ran /proc/self/exe --token=1"), format!("ran {command}"));
    assert_eq!(names.text("ring: '/srv/data'."), format!("{ring}: '{data}'."));
    let other = names.text("see /srv/data.old, /srv/data/x");
    assert!(!other.contains("srv") && !other.contains("old") && !other.contains(&data), "{other}");
    assert_eq!(names.text("in /srv/data."), format!("in {data}."));
    assert_eq!(names.text(&format!("in {data}.")), format!("in {data}."));
    for number in ["4k", "1.5", "0-3,8", "70:30", "5%", "10s", "1"] {
        assert!(is_number(number), "{number}");
    }
    for other in ["", "10.1.2.3", "x4", "4kilo", "-", "1-a"] {
        assert!(!is_number(other), "{other}");
    }
}
