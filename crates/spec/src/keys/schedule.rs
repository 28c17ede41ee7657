//! Start, end, number and placement of jobs.

use crate::job::{JobSpec, Nodes};
use crate::value::KeyValue;
use fathom_model::cpus;
use fathom_model::plan::{ExitWhat, MemoryPolicy};

const SECOND_NS: u64 = 1_000_000_000;

keys! {
    value("TEXT") "name": "Name of the job; on the command line, begins a new job",
        "Overrides the section name; ignored in `[global]`. Default file names derive from it."
        => |job, v| job.name = v.text.to_string();
    value("TEXT") "description": "Description to include in the results"
        => |job, v| job.plan.description = Some(v.text.to_string());
    value("COUNT") "numjobs": "Number of clones of the job", "At most 4096 clones in total, numbered from 0 in order."
        => |job, v| job.numjobs = v.count32(1, crate::JOBS_MAX)?;
    flag "stonewall" | "wait_for_previous": "Wait for all preceding jobs to end before starting"
        => |job, v| job.schedule.stonewall = v.flag()?;
    value("NAME") "wait_for": "Wait for the named job to end before starting",
        "Refused if other jobs run alongside the named job; use stonewall there."
        => |job, v| job.schedule.wait_for = Some(v.text.to_string());
    value("TIME[-TIME]") "startdelay": "Delay the start by this time; default unit: s" = start_delay;
    value("TIME") "runtime" | "timeout": "End the job after this time; default unit: s"
        => |job, v| job.plan.until.runtime_ns = Some(v.time_ns(SECOND_NS)?).filter(|ns| *ns > 0);
    flag "time_based": "Run for the full runtime, even if size is reached earlier", "Without runtime, an error."
        => |job, v| job.schedule.time_based = v.flag()?;
    value("TIME") "ramp_time": "Run this long before recording results; default unit: s"
        => |job, v| job.plan.until.ramp_ns = v.time_ns(SECOND_NS)?;
    value("COUNT") "loops": "Number of passes over size" => |job, v| {
            // As in fio, 0 is one pass.
            job.schedule.loops = v.count32(0, u32::MAX)?.max(1);
        };
    value("SIZE|N%") "io_size" | "io_limit": "Total bytes to transfer, instead of size"
        => |job, v| job.schedule.io_size = Some(v.size_or_percent()?);
    value("COUNT") "number_ios": "End the job after this many I/Os"
        => |job, v| job.schedule.ios = Some(v.bytes()?).filter(|n| *n > 0);
    flag "exitall": "End the group when this job ends",
        "Applies only to jobs that set it; in fio, one job that sets it sets it for all."
        => |job, v| job.plan.exitall = v.flag()?;
    flag "exitall_on_error": "End all jobs when this job fails" => |job, v| job.plan.exitall_on_error = v.flag()?;
    value("KIND") "exit_what": "Jobs that exitall ends: group, stonewall or all"
        => |job, v| job.plan.exit_what = v.choice(&[
            ("group", ExitWhat::Group), ("stonewall", ExitWhat::Stonewall), ("all", ExitWhat::All)
        ])?;
    flag "new_group": "Begin a new reporting group" => |job, v| job.schedule.new_group = v.flag()?;
    flag "group_reporting": "Report the jobs of a group as one" => |job, v| job.plan.group_reporting = v.flag()?;
    value("LIST") "cpus_allowed": "CPUs the job may run on, such as 0,5,8-15"
        => |job, v| job.placement.cpus = cpus::parse(v.text)?;
    value("MASK") "cpumask": "CPUs the job may run on, as a bit mask" => |job, v| {
            let mask = v.bytes()?;
            job.placement.cpus = (0..64).filter(|cpu| mask >> cpu & 1 == 1).collect();
        };
    value("shared|split") "cpus_allowed_policy": "Share all allowed CPUs among clones, or assign one to each"
        => |job, v| job.placement.split = v.choice(&[("shared", false), ("split", true)])?;
    value("LIST|!LIST|all") "numa_cpu_nodes": "NUMA nodes whose CPUs the job may run on"
        => |job, v| job.placement.nodes = Some(match (v.text, v.text.strip_prefix('!')) {
            ("all", _) => Nodes::All,
            (_, Some(list)) => Nodes::Without(cpus::parse(list)?),
            (list, None) => Nodes::Only(cpus::parse(list)?),
        });
    value("KIND[:LIST]") "numa_mem_policy": "NUMA nodes of the job's memory: default, local, prefer:NODE, bind:NODES \
         or interleave:NODES"
        = memory_policy;
    value("SIZE") "lockmem": "Memory to lock for each clone, so that others cannot use it"
        => |job, v| job.plan.placement.locked_bytes = v.bytes()?;
    value("N") "nice": "nice(2) value, -20 to 19" => |job, v| job.plan.placement.nice = v.signed(-20, 19)? as i32;
    value("N") "prio": "I/O priority, 0 to 7" => |job, v| job.placement.io_level = Some(v.count32(0, 7)? as u8);
    value("N") "prioclass": "I/O priority class: 0 none, 1 real time, 2 best effort, 3 idle"
        => |job, v| job.placement.io_class = Some(v.count32(0, 3)? as u8);
}

fn memory_policy(job: &mut JobSpec, v: KeyValue<'_>) -> Result<(), String> {
    let (kind, nodes) = v.text.split_once(':').unwrap_or((v.text, ""));
    let nodes = || cpus::parse(nodes).map_err(|why| why.replace("CPU", "node"));
    job.plan.placement.memory = match kind {
        "default" => MemoryPolicy::Default,
        "local" => MemoryPolicy::Local,
        "bind" => MemoryPolicy::Bind(nodes()?),
        "interleave" => MemoryPolicy::Interleave(nodes()?),
        "prefer" => match nodes()?.as_slice() {
            [node] => MemoryPolicy::Prefer(*node),
            _ => return Err("prefer takes one node; use prefer:0, for example".to_string()),
        },
        _ => {
            let known = "default, local, prefer:NODE, bind:NODES and interleave:NODES";
            return Err(format!("invalid value '{}'; valid values are {known}", v.text));
        }
    };
    Ok(())
}

fn start_delay(job: &mut JobSpec, v: KeyValue<'_>) -> Result<(), String> {
    let (low, high) = v.text.split_once('-').unwrap_or((v.text, v.text));
    let (low, high) =
        (v.with(low.trim()).time_ns(SECOND_NS)?, v.with(high.trim()).time_ns(SECOND_NS)?);
    if low > high {
        return Err(format!(
            "invalid range '{}': the lower bound exceeds the upper; swap them",
            v.text
        ));
    }
    job.schedule.start_delay_ns = (low, high);
    Ok(())
}
