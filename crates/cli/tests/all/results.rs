//! A result that cannot be written, or a run that ended early, is a failure; the results so far are printed anyway.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{Answer, FATHOM, MIB, Place, Running, assert_one_error, says, until};
use fathom_model::{Outcome, RunRecord};
use rustix::process::Signal;
use serde_json::Value;

const SHORT: [&str; 6] =
    ["run", "--no-record", "--eta=never", "--ioengine=null", "--rw=read", "--size=4k"];

/// Runs fathom from a shell that does `redirect` to its descriptors.
fn redirected(place: &Place, redirect: &str, args: &[&str]) -> Answer {
    let script = format!(r#"exec "$0" "$@" {redirect}"#);
    let args = [&["-c", script.as_str(), FATHOM], args].concat();
    Running::start(&mut place.command("sh", &args)).wait()
}

/// Commands that print a result, and do not need to be root.
fn commands() -> Vec<Vec<&'static str>> {
    let mut all = vec![SHORT.to_vec(), vec!["clean", "."], vec!["--help"], vec!["run", "--help"]];
    all.push([&SHORT[..], &["--output-format=json"]].concat());
    all.push([&SHORT[..], &["--output-format=terse"]].concat());
    all.push(vec!["top", "--format=text", "-n", "1", "-i", "0.05"]);
    all.push(vec!["threads", "-t", "0.2"]);
    all.push(vec!["watch", "--duration", "0.2", "--sampling", "default", "--record", "record"]);
    all
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    for redirect in [">&-", ">/dev/full", "1</dev/null"] {
        for args in commands() {
            let place = Place::new();
            let answer = redirected(&place, redirect, &args);
            assert_eq!(answer.code, Some(1), "{redirect} {args:?}: {}", answer.stderr);
            says(&answer.stderr, &["fathom: cannot write to standard output: "]);
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_an_error_but_for_help_and_lines_without_an_end() {
    let script = r#"{ "$0" "$@"; echo "status $?" >&2; } | true"#;
    for args in commands() {
        let place = Place::new();
        // The reader is gone before anything is written to it.
        let script = script.replace("{ ", "{ sleep 0.2; ");
        let args: Vec<&str> = [&["-c", script.as_str(), FATHOM], &args[..]].concat();
        let answer = Running::start(&mut place.command("bash", &args)).wait();
        let ends = args.contains(&"--help") || args.contains(&"top");
        let status = if ends { "status 0" } else { "status 1" };
        says(&answer.stderr, &[status]);
        assert_eq!(answer.stderr.contains("Broken pipe"), !ends, "{args:?} {}", answer.stderr);
    }
}

#[test]
fn standard_error_may_be_gone() {
    let place = Place::new();
    for redirect in ["2>&-", "2>/dev/full"] {
        let answer = redirected(&place, redirect, &SHORT);
        assert_eq!(answer.code, Some(0), "{redirect}");
        says(&answer.stdout, &["read"]);
        let answer = redirected(&place, redirect, &["run", "--no-such-key"]);
        assert_eq!(answer.code, Some(1), "{redirect}");
    }
    let answer = redirected(&place, "2>/dev/full", &["watch", "--record", "record", "--", "true"]);
    assert_eq!(answer.code, Some(1));
    assert!(place.path("record/record.json").exists());
}

#[test]
fn a_limit_of_file_sizes_is_reported() {
    let place = Place::new();
    place.data("data", MIB);
    let script = r#"exec prlimit --fsize=100 "$0" "$@" >out"#;
    let args = [&["-c", script, FATHOM], &SHORT[..]].concat();
    let answer = Running::start(&mut place.command("sh", &args)).wait();
    assert_eq!((answer.code, answer.signal), (Some(1), None), "{}", answer.stderr);
    assert_one_error(&answer.stderr, &["cannot write to standard output: File too large"]);
    // A watched command has the original signal disposition.
    let script = r#"exec prlimit --fsize=4000 "$0" "$@""#;
    let own = "head -c 10000 /dev/zero > own";
    let command = ["stacks", "--", "sh", "-c", own];
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let args = [&["-c", script, FATHOM], &command[..]].concat();
    let answer = Running::start(&mut place.command("sh", &args)).wait();
    assert_eq!(answer.code, Some(128 + 25), "{}", answer.stderr);
}

/// The output of a command that receives a signal while its process is working.
fn signalled(place: &Place, args: &[&str], signal: Signal) -> Answer {
    // The tests may run under `nohup`, which fathom would respect.
    let args = [&["--default-signal=HUP", FATHOM], args].concat();
    let running = Running::start(&mut place.command("env", &args));
    // The main thread, that for signals, and one that watches.
    let tasks = format!("/proc/{}/task", running.id());
    until("a sampler", || std::fs::read_dir(&tasks).is_ok_and(|tasks| tasks.count() >= 3));
    running.signal(signal);
    running.wait()
}

#[test]
fn what_a_signal_ends_before_its_time_is_not_all() {
    let bounded: [&[&str]; 5] = [
        &["watch", "--duration", "1h", "--sampling", "default", "--record", "record"],
        &["threads", "-t", "1h"],
        &["threads", "-t", "1h", "-i", "10m", "--json"],
        &["top", "--format=text", "-n", "1000", "-i", "1h"],
        &["top", "--json", "-n", "1000", "-i", "1h"],
    ];
    for args in bounded {
        for signal in [Signal::INT, Signal::HUP] {
            let place = Place::new();
            let answer = signalled(&place, args, signal);
            assert_eq!(
                (answer.code, answer.signal),
                (Some(1), None),
                "{args:?}: {}",
                answer.stderr
            );
            let name = if signal == Signal::INT { "SIGINT" } else { "SIGHUP" };
            says(&answer.stderr, &[&format!("fathom: interrupted by {name} after "), " of "]);
            if args[0] == "top" {
                continue;
            }
            assert!(!answer.stdout.is_empty(), "{args:?}");
            if args[0] == "watch" {
                let text = place.read("record/record.json");
                let record: RunRecord = serde_json::from_str(&text).unwrap();
                assert_eq!(record.header.outcome, Outcome::interrupted(name));
            }
        }
    }
}

#[test]
fn what_has_no_end_of_its_own_ends_well_by_a_signal() {
    let open: [&[&str]; 3] = [
        &["watch", "--sampling", "default", "--record", "record"],
        &["top", "--format=text", "-i", "1h"],
        &["record", "--record", "ring"],
    ];
    for args in open {
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let place = Place::new();
            let answer = signalled(&place, args, signal);
            assert_eq!(
                (answer.code, answer.signal),
                (Some(0), None),
                "{args:?}: {}",
                answer.stderr
            );
            assert!(!answer.stderr.contains("interrupted"), "{}", answer.stderr);
        }
    }
}

#[test]
fn nohup_is_respected() {
    let place = Place::new();
    place.data("data", MIB);
    let script = r#"trap '' HUP; exec "$0" "$@""#;
    let run = ["run", "--no-record", "--rw=read", "--time_based", "--runtime=50", "data"];
    let args = [&["-c", script, FATHOM], &run[..]].concat();
    let running = Running::start(&mut place.command("sh", &args));
    let tasks = format!("/proc/{}/task", running.id());
    until("a worker", || std::fs::read_dir(&tasks).is_ok_and(|tasks| tasks.count() >= 4));
    running.signal(Signal::HUP);
    running.signal(Signal::INT);
    let answer = running.wait();
    assert_eq!((answer.code, answer.signal), (Some(1), None));
    says(&answer.stdout, &["interrupted by SIGINT"]);
}

#[test]
fn a_command_that_is_watched_keeps_its_status() {
    let place = Place::new();
    for status in [0, 7] {
        let script = format!("exit {status}");
        let answer = place.ask(&["watch", "--sampling", "default", "--", "sh", "-c", &script]);
        assert_eq!(answer.code, Some(status), "{}", answer.stderr);
    }
}

/// Runs of the same job in the default place.
fn stored(number: usize) -> Place {
    let place = Place::new();
    place.data("secret-file", MIB);
    let run = ["run", "--eta=never", "--rw=randread", "--bs=4k", "--runtime=300ms", "--time_based"];
    let names = ["--name=secret-job", "--filename=secret-file"];
    (0..number).for_each(|_| drop(place.ask(&[&run[..], &names].concat()).done()));
    place
}

/// The names of the runs in the default place.
fn runs(place: &Place) -> Vec<String> {
    let list = place.ask(&["runs", "--json"]).done().json();
    let name = |run: &Value| run["name"].as_str().unwrap().to_string();
    list.as_array().unwrap().iter().map(name).collect()
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_parquet_says_how_to_have_it() {
    let place = Place::new();
    place.data("data", MIB);
    place.ask(&["run", "--rw=read", "--record=kept", "data"]).done();
    let answer = place.ask(&["runs", "export", "kept", "--parquet=figures.parquet"]);
    assert_eq!(answer.code, Some(1));
    says(&answer.stderr, &["--parquet: not in this build", "--features parquet"]);
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_has_the_figures_of_csv() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let place = Place::new();
    place.data("data", MIB);
    let read = ["--rw=read", "--bs=4k", "--time_based", "--runtime=3", "--record=kept", "data"];
    place.ask(&[&["run", "--eta=never"], &read[..]].concat()).done();
    place.ask(&["runs", "export", "kept", "kept", "--parquet=figures.parquet"]).done();
    let csv = place.ask(&["top", "--replay=kept", "--format=csv"]).done().stdout;
    let csv: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let file =
        SerializedFileReader::new(std::fs::File::open(place.path("figures.parquet")).unwrap());
    let rows: Vec<_> = file.unwrap().get_row_iter(None).unwrap().map(Result::unwrap).collect();
    // Both runs are the same one.
    assert_eq!(rows.len(), 2 * (csv.len() - 1));
    for (row, line) in rows.iter().zip(csv.iter().skip(1).chain(csv.iter().skip(1))) {
        let cells: std::collections::HashMap<&String, String> =
            row.get_column_iter().map(|(name, cell)| (name, cell.to_string())).collect();
        assert_eq!(cells[&"run_name".to_string()], "\"kept\"");
        for (name, text) in csv[0].iter().zip(line).skip(2) {
            let cell = &cells[&name.to_string()];
            match text.parse::<f64>() {
                Ok(value) => {
                    let cell: f64 = cell.parse().unwrap();
                    assert!((cell - value).abs() <= 0.001, "{name} {cell} {value}");
                }
                Err(_) => assert_eq!(cell, "null", "{name}"),
            }
        }
    }
}

#[test]
fn an_exported_run_is_shown_the_same_elsewhere() {
    let (here, there) = (stored(1), Place::new());
    let names = runs(&here);
    let file = format!("{}.tar.zst", names[0]);
    let answer = here.ask(&["runs", "export", &names[0]]).done();
    says(&answer.stderr, &["wrote", &file, "1 run"]);
    let again = here.ask(&["runs", "export", &names[0]]);
    assert_eq!(again.code, Some(1));
    assert_one_error(&again.stderr, &[&file, "already exists", "--output"]);
    here.ask(&["runs", "export", &names[0], "-o", &file]).done();
    let file = here.path(&file);
    let import = ["runs", "import", file.to_str().unwrap()];
    says(&there.ask(&import).done().stderr, &[&names[0], ": imported"]);
    assert_eq!(runs(&there), names);
    for args in [&["show"][..], &["show", "--json"], &["show", "--verbose", "--format=markdown"]] {
        let args = [args, &[names[0].as_str()]].concat();
        assert_eq!(there.ask(&args).done().stdout, here.ask(&args).done().stdout, "{args:?}");
    }
    says(&there.ask(&import).done().stderr, &[&names[0], "exists already"]);
    let record = there.home().join(".local/state/fathom/runs").join(&names[0]).join("record.json");
    let changed = std::fs::read_to_string(&record).unwrap() + " ";
    std::fs::write(&record, changed).unwrap();
    let differs = there.ask(&import);
    assert_eq!(differs.code, Some(1));
    assert_one_error(&differs.stderr, &[&names[0], import[2], "differs"]);
    here.write("x.tar.zst", "no archive");
    let before = here.look();
    let damaged = here.ask(&["runs", "import", "x.tar.zst"]);
    assert_eq!(damaged.code, Some(1));
    assert_one_error(&damaged.stderr, &["x.tar.zst", "not a complete archive of runs"]);
    assert_eq!(here.look(), before);
}

#[test]
fn a_shared_run_is_shown_and_compared_without_names() {
    let (here, there) = (stored(2), Place::new());
    let names = runs(&here);
    let export = ["runs", "export", "--share", &names[0], &names[1], "-o", "shared.tar.zst"];
    says(&here.ask(&export).done().stderr, &["wrote shared.tar.zst", "2 runs", "left out"]);
    let file = here.path("shared.tar.zst");
    there.ask(&["runs", "import", file.to_str().unwrap()]).done();
    assert_eq!(runs(&there), names);
    let shared = "shared: host names, serials, paths and command lines are replaced";
    assert!(!here.ask(&["show"]).done().stdout.contains(shared));
    for args in [&["show"][..], &["show", "--format=html"], &["show", "--judge"]] {
        let page = there.ask(args).done().stdout;
        says(&page, &[shared, "4 KiB", "fathom run command-", "job-"]);
        assert!(!page.contains("secret"), "{page}");
    }
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let record = there.home().join(".local/state/fathom/runs").join(&names[0]).join("record.json");
    let record = std::fs::read_to_string(record).unwrap();
    for secret in ["secret", &format!("\"{host}\""), here.home().to_str().unwrap()] {
        assert!(!record.contains(secret), "{secret} in {record}");
    }
    let compared = there.ask(&["compare", &names[0], &names[1], "--json"]).done().json();
    // The job has the same hash in both.
    assert!(compared["parts"][0].to_string().contains("job-"), "{compared}");
}
