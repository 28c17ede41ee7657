//! What must hold for any job, shared by the fuzzers and by the test that runs their corpus.

use fathom_model::Facts;
use fathom_model::facts::{TargetFacts, TargetKind};
use fathom_spec::{Job, MachineNumbers, Sources, Spec, parse, plan};

/// More paths than this make a run slow, not interesting.
const PATHS_MAX: usize = 200;

struct Input<'a>(&'a [u8]);

impl Sources for Input<'_> {
    fn read(&self, path: &str, limit_bytes: usize) -> Result<Vec<u8>, String> {
        match path {
            "-" | "self" => Ok(self.0[..self.0.len().min(limit_bytes + 1)].to_vec()),
            "part" => Ok(b"bs=8k\n".to_vec()),
            _ => Err("No such file or directory".into()),
        }
    }
    fn env(&self, name: &str) -> Option<String> {
        (name != "NONE").then(|| format!("${{{name}}}"))
    }
    fn machine(&self) -> MachineNumbers {
        MachineNumbers { cpus: 4, page_bytes: 4096, memory_mib: 1000 }
    }
    fn random(&self) -> u64 {
        7
    }
}

/// A job file of any bytes.
pub fn job_file(bytes: &[u8]) {
    if let Ok(spec) = parse(&["-".to_string()], &Input(bytes)) {
        holds(&spec);
    }
}

/// A command line, its arguments separated by line ends.
pub fn command_line(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let args: Vec<String> = text.lines().map(str::to_string).collect();
    if let Ok(spec) = parse(&args, &Input(b"[job]\nrw=read\ninclude part\n")) {
        holds(&spec);
    }
}

/// A trace of any bytes: what it has is issued in the order of time, within the regions of its job.
pub fn trace(bytes: &[u8]) {
    for more in ["--replay_scale=3", "--replay_redirect=x", "--replay_no_stall=1"] {
        let args = ["--name=a", "--filename=f", "--read_iolog=self", more].map(str::to_string);
        let spec = match parse(&args, &Input(bytes)) {
            Ok(spec) => spec,
            Err(problems) => {
                assert!(!problems.errors.is_empty());
                continue;
            }
        };
        let queries = spec.target_paths().expect("traces may name any file");
        let missing = |path: &str| TargetFacts {
            path: path.to_string(),
            kind: TargetKind::Missing,
            ..TargetFacts::default()
        };
        let targets = queries.iter().map(|query| missing(&query.path)).collect();
        let Ok(plan) = plan(&spec, &Facts { targets, ..Facts::default() }) else { continue };
        let job = &plan.jobs[0];
        let replay = job.replay.as_ref().expect("the job replays it");
        assert!(replay.events.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
        for event in replay.events.iter() {
            assert!(event.offset + u64::from(event.len) <= job.regions[event.file as usize].len);
        }
    }
}

/// An experiment of any bytes: every condition is compared with an earlier one of its cell only.
pub fn experiment(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let found = match fathom_spec::experiment::experiment(text, "x.toml", 4, 2) {
        Ok(found) => found,
        Err(problems) => return assert!(!problems.is_empty()),
    };
    assert!(!found.conditions.is_empty());
    for (index, condition) in found.conditions.iter().enumerate() {
        for other in condition.against.iter().chain(&condition.repeats) {
            assert!(*other < index && found.conditions[*other].cell == condition.cell);
        }
        let _ = fathom_spec::experiment::condition_args(condition, &["a".into(), "b:c".into()]);
    }
}

/// A request that was read: it reads back from its own command line, and has a plan or an
/// error on any machine.
fn holds(spec: &Spec) {
    let again = parse(&spec.show_command(), &Input(b""));
    if !spec.jobs.is_empty() {
        let again = again.expect("a shown command line is read");
        assert_eq!(bare(&again.jobs), bare(&spec.jobs), "{:?}", spec.show_command());
    }
    let clones: u64 = spec.jobs.iter().map(|job| u64::from(job.numjobs)).sum();
    let files = spec.jobs.iter().map(|job| u64::from(job.nrfiles)).max().unwrap_or(0);
    if clones.saturating_mul(files) > PATHS_MAX as u64 {
        return;
    }
    let Ok(queries) = spec.target_paths() else { return };
    for kind in [TargetKind::Missing, TargetKind::File, TargetKind::BlockDevice] {
        let size_bytes = if kind == TargetKind::Missing { 0 } else { 1 << 30 };
        let target = |path: &str| TargetFacts {
            path: path.to_string(),
            kind,
            size_bytes,
            direct_align: Some(512),
            ..TargetFacts::default()
        };
        let targets = queries.iter().map(|query| target(&query.path)).collect();
        if let Ok(plan) = plan(spec, &Facts { targets, ..Facts::default() }) {
            assert_eq!(plan.jobs.len() as u64, clones);
            for region in plan.jobs.iter().flat_map(|job| &job.regions) {
                assert!(region.len > 0 && region.target < plan.targets.len());
                assert!(region.start.checked_add(region.len).is_some());
            }
        }
    }
}

fn bare(jobs: &[Job]) -> Vec<Job> {
    jobs.iter().map(|job| Job { given: Vec::new(), place: None, ..job.clone() }).collect()
}
