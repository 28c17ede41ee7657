//! The tools: command lines and output parsers.

use super::results::{Figure, Measured};
use crate::Result;
use crate::run::Finished;
use serde_json::Value;
use std::path::Path;

fathom_model::named! {
    /// By their names in the cases.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Tool {
        Fathom = "fathom",
        /// fathom again, as a control (A/A).
        Again = "again",
        WatchDefault = "default",
        WatchFull = "full",
        Fio = "fio",
        /// fio with all keys that reduce its cost.
        FioTuned = "fio-tuned",
        TIoUring = "t/io_uring",
        /// t/io_uring, submitting half of the queue depth per call.
        TIoUringHalf = "t/io_uring-half",
        Threads = "threads",
        ThreadsAll = "all",
        ThreadsStacks = "stacks",
        Psn = "psn",
        PsnStacks = "psn-stacks",
    }
}

/// The options that a tool takes, and what it prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Fio,
    TIoUring,
    /// A sampler of threads: fathom's.
    Threads,
    /// pSnapper.
    Psn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Seconds(u32),
    Ios(u64),
}

impl Tool {
    /// What tables call it; its program, and the arguments before those shared with fio. The overhead of sampling is
    /// measured separately.
    fn spec(self) -> (&'static str, &'static str) {
        match self {
            Self::Fathom => ("fathom", "fathom run --sampling=off"),
            Self::Again => ("fathom, again", "fathom run --sampling=off"),
            Self::WatchDefault => ("fathom --sampling=default", "fathom run --sampling=default"),
            Self::WatchFull => ("fathom --sampling=full", "fathom run --sampling=full"),
            Self::Fio => ("fio", "fio"),
            Self::FioTuned => ("fio, tuned", "fio"),
            Self::TIoUring => ("t/io_uring", "t/io_uring"),
            Self::TIoUringHalf => ("t/io_uring -s depth/2", "t/io_uring"),
            Self::Threads => ("fathom threads", "fathom threads --json"),
            Self::ThreadsAll => ("fathom threads -a", "fathom threads --json -a"),
            Self::ThreadsStacks => {
                ("fathom threads -a -G kstack", "fathom threads --json -a -G kstack")
            }
            Self::Psn => ("pSnapper", "psn -a -g comm,state,syscall,wchan"),
            Self::PsnStacks => {
                ("pSnapper, kernel stacks", "psn -a -g comm,state,syscall,wchan,kstack")
            }
        }
    }

    pub fn title(self) -> &'static str {
        self.spec().0
    }

    pub fn program(self) -> &'static str {
        let command = self.spec().1;
        command.split_once(' ').map_or(command, |(program, _)| program)
    }

    pub fn is_fathom(self) -> bool {
        self.program() == "fathom"
    }

    pub fn form(self) -> Form {
        match self {
            Self::TIoUring | Self::TIoUringHalf => Form::TIoUring,
            Self::Psn | Self::PsnStacks => Form::Psn,
            Self::Threads | Self::ThreadsAll | Self::ThreadsStacks => Form::Threads,
            _ => Form::Fio,
        }
    }

    fn command(self) -> Vec<String> {
        self.spec().1.split(' ').skip(1).map(String::from).collect()
    }

    /// The arguments of a random read of 4 KiB blocks with `keys` in fio's form, written as
    /// `key=value`; fathom takes them as fio does.
    pub fn fio_form(self, target: &Path, keys: &[String], end: End) -> Vec<String> {
        let mut args = self.command();
        args.extend(["--name=bench".into(), format!("--filename={}", target.display())]);
        args.extend(["--rw=randread", "--bs=4k"].map(String::from));
        args.extend(keys.iter().chain(&end.keys()).map(|key| format!("--{key}")));
        args.push("--output-format=json".into());
        args
    }

    /// t/io_uring's arguments for the same workload, with all optimizations. It can only run for a time.
    pub fn own_form(self, target: &Path, options: &[String], end: End) -> Vec<String> {
        let all = ["-b4096", "-p0", "-B1", "-F1", "-X1", "-n1", "-O1", "-R1"].map(String::from);
        // The last one takes effect.
        let mut args: Vec<String> = all.iter().chain(options).cloned().collect();
        if let End::Seconds(seconds) = end {
            args.push(format!("-r{seconds}"));
        }
        args.push(target.display().to_string());
        args
    }

    /// The arguments of a sampler of threads.
    pub fn sampler(self, keys: &[String], seconds: u32) -> Vec<String> {
        let [time, rate] =
            if self.form() == Form::Psn { ["-d", "--sample-hz"] } else { ["-t", "-F"] };
        let mut args = self.command();
        args.extend([time.into(), seconds.to_string(), rate.into()]);
        args.extend(keys.iter().cloned());
        args
    }

    pub fn job_file(self, path: &Path) -> Vec<String> {
        let mut args = self.command();
        args.extend([path.display().to_string(), "--output-format=json".into()]);
        args
    }

    pub fn read_output(self, stdout: &str, end: End) -> Result<Done> {
        if self.form() == Form::TIoUring {
            return from_lines(stdout, end);
        }
        read(stdout)
    }
}

/// What all jobs of a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Done {
    pub iops: f64,
    pub ios: f64,
}

