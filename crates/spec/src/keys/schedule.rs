//! Start, end, number and placement of jobs.

use crate::job::{Job, Nodes};
use crate::value::KeyValue;
use fathom_model::cpus;
use fathom_model::plan::{ExitWhat, MemoryPolicy, SteadyFigure, UntilSteady};

const SECOND_NS: u64 = 1_000_000_000;
/// Class and level of a job that sets one of them: as in fio, a level without a class means best effort.
const BEST_EFFORT: (u8, u8) = (2, 0);

keys! { Schedule;
    value("TEXT") "name": "Name of the job; on the command line, begins a new job",
        "Overrides the section name; ignored in `[global]`. Default file names derive from it."
        => |job, v| job.name = v.text.to_string();
    value("TEXT") "description": "Description to include in the results"
        => description = some_text();
    value("COUNT") "numjobs": "Number of clones of the job", "At most 4096 clones in total, numbered from 0 in order."
        => numjobs = count32(1, crate::JOBS_MAX);
    any "stonewall" | "wait_for_previous": "Wait for all preceding jobs to end before starting" -> stonewall;
    value("NAME") "wait_for": "Wait for the named job to end before starting",
        "Refused if other jobs run alongside the named job; use stonewall there."
        => wait_for = some_text();
    value("TIME[-TIME]") "startdelay": "Delay the start by this time; default unit: s"
        => startdelay_ns = range(&['-'], |v| v.time_ns(SECOND_NS));
    value("TIME") "runtime" | "timeout": "End the job after this time; default unit: s"
        => |job, v| job.until.runtime_ns = Some(v.time_ns(SECOND_NS)?).filter(|ns| *ns > 0);
    any "time_based": "Run for the full runtime, even if size is reached earlier", "Without runtime, an error."
        -> time_based;
    value("TIME") "ramp_time": "Run this long before recording results; default unit: s"
        => until.ramp_ns = time_ns(SECOND_NS);
    value("COUNT") "loops": "Number of passes over size" => |job, v| {
            // As in fio, 0 is one pass.
            job.loops = v.count32(0, u32::MAX)?.max(1);
        };
    value("SIZE|N%") "io_size" | "io_limit": "Total bytes to transfer, instead of size"
        => |job, v| job.io_size = Some(v.size_or_percent()?);
    flag "fill_device" | "fill_fs": "Write until there is no space left, which ends the job without an error",
        "Sequential writes only. As everywhere, existing files and devices need `--overwrite=` or `--erase=`."
        @(e if e.moves_data()) -> until.full;
    value("COUNT") "number_ios": "End the job after this many I/Os"
        => until.ios = nonzero();
    value("CRITERION:LIMIT") "steadystate" | "ss": "End the job at steady state: iops, bw or lat, or the slope of one (iops_slope)",
        "The limit of bw is in bytes per second, that of lat a time; or a percentage of the mean."
        = steady;
    value("TIME") "steadystate_duration" | "ss_dur": "Time for which it must be steady; default unit: s"
        => steady.duration_ns = time_ns(SECOND_NS);
    value("TIME") "steadystate_ramp_time" | "ss_ramp": "Time before it is looked for; default unit: s"
        => steady.ramp_ns = time_ns(SECOND_NS);
    value("TIME") "steadystate_check_interval" | "ss_interval": "Time between two figures; default unit: s"
        => |job, v| job.steady.interval_ns = v.time_ns(SECOND_NS)?.max(SECOND_NS);
    any "exitall": "End the group when this job ends",
        "Applies only to jobs that set it; in fio, one job that sets it sets it for all." -> exitall;
    any "exitall_on_error": "End all jobs when this job fails" -> exitall_on_error;
    value("KIND") "exit_what": "Jobs that exitall ends: group, stonewall or all"
        => exit_what = choice(&[
            ("group", ExitWhat::Group), ("stonewall", ExitWhat::Stonewall), ("all", ExitWhat::All)
        ]);
    any "new_group": "Begin a new reporting group" -> new_group;
    any "group_reporting": "Report the jobs of a group as one" -> group_reporting;
    value("LIST") "cpus_allowed": "CPUs the job may run on, such as 0,5,8-15"
        => |job, v| job.placement.cpus = cpus::parse(v.text)?;
    value("MASK") "cpumask": "CPUs the job may run on, as a bit mask" => |job, v| {
            let mask = v.bytes()?;
            job.placement.cpus = (0..64).filter(|cpu| mask >> cpu & 1 == 1).collect();
        };
    value("shared|split") "cpus_allowed_policy": "Share all allowed CPUs among clones, or assign one to each"
        => cpus_split = choice(&[("shared", false), ("split", true)]);
    value("LIST|!LIST|all") "numa_cpu_nodes": "NUMA nodes whose CPUs the job may run on"
        => |job, v| job.numa_cpu_nodes = Some(match (v.text, v.text.strip_prefix('!')) {
            ("all", _) => Nodes::All,
            (_, Some(list)) => Nodes::Without(cpus::parse(list)?),
            (list, None) => Nodes::Only(cpus::parse(list)?),
        });
    value("KIND[:LIST]") "numa_mem_policy": "NUMA nodes of the job's memory: default, local, prefer:NODE, bind:NODES \
         or interleave:NODES"
        = memory_policy;
    value("SIZE") "lockmem": "Memory to lock for each clone, so that others cannot use it"
        => placement.locked_bytes = bytes();
    value("NUMBER") "uid": "User that the job does its I/O as",
        "Targets are opened and laid out before, as the user that started fathom."
        => |job, v| job.placement.user = Some(v.count32(0, u32::MAX - 1)?);
    value("NUMBER") "gid": "Group that the job does its I/O as", "As with uid."
        => |job, v| job.placement.group = Some(v.count32(0, u32::MAX - 1)?);
    value("N") "nice": "nice(2) value, -20 to 19" => |job, v| job.placement.nice = v.signed(-20, 19)? as i32;
    value("N") "prio": "I/O priority, 0 to 7"
        => |job, v| job.placement.io_priority.get_or_insert(BEST_EFFORT).1 = v.count32(0, 7)? as u8;
    value("N") "prioclass": "I/O priority class: 0 none, 1 real time, 2 best effort, 3 idle"
        => |job, v| job.placement.io_priority.get_or_insert(BEST_EFFORT).0 = v.count32(0, 3)? as u8;
}

