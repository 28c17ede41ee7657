//! The commands of several ranks under Slurm: a controller and four nodes on this machine. Where that is not installed, nothing is
//! tested.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{Answer, FATHOM, MIB, Place, Running, is_root, says, until};
use crate::ranks::{SLOWER, records};
use fathom_model::experiment::ExperimentRecord;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// One at a time: its ports are those of this process.
struct Cluster {
    _alone: MutexGuard<'static, ()>,
    dir: PathBuf,
    daemons: Vec<Child>,
}

impl Cluster {
    fn new(place: &Place) -> Option<Self> {
        let is_there = |name: &&str| fs::exists(format!("/usr/sbin/{name}")).unwrap_or(false);
        if !["munged", "slurmctld", "slurmd"].iter().all(is_there) {
            println!("skipped: no Slurm (Debian package slurm-wlm)");
            return None;
        }
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = place.path("slurm");
        fs::create_dir_all(dir.join("state")).unwrap();
        fs::write(dir.join("key"), [7; 128]).unwrap();
        fs::set_permissions(dir.join("key"), fs::Permissions::from_mode(0o400)).unwrap();
        let port = 20_000 + std::process::id() % 4_000 * 5;
        let at = dir.display().to_string();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim();
        let mut conf = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nAuthType=auth/munge\n\
             AuthInfo=socket={at}/munge\nCredType=cred/munge\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool-%n\n\
             SlurmctldPidFile={at}/ctld.pid\nSlurmdPidFile={at}/%n.pid\nSlurmctldPort={port}\nReturnToService=2\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\nMpiDefault=pmi2\n\
             SlurmdParameters=config_overrides\nKillWait=120\nPartitionName=all Nodes=ALL Default=YES State=UP\n"
        );
        for (node, port) in NODES.iter().zip(port + 1..) {
            conf.push_str(&format!(
                "NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=500\n"
            ));
        }
        fs::write(dir.join("slurm.conf"), conf).unwrap();
        let mut this = Self { _alone: alone, dir, daemons: Vec::new() };
        let munge = format!(
            "munged -F --force --socket={at}/munge --key-file={at}/key --pid-file={at}/munged.pid --log-file={at}/munged.log \
             --seed-file={at}/seed"
        );
        this.start(&munge);
        until("munged", || this.dir.join("munge").exists());
        this.start(&format!("slurmctld -D -f {at}/slurm.conf"));
        for node in NODES {
            // Each has a name of its own.
            let daemon = format!("hostname {node}; exec slurmd -D -N {node} -f {at}/slurm.conf");
            this.start(&format!("unshare --uts sh -c '{daemon}'"));
        }
        let idle = || {
            let found = this.command("sinfo", &["-h", "-t", "idle", "-o", "%D"]).output().unwrap();
            String::from_utf8_lossy(&found.stdout).trim() == "4"
        };
        until("the nodes", idle);
        Some(this)
    }

    fn start(&mut self, command: &str) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {command}")]);
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push(shell.spawn().unwrap());
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).env("SLURM_CONF", self.dir.join("slurm.conf"));
        command
    }

    /// fathom as a rank on each node.
    fn srun(&self, place: &Place, args: &[&str]) -> Running {
        let args = [&["-N4", FATHOM], args].concat();
        let mut command = place.command("srun", &args);
        Running::start(command.env("SLURM_CONF", self.dir.join("slurm.conf")))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Nodes before the controller, and that before munged.
        for mut daemon in self.daemons.drain(..).rev() {
            let _ = kill_process(Pid::from_child(&daemon), Signal::TERM);
            let _ = daemon.wait();
        }
    }
}

fn hosts(all: &Value) -> Vec<&str> {
    let named = all.as_array().unwrap().iter().map(|one| one["hostname"].as_str().unwrap());
    named.collect()
}

#[test]
fn all_commands_of_ranks_work_under_slurm() {
    if !is_root("host names") {
        return;
    }
    let place = Place::new();
    let Some(cluster) = Cluster::new(&place) else { return };
    place.data("data", MIB);
    let json = cluster.srun(&place, &["doctor", "--json", "data"]).wait().done().json();
    assert_eq!(json["hosts"].as_array().unwrap().len(), 4, "{json}");
    let read = ["run", "--eta=never", "--sampling=off", "--rw=randread", "--bs=4k", "--json"];
    let read = [&read[..], &["--number_ios=32", "--time_based=0", "data"]].concat();
    let json = cluster.srun(&place, &read).wait().done().json();
    assert_eq!(json["jobs"][0]["read"]["total_ios"], 128);
    let search = ["limit", "-t", "6", "--bs=4k", "--sampling=off", "--format=json", "data"];
    let answer = cluster.srun(&place, &search).wait();
    let json = answer.json();
    assert_eq!(hosts(&json["ranks"]), NODES, "{}", answer.stderr);
    let compare = [&["try", "-t", "6", "--sampling=off", "--json"], &SLOWER[..]].concat();
    let answer = cluster.srun(&place, &compare).wait();
    let record: ExperimentRecord = serde_json::from_str(&answer.stdout).expect(&answer.stderr);
    assert_eq!(record.ranks.iter().map(|rank| rank.hostname.as_str()).collect::<Vec<_>>(), NODES);
    assert!(record.report.conditions.iter().all(|found| found.windows > 0));
    // The whole of a search is on each host.
    let of_search = records(&place).into_iter().filter(|one| one["kind"] == "limit");
    assert_eq!(of_search.count(), 4);
}

