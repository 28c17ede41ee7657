//! The tools: command lines and output parsers.

use crate::Result;
use serde_json::Value;
use std::path::Path;

/// A tool under comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Fathom,
    Fio,
    /// fio with all keys that reduce its cost.
    FioTuned,
    TIoUring,
    /// t/io_uring, submitting half of the queue depth per call.
    TIoUringHalf,
    /// fathom again, as a control (A/A).
    Again,
    /// fathom with default sampling.
    WatchDefault,
    /// fathom with full sampling.
    WatchFull,
}

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Seconds(u32),
    Ios(u64),
}

impl Tool {
    pub fn name(self) -> &'static str {
        match self {
            Tool::Fathom => "fathom",
            Tool::Fio => "fio",
            Tool::FioTuned => "fio, tuned",
            Tool::TIoUring => "t/io_uring",
            Tool::TIoUringHalf => "t/io_uring -s depth/2",
            Tool::Again => "fathom, again",
            Tool::WatchDefault => "fathom --sampling=default",
            Tool::WatchFull => "fathom --sampling=full",
        }
    }

    /// Whether it is a variant of fathom, judged relative to fathom's figure.
    pub fn is_variant(self) -> bool {
        matches!(self, Tool::Again | Tool::WatchDefault | Tool::WatchFull)
    }

    /// The program that it is.
    pub fn program(self) -> &'static str {
        match self {
            Tool::Fio | Tool::FioTuned => Tool::Fio.name(),
            Tool::TIoUring | Tool::TIoUringHalf => Tool::TIoUring.name(),
            _ => Tool::Fathom.name(),
        }
    }

    /// Arguments before those shared with fio. The overhead of sampling is measured separately.
    fn command(self) -> Vec<String> {
        match self {
            Tool::Fio | Tool::FioTuned | Tool::TIoUring | Tool::TIoUringHalf => Vec::new(),
            Tool::Fathom | Tool::Again => vec!["run".into(), "--sampling=off".into()],
            Tool::WatchDefault => vec!["run".into(), "--sampling=default".into()],
            Tool::WatchFull => vec!["run".into(), "--sampling=full".into()],
        }
    }

    /// The arguments of a random read of 4 KiB blocks with `keys` in fio's form, written as
    /// `key=value`; fathom takes them as fio does.
    pub fn fio_form(self, target: &Path, keys: &[&str], end: End) -> Vec<String> {
        let mut args = self.command();
        args.push("--name=bench".into());
        args.push(format!("--filename={}", target.display()));
        args.extend(["rw=randread", "bs=4k"].iter().chain(keys).map(|key| format!("--{key}")));
        args.extend(end.keys().iter().map(|key| format!("--{key}")));
        args.push("--output-format=json".into());
        args
    }

    /// t/io_uring's arguments for the same workload, with all optimizations. It can only run for a time.
    pub fn own_form(self, target: &Path, options: &[&str], end: End) -> Vec<String> {
        let all = ["-b4096", "-p0", "-B1", "-F1", "-X1", "-n1", "-O1", "-R1"];
        // The last one takes effect.
        let mut args: Vec<String> = all.iter().chain(options).map(ToString::to_string).collect();
        if let End::Seconds(seconds) = end {
            args.push(format!("-r{seconds}"));
        }
        args.push(target.display().to_string());
        args
    }

    /// The arguments that run a job file.
    pub fn job_file(self, path: &Path) -> Vec<String> {
        let mut args = self.command();
        args.push(path.display().to_string());
        args.push("--output-format=json".into());
        args
    }

    /// The result of a run, from its output.
    pub fn read_output(self, stdout: &str, end: End) -> Result<Done> {
        match self {
            Tool::TIoUring | Tool::TIoUringHalf => from_lines(stdout, end),
            _ => from_json(stdout),
        }
    }
}