/// The result of a run whose jobs all succeeded, in fio's JSON, which fathom prints too. fio writes warnings before its JSON; its readers skip to the first brace,
/// as this does.
fn read(stdout: &str) -> Result<Done> {
    let start = stdout.find('{').ok_or("it printed no JSON")?;
    let root: Value = serde_json::from_str(&stdout[start..])
        .map_err(|error| format!("its JSON does not parse: {error}"))?;
    let mut done = Done::default();
    for job in root["jobs"].as_array().ok_or("its JSON has no jobs")? {
        if job["error"].as_i64() != Some(0) {
            return Err(format!("its job ended with error {}", job["error"]).into());
        }
        for dir in ["read", "write", "trim"] {
            let missing = |key: &str| format!("its JSON has no {dir}.{key}");
            let number = |key: &str| job[dir][key].as_f64().ok_or_else(|| missing(key));
            done.ios += number("total_ios")?;
            done.iops += number("iops")?;
        }
    }
    if done.ios == 0.0 { Err("it did no I/O".into()) } else { Ok(done) }
}

/// What a sampler of threads cost. pSnapper does not count its own CPU time: for it, that of the whole program is.
pub fn sampling(form: Form, finished: &Finished) -> Result<Measured> {
    let cpu_us = finished.cpu.as_secs_f64() * 1e6;
    let measured = match form {
        Form::Psn => of_psn(&finished.stdout, cpu_us),
        _ => of_fathom(&finished.stdout, cpu_us),
    };
    measured.ok_or_else(|| format!("not understood: {}", finished.stdout).into())
}

fn of_fathom(stdout: &str, cpu_us: f64) -> Option<Measured> {
    let json: Value = serde_json::from_str(stdout).ok()?;
    let (done, missed) = (json["samples"].as_f64()?, json["samples_missed"].as_f64()?);
    Some(vec![
        (Figure::SampleTime, json["cost"]["us_per_thread_sample"].as_f64()?),
        (Figure::ProgramTime, cpu_us / json["thread_samples"].as_f64()?),
        (Figure::Usage, json["cost"]["cpu_share"].as_f64()? * 100.0),
        (Figure::Missed, missed / (done + missed) * 100.0),
    ])
}

/// From `samples: 27 (expected: 80)`, `threads: 580` and `runtime: 4.01`, whatever stands between them.
fn of_psn(stdout: &str, cpu_us: f64) -> Option<Measured> {
    let after = |label: &str| {
        let rest = stdout.rsplit_once(label)?.1.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        rest[..end].parse::<f64>().ok()
    };
    let (done, due) = (after("samples:")?, after("expected:")?);
    let sample_us = cpu_us / done / after("threads:")?;
    Some(vec![
        (Figure::SampleTime, sample_us),
        (Figure::ProgramTime, sample_us),
        (Figure::Usage, cpu_us / 1e4 / after("runtime:")?),
        (Figure::Missed, (due - done) / due * 100.0),
    ])
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
        let dir = |ios: u64, iops: f64| format!(r#"{{"iops": {iops}, "total_ios": {ios}}}"#);
        let dirs = format!(
            r#""read": {}, "write": {}, "trim": {}"#,
            dir(21, 10.5),
            dir(4, 2.0),
            dir(0, 0.0)
        );
        let done = read(&format!("note: x\n{{\"jobs\": [{{\"error\": 0, {dirs}}}]}}")).unwrap();
        assert_eq!(done, Done { iops: 12.5, ios: 25.0 });
    }

    #[test]
    fn json_that_is_no_result() {
        let bad = [
            ("", "no JSON"),
            ("{\"jobs\": [", "does not parse"),
            ("{}", "no jobs"),
            ("{\"jobs\": []}", "no I/O"),
            ("{\"jobs\": [{\"error\": 5, \"read\": {}}]}", "error 5"),
            ("{\"jobs\": [{\"error\": 0, \"read\": {\"iops\": 1}}]}", "read.total_ios"),
        ];
        for (text, message) in bad {
            let error = read(text).unwrap_err().to_string();
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
    fn what_samplers_of_threads_print_is_read() {
        let json = r#"{"samples":76,"samples_missed":4,"thread_samples":1000,
            "cost":{"us_per_thread_sample":7.5,"cpu_share":0.25}}"#;
        let figures = |sample, program, usage, missed| {
            vec![
                (Figure::SampleTime, sample),
                (Figure::ProgramTime, program),
                (Figure::Usage, usage),
                (Figure::Missed, missed),
            ]
        };
        assert_eq!(of_fathom(json, 9000.0), Some(figures(7.5, 9.0, 25.0, 5.0)));
        let text = "   40 |  1.00 | (threads) |\n\nsamples: 20\n(expected: 80)\ntotal processes: 10, \
            threads: 50\nruntime: 4.00, measure time: 1.57\n";
        assert_eq!(of_psn(text, 2e6), Some(figures(2000.0, 2000.0, 50.0, 75.0)));
        assert_eq!(of_fathom("{}", 1.0), None);
        assert_eq!(of_psn("samples: x", 1.0), None);
    }

    #[test]
    fn command_lines_in_fios_form() {
        let args = Tool::Fathom.fio_form(Path::new("/f"), &["iodepth=1".into()], End::Ios(5));
        let expected = "run --sampling=off --name=bench --filename=/f --rw=randread --bs=4k --iodepth=1 \
            --number_ios=5 --output-format=json";
        assert_eq!(args.join(" "), expected);
        let args = Tool::Fio.fio_form(Path::new("/f"), &[], End::Seconds(2));
        let expected = "--name=bench --filename=/f --rw=randread --bs=4k --runtime=2 \
            --time_based=1 --output-format=json";
        assert_eq!(args.join(" "), expected);
    }
}
