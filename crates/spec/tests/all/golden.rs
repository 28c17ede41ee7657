//! Job files as people write them, and the command lines that they amount to.

use fathom_spec::{MachineNumbers, Sources, parse};
use std::path::{Path, PathBuf};

struct Disk;

impl Sources for Disk {
    fn read(&self, path: &str, _: usize) -> Result<Vec<u8>, String> {
        std::fs::read(path).map_err(|error| error.to_string())
    }
    fn env(&self, name: &str) -> Option<String> {
        (name == "TARGET").then(|| "/dev/nvme0n1".to_string())
    }
    fn machine(&self) -> MachineNumbers {
        MachineNumbers { cpus: 4, page_bytes: 4096, memory_mib: 1000 }
    }
    fn random(&self) -> u64 {
        7
    }
}

#[test]
fn job_files_convert_to_their_command_lines() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jobs");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "fio"));
    files.sort();
    assert!(files.len() >= 5, "the job files are missing");
    for file in files {
        let spec = parse(&[file.display().to_string()], &Disk).unwrap();
        let shown = spec.show_command().join("\n") + "\n";
        let expected = std::fs::read_to_string(file.with_extension("cmd")).unwrap();
        assert_eq!(shown, expected, "{}", file.display());
    }
}
