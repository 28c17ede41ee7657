//! fio's normal output, from the JSON form of the same record, for programs that read it (`IOPS=`).

use crate::fio;
use crate::fio_json::{self, direction_name};
use fathom_analysis::watch::Observed;
use fathom_model::plan::{Idleness, JobPlan};
use fathom_model::{Dir, RunRecord};
use serde_json::{Map, Value};
use std::fmt::Write;

pub const FIO_VERSION: &str = "fio-3.42";

const DIRS: [&str; 3] = ["read", "write", "trim"];
/// All directions combined (`unified_rw_reporting`).
const MIXED: &str = "mixed";

macro_rules! line {
    ($out:expr, $($text:tt)*) => {
        // Writing to a string cannot fail.
        let _ = writeln!($out, $($text)*);
    };
}

/// The result of the process `pid`.
pub fn render(record: &RunRecord, pid: u32) -> String {
    heading(&record.plan.jobs) + &results(record, pid)
}

/// The same without the lines with which fio begins.
pub fn results(record: &RunRecord, pid: u32) -> String {
    of_json(&fio_json::value(record), pid)
}

/// What fio prints after that with `--idle-prof`; empty without samples of the CPUs.
pub fn idleness(record: &RunRecord, observed: Option<&Observed>) -> String {
    let idle = fio::idle_percent(record, observed);
    let Some(wanted) = record.plan.idleness.filter(|_| !idle.is_empty()) else {
        return String::new();
    };
    let mean = idle.values().sum::<f64>() / idle.len().max(1) as f64;
    let mut text = format!("\nCPU idleness:\n  system: {mean:3.2}%\n");
    if wanted == Idleness::PerCpu {
        let each: Vec<String> = idle.values().map(|percent| format!("{percent:3.2}%")).collect();
        line!(text, "  percpu: {}", each.join(", "));
    }
    line!(text, "  unit work: mean=0.00us, stddev=0.00");
    text
}

/// The lines with which fio begins: what the jobs are.
pub fn heading(jobs: &[JobPlan]) -> String {
    let mut text = String::new();
    for (index, job) in jobs.iter().enumerate().filter(|(_, job)| job.clone == 0) {
        let sizes = |dir: Dir| {
            let sizes = &job.access.block_sizes[dir];
            let [min, max] = [sizes.min(), sizes.max()].map(|n| short(n, 4, 1024, "B"));
            format!("({}) {min}-{max}", dir.name()[..1].to_uppercase())
        };
        line!(
            text,
            "{}: (g={}): rw={}, bs={}, ioengine={}, iodepth={}",
            job.name,
            job.group,
            direction_name(job),
            Dir::ALL.map(sizes).join(", "),
            job.engine.name(),
            // As requested, also where the engine does one at a time.
            job.options.get("iodepth").unwrap_or(&job.depth.to_string())
        );
        if jobs.get(index + 1).is_some_and(|next| next.clone > 0) {
            line!(text, "...");
        }
    }
    let is_thread = |job: &&JobPlan| job.options.get("thread").is_some_and(|value| value != "0");
    let threads = jobs.iter().filter(is_thread).count();
    let counted = |n: usize, one: &str, many: &str| {
        (n > 0).then(|| format!("{n} {}", if n == 1 { one } else { many }))
    };
    let kinds = [
        counted(threads, "thread", "threads"),
        counted(jobs.len() - threads, "process", "processes"),
    ];
    let kinds: Vec<String> = kinds.into_iter().flatten().collect();
    line!(text, "{FIO_VERSION}\nStarting {}", kinds.join(" and "));
    text
}