/// Its process, below `place`.
fn of_rank(place: &Place, rank: u32) -> Pid {
    let home = format!("HOME={}", place.home().display());
    let is_it = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let has =
            |words: &str| environment.split(|byte| *byte == 0).any(|one| one == words.as_bytes());
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        has(&format!("PMI_RANK={rank}")) && has(&home) && program.ends_with("fathom")
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Pid::from_raw(pids.find(is_it).unwrap()).unwrap()
}

/// Waits until all four have stored something in their file with this name.
fn until_stored(place: &Place, name: &str) {
    let stored = || {
        let runs = fs::read_dir(place.home().join(".local/state/fathom/runs"));
        let file = |dir: fs::DirEntry| fs::metadata(dir.path().join(name));
        let has_some = |dir: fs::DirEntry| file(dir).is_ok_and(|file| file.len() > 0);
        runs.is_ok_and(|runs| runs.flatten().map(has_some).filter(|has| *has).count() == 4)
    };
    until("the work of all ranks", stored);
}

/// What interrupted each record that is complete.
fn interrupted(place: &Place) -> Vec<(String, String)> {
    let runs = fs::read_dir(place.home().join(".local/state/fathom/runs")).unwrap();
    let of_run = |dir: fs::DirEntry| {
        let text = fs::read(dir.path().join("record.json")).ok()?;
        let record: Value = serde_json::from_slice(&text).ok()?;
        let host = record["facts"]["host"]["hostname"].as_str()?.to_string();
        Some((host, record["outcome"]["interrupted"]["by"].as_str()?.to_string()))
    };
    let mut all: Vec<_> = runs.flatten().filter_map(of_run).collect();
    all.sort();
    all
}

/// The others end in order, keep what they have, and rank 0 names n3.
fn without_n3(place: &Place, running: Running) -> Answer {
    let answer = running.wait();
    assert_ne!(answer.code, Some(0));
    says(&answer.stderr, &["no answer from n3 (rank 2)"]);
    let all = interrupted(place);
    let hosts: Vec<_> = all.iter().map(|(host, _)| host.as_str()).collect();
    assert_eq!(hosts, ["n1", "n2", "n4"], "{all:?} {}", answer.stderr);
    assert_eq!(all[0].1, "the loss of n3 (rank 2)");
    answer
}

const READ: [&str; 8] = [
    "run",
    "--eta=never",
    "--sampling=off",
    "--rw=randread",
    "--bs=4k",
    "--time_based",
    "--runtime=60",
    "data",
];

#[test]
fn the_others_keep_their_results_when_slurm_loses_a_rank() {
    if !is_root("host names") {
        return;
    }
    let place = Place::new();
    let Some(cluster) = Cluster::new(&place) else { return };
    let kill = |args: &[&str], file: &str| {
        let place = Place::new();
        place.data("data", MIB);
        let running = cluster.srun(&place, args);
        until_stored(&place, file);
        kill_process(of_rank(&place, 2), Signal::KILL).unwrap();
        without_n3(&place, running)
    };
    let answer = kill(&READ, "samples.ndjson");
    says(&answer.stderr, &["n1 (rank 0 of 4) has its own result only"]);
    kill(&["limit", "-t", "60", "--bs=4k", "--sampling=off", "data"], "windows.ndjson");
    kill(&[&["try", "-t", "60", "--sampling=off"], &SLOWER[..]].concat(), "windows.ndjson");
    let sweep = ["sweep", "-t", "60", "--sampling=off", "--key=ioengine=null", "--key=size=1m"];
    kill(&sweep, "windows.ndjson");
}

#[test]
fn the_others_keep_their_results_when_slurm_loses_a_node() {
    if !is_root("host names") {
        return;
    }
    let place = Place::new();
    let Some(cluster) = Cluster::new(&place) else { return };
    place.data("data", MIB);
    let running = cluster.srun(&place, &READ);
    until_stored(&place, "samples.ndjson");
    // munged and slurmctld come first.
    kill_process(Pid::from_child(&cluster.daemons[4]), Signal::KILL).unwrap();
    // srun waits for the node; who is lost, it does not tell until then.
    until("the end of all ranks", || interrupted(&place).len() == 4);
    let all = interrupted(&place);
    assert!(all.iter().all(|(_, by)| by == "the loss of another rank"), "{all:?}");
    let said = || running.so_far("stderr");
    until("what rank 0 prints", || said().contains("n1 (rank 0 of 4) has its own result only"));
    running.signal(Signal::KILL);
    running.wait();
}
