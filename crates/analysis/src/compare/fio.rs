//! fio's JSON: figures and options of each job. It holds no machine, no samples and no verdict.

use super::differences::{Values, flat};
use super::measured::{percentile_id, unique};
use super::named::Published;
use super::{ComparedKind, Measured, MeasuredPart};
use serde_json::Value;

const DIRS: [&str; 3] = ["read", "write", "trim"];

pub fn is_fio(data: &Value) -> bool {
    data.get("fio version").is_some() && data.get("jobs").is_some_and(Value::is_array)
}

impl Measured {
    /// fio's JSON (`--output-format=json`, `json+`).
    pub fn of_fio(name: &str, data: &Value) -> Result<Self, String> {
        let jobs = data.get("jobs").and_then(Value::as_array).filter(|_| is_fio(data));
        let jobs = jobs.ok_or_else(|| {
            format!("{name} is not fio's JSON: it needs \"fio version\" and \"jobs\"; make it with --output-format=json")
        })?;
        if let Some(error) = jobs.iter().find_map(negative) {
            return Err(format!(
                "{name} is damaged: {error}, expected 0 or more; write it with fio again"
            ));
        }
        let parts: Vec<MeasuredPart> = jobs.iter().flat_map(parts).collect();
        let failed = jobs.iter().find(|job| number(job, "error").is_some_and(|error| error != 0.0));
        let text =
            |job: &Value| job.get("jobname").and_then(Value::as_str).unwrap_or("").to_string();
        let mut plan = flat(&data.get("global options"));
        plan.extend(flat(&jobs.iter().map(|job| job.get("job options")).collect::<Vec<_>>()));
        let keys = plan.into_iter().map(|(key, value)| (format!("options.{key}"), value));
        let mut settings = Values::new();
        let version = data.get("fio version").and_then(Value::as_str).unwrap_or("");
        settings.insert("fio version".into(), vec![version.to_string()]);
        let ended_ns = number(data, "timestamp_ms").map_or(0.0, |ms| ms * 1e6);
        Ok(Self {
            name: name.to_string(),
            kind: ComparedKind::Fio,
            is_fio: true,
            started_unix_ns: ended_ns.max(0.0) as u64,
            incomplete: failed.map(|job| format!("job {} failed", text(job))),
            parts: unique(parts),
            published: Published::of(data),
            plan: keys.collect(),
            settings,
            ..Self::default()
        })
    }
}

fn number(data: &Value, key: &str) -> Option<f64> {
    data.get(key)?.as_f64().filter(|number| number.is_finite())
}

/// The first figure of a job that is negative, which none can be.
fn negative(job: &Value) -> Option<String> {
    let name = job.get("jobname").and_then(Value::as_str).unwrap_or("");
    let keys = ["iops", "bw_bytes", "bw", "total_ios", "io_bytes"];
    DIRS.iter().find_map(|dir| {
        let of = |key: &&str| number(job.get(*dir)?, key).filter(|value| *value < 0.0);
        let (key, value) = keys.iter().find_map(|key| Some((key, of(key)?)))?;
        Some(format!("{dir}.{key} of job '{name}' is {value}"))
    })
}

/// A job, and each direction where there are several. Percentiles of several directions cannot be merged.
fn parts(job: &Value) -> Vec<MeasuredPart> {
    let name = job.get("jobname").and_then(Value::as_str).unwrap_or("job");
    let is_used = |dir: &&&str| {
        let ios = job.get(**dir).and_then(|dir| number(dir, "total_ios"));
        ios.is_some_and(|ios| ios > 0.0)
    };
    let used: Vec<&Value> = DIRS.iter().filter(is_used).filter_map(|dir| job.get(*dir)).collect();
    let names = DIRS.iter().filter(is_used);
    match used.as_slice() {
        [] => Vec::new(),
        [only] => vec![MeasuredPart::new(name, figures(only).into_iter().chain(whole(job, &used)))],
        several => {
            let sum = |key: &str| several.iter().map(|dir| number(dir, key)).sum::<Option<f64>>();
            let rates = [("iops", sum("iops")), ("bandwidth_bytes_per_s", sum("bw_bytes"))];
            let rates = rates.map(|(id, value)| (id.to_string(), value));
            let all = MeasuredPart::new(name, rates.into_iter().chain(whole(job, several)));
            let each = names.zip(several);
            let each =
                each.map(|(dir, of)| MeasuredPart::new(&format!("{name} {dir}"), figures(of)));
            std::iter::once(all).chain(each).collect()
        }
    }
}

/// The rates and latencies of one direction.
fn figures(dir: &Value) -> Vec<(String, Option<f64>)> {
    // Percentiles are of one of them, by default of completion latency; the mean is of the same.
    let has_percentiles = |of: &&Value| of.get("percentile").is_some();
    let latencies = ["lat_ns", "clat_ns"].into_iter().filter_map(|key| dir.get(key));
    let latency = latencies.clone().find(has_percentiles).or_else(|| latencies.clone().next_back());
    let ms = |ns: Option<f64>| ns.map(|ns| ns / 1e6);
    let known = latency.filter(|latency| number(latency, "N").is_some_and(|n| n > 0.0));
    let of = |key: &str| ms(known.and_then(|latency| number(latency, key)));
    let rates = [
        ("iops", number(dir, "iops")),
        (
            "bandwidth_bytes_per_s",
            number(dir, "bw_bytes").or_else(|| number(dir, "bw").map(|kib| kib * 1024.0)),
        ),
        ("mean_ms", of("mean")),
        ("max_ms", of("max")),
    ];
    let listed = known.and_then(|latency| latency.get("percentile")?.as_object());
    let percentiles = listed
        .into_iter()
        .flatten()
        .filter_map(|(percent, ns)| Some((percentile_id(percent.parse().ok()?), ms(ns.as_f64()))));
    rates.into_iter().map(|(id, value)| (id.to_string(), value)).chain(percentiles).collect()
}

/// What is known of a job over its directions.
fn whole(job: &Value, used: &[&Value]) -> Vec<(String, Option<f64>)> {
    let of = |key: &str| number(job, key);
    let ios: f64 = used.iter().filter_map(|dir| number(dir, "total_ios")).sum();
    let cpu_ms = of("usr_cpu").zip(of("sys_cpu")).zip(of("job_runtime"));
    let cpu_ms = cpu_ms.map(|((user, system), runtime)| (user + system) / 100.0 * runtime / ios);
    vec![("cpu_ms_per_io".to_string(), cpu_ms.filter(|ms| *ms > 0.0))]
}