/// The text that fio would print for `json`, its own result or fathom's.
fn of_json(json: &Value, pid: u32) -> String {
    let jobs = json["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut text = "\n".to_string();
    let globals = &json["global options"];
    let did = |job: &&Value| {
        DIRS.into_iter().chain([MIXED]).any(|dir| number(&job[dir]["total_ios"]) > 0.0)
    };
    let ended = format!("pid={pid}: {}", json["time"].as_str().unwrap_or_default());
    for (index, job) in jobs.iter().enumerate().filter(|(_, job)| did(job)) {
        let more = &json["fathom"]["jobs"][index];
        job_text(&mut text, job, more, &ended, Form::of(job, globals));
    }
    groups(&mut text, jobs, globals);
    disks(&mut text, json["disk_util"].as_array());
    text
}

/// How rates and sizes are written.
#[derive(Clone, Copy)]
struct Form {
    /// `significant_figures`
    digits: usize,
    /// `kb_base`
    base: u64,
    /// `unit_base`
    bits: bool,
}

impl Form {
    fn of(job: &Value, globals: &Value) -> Self {
        let given = |key: &str| {
            let in_options = |options: &Value| options[key].as_str()?.parse().ok();
            in_options(&job["job options"]).or_else(|| in_options(globals))
        };
        Self {
            digits: given("significant_figures").unwrap_or(4) as usize,
            base: given("kb_base").unwrap_or(1024),
            bits: given("unit_base") == Some(1),
        }
    }

    /// In units of `kb_base`, and in the others.
    fn both(self, n: u64, unit: &str) -> [String; 2] {
        let other = if self.base == 1024 { 1000 } else { 1024 };
        [self.base, other].map(|base| short(n, self.digits, base, unit))
    }

    fn rate(self, bytes: u64) -> [String; 2] {
        match self.bits {
            true => self.both(bytes.saturating_mul(8), "bit/s"),
            false => self.both(bytes, "B/s"),
        }
    }

    fn size(self, bytes: u64) -> [String; 2] {
        self.both(bytes, "B")
    }

    /// The unit of samples of the bandwidth with this mean in KiB/s, and by what these are multiplied.
    fn samples(self, mean: f64) -> (&'static str, f64) {
        let (base, factor) = (self.base as f64, if self.bits { 8.0 } else { 1.0 });
        match (mean * factor > base * base, self.bits) {
            (true, true) => ("Mibit", factor / base),
            (true, false) => ("MiB", factor / base),
            (false, true) => (if self.base == 1024 { "Kibit" } else { "kbit" }, factor),
            (false, false) => (if self.base == 1024 { "KiB" } else { "kB" }, factor),
        }
    }
}

/// What the system calls an errno.
fn reason(errno: f64) -> String {
    match errno as i32 {
        0 => "Success".to_string(),
        errno => {
            let text = std::io::Error::from_raw_os_error(errno).to_string();
            text.split(" (os error").next().unwrap_or_default().to_string()
        }
    }
}

/// `more` is what fathom knows of the job besides; `ended` says which process did it, and when.
fn job_text(out: &mut String, job: &Value, more: &Value, ended: &str, form: Form) {
    let clones = more["workers"].as_u64().unwrap_or(1);
    let resets = more["zone_resets"].as_u64();
    let resets = resets.map(|resets| format!("; {resets} zone resets")).unwrap_or_default();
    let error = number(&job["error"]);
    let why = if error == 0.0 { String::new() } else { format!(" ({})", reason(error)) };
    line!(
        out,
        "{}: (groupid={}, jobs={clones}): err={error:2}{why}: {ended}",
        job["jobname"].as_str().unwrap_or_default(),
        job["groupid"]
    );
    if let Some(text) = job["desc"].as_str() {
        line!(out, "  Description  : [{text}]");
    }
    for name in DIRS.into_iter().chain([MIXED]) {
        let dir = &job[name];
        // Writes that were only counted took no time.
        let took = number(&dir["runtime"]) > 0.0 || number(&dir["bw_bytes"]) > 0.0;
        if number(&dir["total_ios"]) > 0.0 && took {
            direction(out, dir, name, &resets, form);
        }
    }
    for (unit, key) in [("nsec", "latency_ns"), ("usec", "latency_us"), ("msec", "latency_ms")] {
        distribution(out, unit, job[key].as_object());
    }
    if number(&job["sync"]["lat_ns"]["N"]) > 0.0 {
        line!(out, "  fsync/fdatasync/sync_file_range/syncfs:");
        summary(out, "sync", &job["sync"]["lat_ns"]);
        percentiles(out, "sync", job["sync"]["lat_ns"]["percentile"].as_object());
    }
    line!(
        out,
        "  cpu          : usr={:3.2}%, sys={:3.2}%, ctx={}, majf={}, minf={}",
        number(&job["usr_cpu"]),
        number(&job["sys_cpu"]),
        job["ctx"],
        job["majf"],
        job["minf"]
    );
    let depths = [
        ("  IO depths    ", "level"),
        ("     submit    ", "submit"),
        ("     complete  ", "complete"),
    ];
    for (name, key) in depths {
        let shares = job[format!("iodepth_{key}")].as_object().map(|map| {
            let share = |(depth, share): (&str, f64)| format!("{depth}={share:.1}%");
            ascending(map).into_iter().map(share).collect::<Vec<_>>().join(", ")
        });
        line!(out, "{name}: {}", shares.unwrap_or_default());
    }
    // As in fio, the first is that of all directions where only these are reported.
    let names = if job[DIRS[0]].is_null() { [MIXED, DIRS[1], DIRS[2]] } else { DIRS };
    let counts = |figure: &str| names.map(|dir| number(&job[dir][figure]).to_string()).join(",");
    line!(
        out,
        "     issued rwts: total={},{} short={},0 dropped={},0",
        counts("total_ios"),
        number(&job["sync"]["total_ios"]),
        counts("short_ios"),
        counts("drop_ios")
    );
    if !job["total_err"].is_null() {
        let first = number(&job["first_error"]);
        let total = &job["total_err"];
        line!(out, "     errors    : total={total}, first_error={first}/<{}>", reason(first));
    }
    line!(
        out,
        "     latency   : target={:.2}ns, window={:.2}ns, percentile={:.2}%, depth={}",
        number(&job["latency_target"]),
        number(&job["latency_window"]),
        number(&job["latency_percentile"]),
        number(&job["latency_depth"])
    );
    steady(out, &job["steadystate"]);
}

fn steady(out: &mut String, steady: &Value) {
    if steady.is_null() {
        return;
    }
    let data = &steady["data"];
    let bytes = number(&data["bw_mean"]) as u64;
    let name = steady["ss"].as_str().and_then(|ss| ss.split(':').next()).unwrap_or_default();
    let (figure, how) = match name.strip_suffix("_slope") {
        Some(figure) => (figure, "slope"),
        None => (name, "mean dev"),
    };
    let criterion = steady["criterion"].as_str().unwrap_or_default();
    let percent = if criterion.ends_with('%') { "%" } else { "" };
    let value: f64 = criterion.trim_end_matches('%').parse().unwrap_or(0.0);
    line!(
        out,
        "  steadystate  : attained={}, bw={} ({}), iops={}, {figure} {how}={value:.3}{percent}",
        if number(&steady["attained"]) > 0.0 { "yes" } else { "no" },
        short(bytes, 4, 1024, "B/s"),
        short(bytes, 4, 1000, "B/s"),
        short(number(&data["iops_mean"]) as u64, 4, 1000, ""),
    );
}

fn direction(out: &mut String, dir: &Value, name: &str, resets: &str, form: Form) {
    let [rate, other] = form.rate(number(&dir["bw_bytes"]) as u64);
    let [size, _] = form.size(number(&dir["io_bytes"]) as u64);
    line!(
        out,
        "  {name}: IOPS={}, BW={rate} ({other})({size}/{}msec){resets}",
        short(number(&dir["iops"]) as u64, form.digits, 1000, ""),
        dir["runtime"]
    );
    for kind in ["slat", "clat", "lat"] {
        let latency = &dir[format!("{kind}_ns")];
        if number(&latency["N"]) > 0.0 {
            summary(out, kind, latency);
        }
    }
    let priorities = dir["prios"].as_array().map(Vec::as_slice).unwrap_or_default();
    let priorities: Vec<(String, &Value)> = priorities.iter().filter_map(priority).collect();
    priorities.iter().for_each(|(name, latency)| summary(out, name, latency));
    for kind in ["clat", "lat", "slat"] {
        percentiles(out, kind, dir[format!("{kind}_ns")]["percentile"].as_object());
    }
    let total: f64 = priorities.iter().map(|(_, latency)| number(&latency["N"])).sum();
    for (name, latency) in &priorities {
        let share = 100.0 * number(&latency["N"]) / total;
        let name = format!("{name} ({share:.2}% of IOs)");
        percentiles(out, &name, latency["percentile"].as_object());
    }
    if number(&dir["bw_samples"]) > 0.0 {
        let (unit, factor) = form.samples(number(&dir["bw_mean"]));
        let bw = |figure: &str| number(&dir[figure]) * factor;
        line!(
            out,
            "   bw ({unit:>5}/s): min={:5.0}, max={:5.0}, per={:3.2}%, avg={:5.2}, stdev={:5.2}, samples={}",
            bw("bw_min").floor(),
            bw("bw_max").floor(),
            number(&dir["bw_agg"]),
            bw("bw_mean"),
            bw("bw_dev"),
            dir["bw_samples"]
        );
        line!(
            out,
            "   iops        : min={:5}, max={:5}, avg={:5.2}, stdev={:5.2}, samples={}",
            number(&dir["iops_min"]),
            number(&dir["iops_max"]),
            number(&dir["iops_mean"]),
            number(&dir["iops_stddev"]),
            dir["iops_samples"]
        );
    }
}

/// The name of one priority of `prios`, and its latencies.
fn priority(one: &Value) -> Option<(String, &Value)> {
    let kinds = ["clat", "lat"].map(|kind| (kind, &one[format!("{kind}_ns")]));
    let (kind, latency) = kinds.into_iter().find(|(_, latency)| latency.is_object())?;
    Some((format!("{kind} prio {}/{}/{}", one["prioclass"], one["prio"], one["priohint"]), latency))
}

/// One kind of latency, in the unit that fio would choose.
fn summary(out: &mut String, kind: &str, latency: &Value) {
    let [min, max, mean, deviation] =
        ["min", "max", "mean", "stddev"].map(|figure| number(&latency[figure]));
    let above = |min_ns, max_ns, ns| min > min_ns && max > max_ns && deviation > ns;
    let (unit, divisor) = if above(2e6, 99_999_999.0, 1e6) {
        ("msec", 1e6)
    } else if above(2e3, 99_999.0, 1e3) {
        ("usec", 1e3)
    } else {
        ("nsec", 1.0)
    };
    let whole = |ns: f64| short((ns / divisor) as u64, 6, 1000, "");
    line!(
        out,
        "    {kind:>4} ({unit}): min={}, max={}, avg={:5.2}, stdev={:5.2}",
        whole(min),
        whole(max),
        mean / divisor,
        deviation / divisor
    );
}

fn percentiles(out: &mut String, kind: &str, listed: Option<&Map<String, Value>>) {
    let Some(listed) = listed.filter(|listed| !listed.is_empty()) else { return };
    let entries =
        listed.iter().filter_map(|(percent, ns)| Some((percent.parse().ok()?, ns.as_u64()?)));
    let mut entries: Vec<(f64, u64)> = entries.collect();
    entries.sort_by(|a, b| a.0.total_cmp(&b.0));
    let least = entries.first().map_or(0, |entry| entry.1);
    let (unit, divisor) = match least {
        2_000_001.. => ("msec", 1_000_000),
        2_001.. => ("usec", 1_000),
        _ => ("nsec", 1),
    };
    let scaled = |ns: u64| (ns + divisor / 2) / divisor;
    let most = entries.iter().map(|entry| scaled(entry.1)).max().unwrap_or(0);
    let width = most.to_string().len().max(5);
    let per_line = 73 / (width + 12);
    line!(out, "    {kind} percentiles ({unit}):");
    for (index, chunk) in entries.chunks(per_line).enumerate() {
        let cells =
            chunk.iter().map(|(percent, ns)| format!("{percent:5.2}th=[{:width$}]", scaled(*ns)));
        let last = (index + 1) * per_line >= entries.len();
        let text = cells.collect::<Vec<_>>().join(", ");
        line!(out, "     | {text}{}", if last { "" } else { "," });
    }
}

fn distribution(out: &mut String, unit: &str, buckets: Option<&Map<String, Value>>) {
    let shares: Vec<String> = buckets
        .map(ascending)
        .unwrap_or_default()
        .into_iter()
        .filter(|(_, share)| *share >= 0.01)
        .map(|(bound, share)| format!("{bound}={share:.2}%"))
        .collect();
    for chunk in shares.chunks(5) {
        line!(out, "  lat ({unit})   : {}", chunk.join(", "));
    }
}

fn groups(out: &mut String, jobs: &[Value], globals: &Value) {
    let mut numbers: Vec<u64> = jobs.iter().filter_map(|job| job["groupid"].as_u64()).collect();
    numbers.dedup();
    for group in numbers {
        line!(out, "\nRun status group {group} (all jobs):");
        let members = || jobs.iter().filter(|job| job["groupid"] == group);
        // As in fio, those of the group's last job.
        let form = Form::of(members().next_back().unwrap_or(&Value::Null), globals);
        for key in DIRS.into_iter().chain([MIXED]) {
            let name = key.to_uppercase();
            let dirs: Vec<&Value> = members()
                .map(|job| &job[key])
                .filter(|dir| number(&dir["total_ios"]) > 0.0)
                .collect();
            let rates = dirs.iter().map(|dir| number(&dir["bw_bytes"]) as u64);
            let runtimes = || dirs.iter().map(|dir| number(&dir["runtime"]) as u64);
            let bytes: u64 = dirs.iter().map(|dir| number(&dir["io_bytes"]) as u64).sum();
            let (Some(least), Some(most)) = (rates.clone().min(), rates.max()) else { continue };
            let (shortest, longest) =
                (runtimes().min().unwrap_or(0), runtimes().max().unwrap_or(0));
            let total = bytes * 1000 / longest.max(1);
            let (total, least, most) = (form.rate(total), form.rate(least), form.rate(most));
            let size = form.size(bytes);
            line!(
                out,
                "  {name:>5}: bw={} ({}), {}-{} ({}-{}), io={} ({}), run={shortest}-{longest}msec",
                total[0],
                total[1],
                least[0],
                most[0],
                least[1],
                most[1],
                size[0],
                size[1]
            );
        }
    }
}

fn disks(out: &mut String, disks: Option<&Vec<Value>>) {
    let Some(disks) = disks.filter(|disks| !disks.is_empty()) else { return };
    line!(out, "\nDisk stats (read/write):");
    for disk in disks {
        let pair = |figure: &str| {
            format!("{}/{}", disk[format!("read_{figure}")], disk[format!("write_{figure}")])
        };
        line!(
            out,
            "  {}: ios={}, sectors={}, merge={}, ticks={}, in_queue={}, util={:.2}%",
            disk["name"].as_str().unwrap_or_default(),
            pair("ios"),
            pair("sectors"),
            pair("merges"),
            pair("ticks"),
            disk["in_queue"],
            number(&disk["util"])
        );
    }
}

/// The entries of a map from numbers, with `>=64` and the like last.
fn ascending(map: &Map<String, Value>) -> Vec<(&str, f64)> {
    let mut entries: Vec<(&str, f64)> =
        map.iter().map(|(bound, share)| (bound.as_str(), number(share))).collect();
    entries.sort_by_key(|(bound, _)| bound.parse::<u64>().unwrap_or(u64::MAX));
    entries
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

/// `n` in at most `digits` characters besides its unit: num2str() of fio's lib/num2str.c.
fn short(mut n: u64, digits: usize, base: u64, unit: &str) -> String {
    let prefixes = if base == 1024 {
        ["", "Ki", "Mi", "Gi", "Ti", "Pi"]
    } else {
        ["", "k", "M", "G", "T", "P"]
    };
    let mut rest = None;
    let mut power = 0;
    while n.to_string().len() > digits && power + 1 < prefixes.len() {
        (rest, n) = (Some(n % base), n / base);
        power += 1;
    }
    let prefix = prefixes[power];
    let length = n.to_string().len();
    match rest {
        Some(rest) if length + 1 < digits => {
            let decimals = digits - length - 1;
            let fraction = format!("{:.decimals$}", rest as f64 / base as f64);
            // As in fio, a fraction that rounds up to 1 shows as 0.
            format!("{n}{}{prefix}{unit}", &fraction[1..])
        }
        Some(rest) => format!("{}{prefix}{unit}", n + u64::from(rest >= base / 2)),
        None => format!("{n}{prefix}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::plan::{BlockSizes, Distribution, Engine, Mix, Order};
    use serde_json::json;

    #[test]
    fn numbers_are_as_short_as_fio_s() {
        // From the output of fio 3.33.
        for (n, digits, base, unit, text) in [
            (14_441, 4, 1000, "", "14.4k"),
            (93_090, 4, 1000, "", "93.1k"),
            (341_000, 4, 1000, "", "341k"),
            (59_151_058, 4, 1024, "B/s", "56.4MiB/s"),
            (59_151_058, 4, 1000, "B/s", "59.2MB/s"),
            (4_194_304, 4, 1024, "B", "4096KiB"),
            (4_022_272, 4, 1024, "B", "3928KiB"),
            (4_022_272, 4, 1000, "B", "4022kB"),
            (3_734_800, 6, 1000, "", "3734.8k"),
            (61_982, 6, 1000, "", "61982"),
        ] {
            assert_eq!(short(n, digits, base, unit), text, "{n}");
        }
    }

    #[test]
    fn a_result_as_fio_prints_it() {
        let mut json = json!({
            "jobs": [{
                "jobname": "a", "groupid": 0, "error": 0, "job options": {},
                "read": {
                    "total_ios": 982, "io_bytes": 4_022_272, "bw_bytes": 59_151_058, "iops": 14441.1,
                    "runtime": 68, "short_ios": 0, "drop_ios": 0,
                    "clat_ns": {
                        "min": 18_000, "max": 15_105_000, "mean": 131_180.0, "stddev": 795_030.0,
                        "N": 982, "percentile": { "1.000000": 22_100, "99.990000": 15_139_000 }
                    }
                },
                "usr_cpu": 0.0, "sys_cpu": 14.285, "ctx": 979, "majf": 0, "minf": 23,
                "latency_us": { "50": 22.22, "100": 0.0 },
                "iodepth_level": { "1": 100.0, "2": 0.0, "16": 0.0, ">=64": 0.0 },
                "latency_percentile": 100.0, "latency_depth": 1
            }],
            "disk_util": [{
                "name": "vda", "read_sectors": 8, "write_sectors": 16, "read_ios": 1, "write_ios": 2, "read_merges": 0, "write_merges": 0,
                "read_ticks": 3, "write_ticks": 4, "in_queue": 5, "util": 6.0
            }]
        });
        json["time"] = "Sat Nov 28 10:32:08 2026".into();
        let text = of_json(&json, 7);
        for expected in [
            "\na: (groupid=0, jobs=1): err= 0: pid=7: Sat Nov 28 10:32:08 2026\n",
            "  read: IOPS=14.4k, BW=56.4MiB/s (59.2MB/s)(3928KiB/68msec)\n",
            "    clat (usec): min=18, max=15105, avg=131.18, stdev=795.03\n",
            "    clat percentiles (usec):\n     |  1.00th=[   22], 99.99th=[15139]\n",
            "  lat (usec)   : 50=22.22%\n",
            "  cpu          : usr=0.00%, sys=14.29%, ctx=979, majf=0, minf=23\n",
            "  IO depths    : 1=100.0%, 2=0.0%, 16=0.0%, >=64=0.0%\n",
            "     issued rwts: total=982,0,0,0 short=0,0,0,0 dropped=0,0,0,0\n",
            "\nRun status group 0 (all jobs):\n   READ: bw=56.4MiB/s (59.2MB/s), ",
            "io=3928KiB (4022kB), run=68-68msec\n",
            "  vda: ios=1/2, sectors=8/16, merge=0/0, ticks=3/4, in_queue=5, util=6.00%\n",
        ] {
            assert!(text.contains(expected), "{expected}\nis not in\n{text}");
        }
        json["global options"] = json!({ "significant_figures": "6" });
        let text = of_json(&json, 7);
        for expected in ["IOPS=14441, BW=57765KiB/s (59151kB/s)(3928.0KiB/68msec)", "bw=57765KiB/s"]
        {
            assert!(text.contains(expected), "{expected}\nis not in\n{text}");
        }
        json["global options"] = json!({ "unit_base": "1" });
        json["jobs"][0]["job options"] = json!({ "kb_base": "1000" });
        json["jobs"][0]["total_err"] = json!(3);
        json["jobs"][0]["first_error"] = json!(5);
        json["jobs"][0]["sync"] = json!({ "lat_ns": {
            "min": 211_000, "max": 266_000, "mean": 238_970.0, "stddev": 38_870.0, "N": 2,
            "percentile": { "50.000000": 212_000 }
        } });
        let text = of_json(&json, 7);
        for expected in [
            "BW=473Mbit/s (451Mibit/s)(4022kB/68msec)",
            "io=4022kB (3928KiB)",
            "     errors    : total=3, first_error=5/<Input/output error>\n",
            "  fsync/fdatasync/sync_file_range/syncfs:\n    sync (usec): min=211, max=266, avg=238.97, stdev=38.87\n    \
             sync percentiles (usec):\n     | 50.00th=[  212]\n",
        ] {
            assert!(text.contains(expected), "{expected}\nis not in\n{text}");
        }
    }

    #[test]
    fn jobs_are_announced_as_by_fio() {
        let order = Order::Random { distribution: Distribution::EachOnce, run: 1 };
        let mut job = JobPlan::new("w", Engine::Libaio, Mix::ReadWrite { read_percent: 50 }, order);
        job.access.block_sizes.write = BlockSizes::Range { min: 4096, max: 16384 };
        let mut thread = JobPlan { clone: 1, ..job.clone() };
        thread.options.insert("thread".into(), "1".into());
        let last = JobPlan { name: "r".into(), group: 1, ..job.clone() };
        let text = heading(&[job, thread, last]);
        let sizes =
            "bs=(R) 4096B-4096B, (W) 4096B-16.0KiB, (T) 4096B-4096B, ioengine=libaio, iodepth=1";
        let expected = format!(
            "w: (g=0): rw=randrw, {sizes}\n...\nr: (g=1): rw=randrw, {sizes}\n\
             fio-3.42\nStarting 1 thread and 2 processes\n"
        );
        assert_eq!(text, expected);
    }
}