fn memory_policy(job: &mut Job, v: KeyValue<'_>) -> Result<(), String> {
    let (kind, nodes) = v.text.split_once(':').unwrap_or((v.text, ""));
    let nodes = || cpus::parse(nodes).map_err(|why| why.replace("CPU", "node"));
    job.placement.memory = match kind {
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

/// `iops_slope:0.3%`
fn steady(job: &mut Job, v: KeyValue<'_>) -> Result<(), String> {
    let (name, limit) = v
        .text
        .split_once(':')
        .ok_or_else(|| format!("'{}' has no limit; use a form such as iops_slope:0.3%", v.text))?;
    let (figure, slope) = match name.strip_suffix("_slope") {
        Some(figure) => (figure, true),
        None => (name, false),
    };
    let figures = SteadyFigure::ALL.map(|figure| (figure.name(), figure));
    let figure = v.with(figure).choice(&figures)?;
    let number = |text: &str| {
        let number = text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
        number.ok_or_else(|| format!("'{limit}' is no limit; use a number or a percentage"))
    };
    // `%%` is `%`, as Python's configparser writes it.
    let (limit, percent) = match (limit.strip_suffix("%%").or(limit.strip_suffix('%')), figure) {
        (Some(percent), _) => (number(percent)?, true),
        (None, SteadyFigure::Iops) => (number(limit)?, false),
        (None, SteadyFigure::Bandwidth) => (v.with(limit).bytes()? as f64, false),
        (None, SteadyFigure::Latency) => (v.with(limit).time_ns(1)? as f64, false),
    };
    job.steady = UntilSteady { figure, slope, limit, percent, ..job.steady };
    job.ends_steady = true;
    Ok(())
}