impl End {
    /// fio's keys for it.
    pub fn keys(self) -> Vec<String> {
        match self {
            End::Seconds(seconds) => vec![format!("runtime={seconds}"), "time_based=1".into()],
            End::Ios(ios) => vec![format!("number_ios={ios}")],
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Done {
    pub iops: f64,
    pub ios: f64,
}

/// fio's JSON. fio writes warnings before it; its readers skip to the first brace, as this does.
fn from_json(stdout: &str) -> Result<Done> {
    let start = stdout.find('{').ok_or("it printed no JSON")?;
    let root: Value = serde_json::from_str(&stdout[start..])
        .map_err(|error| format!("its JSON does not parse: {error}"))?;
    let jobs = root["jobs"].as_array().ok_or("its JSON has no jobs")?;
    let mut done = Done { iops: 0.0, ios: 0.0 };
    for job in jobs {
        if job["error"].as_i64() != Some(0) {
            return Err(format!("its job ended with error {}", job["error"]).into());
        }
        for dir in ["read", "write"] {
            let figure =
                |key: &str| job[dir][key].as_f64().ok_or(format!("its JSON has no {dir}.{key}"));
            done.iops += figure("iops")?;
            done.ios += figure("total_ios")?;
        }
    }
    if done.ios == 0.0 { Err("it did no I/O".into()) } else { Ok(done) }
}

/// t/io_uring prints a line per second, such as `IOPS=1.88M, BW=7.33GiB/s, IOS/call=32/32`. Returns their mean, which
/// other tools report too, instead of its "Maximum IOPS"; the first second, in which it starts, is left out.
fn from_lines(stdout: &str, end: End) -> Result<Done> {
    let mut rates: Vec<f64> = stdout
        .lines()
        .filter_map(|line| line.strip_prefix("IOPS=")?.split_once(','))
        .filter_map(|(figure, _)| decimal(figure))
        .collect();
    if rates.len() > 1 {
        rates.remove(0);
    }
    if rates.is_empty() {
        return Err("it printed no IOPS line".into());
    }
    let iops = rates.iter().sum::<f64>() / rates.len() as f64;
    let End::Seconds(seconds) = end else { return Err("it runs for a time only".into()) };
    Ok(Done { iops, ios: iops * f64::from(seconds) })
}

/// `1.88M`, `320.50K`, `512`.
fn decimal(figure: &str) -> Option<f64> {
    let (digits, factor) = match figure.as_bytes().last()? {
        b'M' => (&figure[..figure.len() - 1], 1e6),
        b'K' => (&figure[..figure.len() - 1], 1e3),
        _ => (figure, 1.0),
    };
    Some(digits.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_after_warnings() {
        let text = "note: x\n{\"jobs\": [{\"error\": 0, \"read\": {\"iops\": 10.5, \"total_ios\": 21}, \
             \"write\": {\"iops\": 2.0, \"total_ios\": 4}}]}";
        assert_eq!(
            Tool::Fio.read_output(text, End::Ios(1)).unwrap(),
            Done { iops: 12.5, ios: 25.0 }
        );
    }

    #[test]
    fn json_that_is_no_result() {
        let bad = [
            ("", "no JSON"),
            ("{\"jobs\": [", "does not parse"),
            ("{}", "no jobs"),
            ("{\"jobs\": [{\"error\": 5, \"read\": {}}]}", "error 5"),
            ("{\"jobs\": [{\"error\": 0, \"read\": {\"iops\": 1}}]}", "read.total_ios"),
            ("{\"jobs\": []}", "no I/O"),
        ];
        for (text, message) in bad {
            let error = Tool::Fathom.read_output(text, End::Ios(1)).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn lines_of_t_io_uring() {
        let text = "polled=0\nIOPS=100, BW=1MiB/s\nIOPS=1.50M, BW=\nIOPS=500.00K, BW=\n\
            IOPS=1.60M, BW=\nMaximum IOPS=9.00M\n";
        let done = Tool::TIoUring.read_output(text, End::Seconds(4)).unwrap();
        assert_eq!(done, Done { iops: 1.2e6, ios: 4.8e6 });
        assert!(Tool::TIoUring.read_output("io: unexpected ret=-95\n", End::Seconds(1)).is_err());
    }

    #[test]
    fn command_lines_in_fios_form() {
        let args = Tool::Fathom.fio_form(Path::new("/f"), &["iodepth=1"], End::Ios(5));
        let expected = "run --sampling=off --name=bench --filename=/f --rw=randread --bs=4k --iodepth=1 \
            --number_ios=5 --output-format=json";
        assert_eq!(args.join(" "), expected);
        let args = Tool::Fio.fio_form(Path::new("/f"), &[], End::Seconds(2));
        let expected = "--name=bench --filename=/f --rw=randread --bs=4k --runtime=2 \
            --time_based=1 --output-format=json";
        assert_eq!(args.join(" "), expected);
    }
}
