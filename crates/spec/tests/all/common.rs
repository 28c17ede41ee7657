//! Synthetic files, environment and machine facts.

use fathom_model::Facts;
use fathom_model::facts::{DeviceFacts, TargetFacts, TargetKind};
use fathom_spec::{MachineNumbers, Problems, Sources, Spec, parse};

/// A job file at `job`, and nothing else.
pub struct OneFile<'a>(pub &'a str);

impl Sources for OneFile<'_> {
    fn read(&self, path: &str, limit_bytes: usize) -> Result<Vec<u8>, String> {
        match path {
            "job" | "-" => Ok(self.0.as_bytes().iter().copied().take(limit_bytes + 1).collect()),
            _ => Err("No such file or directory".into()),
        }
    }
    fn env(&self, name: &str) -> Option<String> {
        (name == "DISK").then(|| "/dev/disk".to_string())
    }
    fn machine(&self) -> MachineNumbers {
        MachineNumbers { cpus: 4, page_bytes: 4096, memory_mib: 1000 }
    }
    fn random(&self) -> u64 {
        7
    }
}

/// Parses a job file.
pub fn job(text: &str) -> Result<Spec, Problems> {
    parse(&["job".to_string()], &OneFile(text))
}

/// Parses a command line, split at blanks.
pub fn command(line: &str) -> Result<Spec, Problems> {
    let args: Vec<String> = line.split_whitespace().map(str::to_string).collect();
    parse(&args, &OneFile(""))
}

/// Facts about the targets of `spec`: `/dev/disk` (1 GiB), `/dev/ng0n1`, `/dev/sda` and `/dev/sg0`, `/data/file` (64 MiB), `/data/own` (1 MiB,
/// made by fathom), `/data/empty`, `/data`, `/tmpfs/file`; everything else is missing
/// and would be on a device with blocks of 512 bytes.
pub fn facts(spec: &Spec) -> Facts {
    let mut facts = Facts::default();
    facts.host.memory_available_bytes = 8 << 30;
    facts.host.open_files_limit = 100_000;
    facts.host.cpus_allowed = vec![0, 1, 2, 3];
    for query in spec.target_paths().unwrap() {
        facts.targets.push(target(&query.path));
    }
    facts
}

fn target(path: &str) -> TargetFacts {
    let file = |size_bytes, direct_align| TargetFacts {
        kind: TargetKind::File,
        size_bytes,
        allocated_bytes: size_bytes,
        direct_align: Some(direct_align),
        free_bytes: Some(20 << 30),
        ..TargetFacts::default()
    };
    let device = |kind, direct_align| TargetFacts {
        kind,
        size_bytes: 1 << 30,
        direct_align,
        device: Some(DeviceFacts {
            logical_block: 4096,
            discard_max_bytes: Some(0),
            ..DeviceFacts::default()
        }),
        ..TargetFacts::default()
    };
    let known = match path {
        "/dev/disk" => device(TargetKind::BlockDevice, Some(4096)),
        "/dev/ng0n1" => device(TargetKind::NvmeGeneric, None),
        "/dev/sda" | "/dev/sg0" | "/dev/bsg/0:0:0:0" => {
            let kind = match path {
                "/dev/sda" => TargetKind::BlockDevice,
                "/dev/bsg/0:0:0:0" => TargetKind::ScsiBsg,
                _ => TargetKind::ScsiGeneric,
            };
            let device =
                DeviceFacts { scsi_disk: true, logical_block: 512, ..DeviceFacts::default() };
            TargetFacts {
                kind,
                size_bytes: 1 << 30,
                device: Some(device),
                ..TargetFacts::default()
            }
        }
        "/dev/null" => TargetFacts { kind: TargetKind::Other, ..TargetFacts::default() },
        "/data/file" => file(64 << 20, 512),
        "/data/own" => TargetFacts { made_by_fathom: true, ..file(1 << 20, 512) },
        "/data/empty" => file(0, 512),
        "/tmpfs/file" => file(1 << 20, 0),
        "/data" => TargetFacts { kind: TargetKind::Directory, ..TargetFacts::default() },
        _ => TargetFacts {
            free_bytes: Some(20 << 30),
            device: Some(DeviceFacts { logical_block: 512, ..DeviceFacts::default() }),
            ..TargetFacts::default()
        },
    };
    TargetFacts { path: path.into(), resolved: path.into(), ..known }
}
