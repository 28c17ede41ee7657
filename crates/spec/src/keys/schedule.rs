//! Start, end, number and placement of jobs.

use super::Key;
use crate::job::{JobSpec, Nodes};
use crate::value::KeyValue;
use fathom_model::cpus;
use fathom_model::plan::{ExitWhat, MemoryPolicy};

const SECOND_NS: u64 = 1_000_000_000;

pub(super) const KEYS: &[Key] = &[
    Key::value(
        "name",
        "TEXT",
        "Name of the job; on the command line, begins a new job",
        |job, v| {
            job.name = v.text.to_string();
            Ok(())
        },
    )
    .differs(
        "Overrides the section name; ignored in `[global]`. Default file names derive from it.",
    ),
    Key::value("description", "TEXT", "Description to include in the results", |job, v| {
        job.plan.description = Some(v.text.to_string());
        Ok(())
    }),
    Key::value("numjobs", "COUNT", "Number of clones of the job", |job, v| {
        job.numjobs = v.count32(1, crate::JOBS_MAX)?;
        Ok(())
    })
    .differs("At most 4096 clones in total, numbered from 0 in order."),
    Key::flag("stonewall", "Wait for all preceding jobs to end before starting", |job, v| {
        job.schedule.stonewall = v.flag()?;
        Ok(())
    })
    .aliases(&["wait_for_previous"]),
    Key::value("wait_for", "NAME", "Wait for the named job to end before starting", |job, v| {
        job.schedule.wait_for = Some(v.text.to_string());
        Ok(())
    })
    .differs("Refused if other jobs run alongside the named job; use stonewall there."),
    Key::value(
        "startdelay",
        "TIME[-TIME]",
        "Delay the start by this time; default unit: s",
        start_delay,
    ),
    Key::value("runtime", "TIME", "End the job after this time; default unit: s", |job, v| {
        job.plan.until.runtime_ns = Some(v.time_ns(SECOND_NS)?).filter(|ns| *ns > 0);
        Ok(())
    })
    .aliases(&["timeout"]),
    Key::flag(
        "time_based",
        "Run for the full runtime, even if size is reached earlier",
        |job, v| {
            job.schedule.time_based = v.flag()?;
            Ok(())
        },
    )
    .differs("Without runtime, an error."),
    Key::value(
        "ramp_time",
        "TIME",
        "Run this long before recording results; default unit: s",
        |job, v| {
            job.plan.until.ramp_ns = v.time_ns(SECOND_NS)?;
            Ok(())
        },
    ),
    Key::value("loops", "COUNT", "Number of passes over size", |job, v| {
        // As in fio, 0 is one pass.
        job.schedule.loops = v.count32(0, u32::MAX)?.max(1);
        Ok(())
    }),
    Key::value("io_size", "SIZE|N%", "Total bytes to transfer, instead of size", |job, v| {
        job.schedule.io_size = Some(v.size_or_percent()?);
        Ok(())
    })
    .aliases(&["io_limit"]),
    Key::value("number_ios", "COUNT", "End the job after this many I/Os", |job, v| {
        job.schedule.ios = Some(v.bytes()?).filter(|n| *n > 0);
        Ok(())
    }),
    Key::flag("exitall", "End the group when this job ends", |job, v| {
        job.plan.exitall = v.flag()?;
        Ok(())
    })
    .differs("Applies only to jobs that set it; in fio, one job that sets it sets it for all."),
    Key::flag("exitall_on_error", "End all jobs when this job fails", |job, v| {
        job.plan.exitall_on_error = v.flag()?;
        Ok(())
    }),
    Key::value("exit_what", "KIND", "Jobs that exitall ends: group, stonewall or all", |job, v| {
        job.plan.exit_what = v.choice(&[
            ("group", ExitWhat::Group),
            ("stonewall", ExitWhat::Stonewall),
            ("all", ExitWhat::All),
        ])?;
        Ok(())
    }),
    Key::flag("new_group", "Begin a new reporting group", |job, v| {
        job.schedule.new_group = v.flag()?;
        Ok(())
    }),
    Key::flag("group_reporting", "Report the jobs of a group as one", |job, v| {
        job.plan.group_reporting = v.flag()?;
        Ok(())
    }),
    Key::value("cpus_allowed", "LIST", "CPUs the job may run on, such as 0,5,8-15", |job, v| {
        job.placement.cpus = cpus::parse(v.text)?;
        Ok(())
    }),
    Key::value("cpumask", "MASK", "CPUs the job may run on, as a bit mask", |job, v| {
        let mask = v.bytes()?;
        job.placement.cpus = (0..64).filter(|cpu| mask >> cpu & 1 == 1).collect();
        Ok(())
    }),
    Key::value(
        "cpus_allowed_policy",
        "shared|split",
        "Share all allowed CPUs among clones, or assign one to each",
        |job, v| {
            job.placement.split = v.choice(&[("shared", false), ("split", true)])?;
            Ok(())
        },
    ),
    Key::value(
        "numa_cpu_nodes",
        "LIST|!LIST|all",
        "NUMA nodes whose CPUs the job may run on",
        |job, v| {
            job.placement.nodes = Some(match (v.text, v.text.strip_prefix('!')) {
                ("all", _) => Nodes::All,
                (_, Some(list)) => Nodes::Without(cpus::parse(list)?),
                (list, None) => Nodes::Only(cpus::parse(list)?),
            });
            Ok(())
        },
    ),
    Key::value(
        "numa_mem_policy",
        "KIND[:LIST]",
        "NUMA nodes of the job's memory: default, local, prefer:NODE, bind:NODES or interleave:NODES",
        memory_policy,
    ),
    Key::value(
        "lockmem",
        "SIZE",
        "Memory to lock for each clone, so that others cannot use it",
        |job, v| {
            job.plan.placement.locked_bytes = v.bytes()?;
            Ok(())
        },
    ),
    Key::value("nice", "N", "nice(2) value, -20 to 19", |job, v| {
        job.plan.placement.nice = v.signed(-20, 19)? as i32;
        Ok(())
    }),
    Key::value("prio", "N", "I/O priority, 0 to 7", |job, v| {
        job.placement.io_level = Some(v.count32(0, 7)? as u8);
        Ok(())
    }),
    Key::value(
        "prioclass",
        "N",
        "I/O priority class: 0 none, 1 real time, 2 best effort, 3 idle",
        |job, v| {
            job.placement.io_class = Some(v.count32(0, 3)? as u8);
            Ok(())
        },
    ),
];

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
