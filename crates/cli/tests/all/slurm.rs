//! The commands of several ranks under Slurm: a controller and four nodes on this machine. Where that is not installed, nothing is
//! tested.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{FATHOM, MIB, Place, Running, as_root, says, until};
use crate::ranks::{SLOWER, records};
use fathom_model::experiment::ExperimentRecord;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

struct Cluster {
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
        let mut this = Self { dir, daemons: Vec::new() };
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
    let Some(_alone) = as_root("host names") else { return };
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

#[test]
fn the_others_keep_their_results_when_slurm_loses_one() {
    let Some(_alone) = as_root("host names") else { return };
    let place = Place::new();
    let Some(cluster) = Cluster::new(&place) else { return };
    place.data("data", MIB);
    let args = ["run", "--eta=never", "--sampling=off", "--rw=randread", "--bs=4k", "--runtime=60"];
    let args = [&args[..], &["--time_based", "data"]].concat();
    let running = cluster.srun(&place, &args);
    let begun = || {
        let runs = fs::read_dir(place.home().join(".local/state/fathom/runs"));
        let samples = |dir: fs::DirEntry| fs::metadata(dir.path().join("samples.ndjson"));
        let has_begun = |dir: fs::DirEntry| samples(dir).is_ok_and(|file| file.len() > 0);
        runs.is_ok_and(|runs| {
            runs.flatten().filter_map(|dir| has_begun(dir).then_some(())).count() == 4
        })
    };
    until("the jobs of all ranks", begun);
    // The one whose rank is 2.
    let of_rank = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let has =
            |words: &str| environment.split(|byte| *byte == 0).any(|one| one == words.as_bytes());
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        has("PMI_RANK=2")
            && has(&format!("HOME={}", place.home().display()))
            && program.ends_with("fathom")
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let victim = pids.find(of_rank).unwrap();
    kill_process(Pid::from_raw(victim as i32).unwrap(), Signal::KILL).unwrap();
    let answer = running.wait();
    assert_ne!(answer.code, Some(0));
    says(&answer.stderr, &["has its own result only", "(rank 0 of 4)"]);
    // Slurm may end srun before it has passed on what rank 0 printed.
    let runs = fs::read_dir(place.home().join(".local/state/fathom/runs")).unwrap();
    let complete = runs.flatten().filter(|run| {
        let record = fs::read(run.path().join("record.json")).unwrap_or_default();
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap_or_default();
        record["jobs"][0]["dirs"]["read"]["counts"]["ios"].as_u64() > Some(0)
    });
    assert_eq!(complete.count(), 3, "{}", answer.stderr);
}
