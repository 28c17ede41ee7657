//! No external text reaches a terminal as a control sequence: names of files, jobs and threads, records, errors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{Answer, FATHOM, MIB, Place, Running, is_root, says, until};
use fathom_model::escape;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Sets the title, the color, and the direction of text.
const EVIL: &str = "e\x1b[31m\x1b]0;t\x07\u{9b}1m\u{202e}";
const SHOWN: &str = r"e\x1b[31m\x1b]0;t\x07\x9b1m\u{202e}";

#[track_caller]
fn is_clean(answer: &Answer) {
    for text in [&answer.stdout, &answer.stderr] {
        let found = text.chars().find(|c| *c != '\n' && escape::is_unsafe(*c));
        assert_eq!(found, None, "{text:?}");
        assert!(!text.contains('\u{fffd}'), "{text:?}");
    }
}

#[track_caller]
fn clean(place: &Place, args: &[&str], parts: &[&str]) -> Answer {
    let answer = place.ask(args);
    is_clean(&answer);
    says(&format!("{}{}", answer.stdout, answer.stderr), parts);
    answer
}

#[test]
fn jobs_and_files() {
    let place = Place::new();
    place.data(EVIL, MIB);
    let (name, text) = (format!("--name={EVIL}"), format!("--description={EVIL};x"));
    let file = format!("--filename={EVIL}");
    let run = ["run", "--no-record", &name, &text, &file, "--rw=read", "--status-interval=1"];
    for format in ["normal", "terse", "json", "json+"] {
        let format = format!("--output-format={format}");
        clean(&place, &[&run[..], &[&format]].concat(), &[]).done();
    }
    let summary = clean(&place, &run, &[SHOWN]).done();
    assert!(summary.stdout.matches(SHOWN).count() >= 3, "{}", summary.stdout);
    let json = clean(&place, &[&run[..], &["--output-format=json"]].concat(), &[]).done().json();
    assert_eq!(json["jobs"][0]["jobname"], EVIL);
    let column = SHOWN.replace(';', "_");
    let terse = clean(&place, &[&run[..], &["--output-format=terse"]].concat(), &[&column]);
    let columns: Vec<&str> = terse.stdout.trim_end().split(';').collect();
    assert_eq!(
        (columns[2], columns[columns.len() - 1]),
        (column.as_str(), format!("{column}_x").as_str())
    );
    assert_eq!(terse.stdout.lines().count(), 1);
}

#[test]
fn refusals() {
    let place = Place::new();
    place.data(EVIL, MIB);
    let (unknown, missing) = (format!("--{EVIL}=1"), format!("{EVIL}\nfathom: done"));
    for args in [
        &["run", "--no-record", "--rw=write", EVIL][..],
        &["run", "--no-record", "--rw=read", "--size=0", &missing],
        &["run", "--no-record", &unknown],
        &["run", "--no-record", "--output=/missing/x", &format!("--name={EVIL}"), "--rw=read"],
        &["run", &format!("{EVIL}.fio")],
        &["limit", EVIL, &missing],
        &["clean", &missing],
        &["blocks", &missing],
        &["stacks", "-o", &format!("{EVIL}/x")],
        &["watch", "--duration", "1", "--record", &format!("{EVIL}/x")],
        &["top", "--replay", &missing],
        &["threads", "-g", EVIL],
        &["threads", "-p", &missing],
        &[EVIL],
        &["top", EVIL],
        &["top", "--interval", EVIL],
    ] {
        let answer = clean(&place, args, &[]);
        assert_ne!(answer.code, Some(0), "{args:?}: {}{}", answer.stdout, answer.stderr);
        let lines = answer.stderr.lines().filter(|line| line.starts_with("fathom: ")).count();
        assert!(lines <= 1, "{args:?}: {}", answer.stderr);
    }
    let bytes = OsStr::from_bytes(b"caf\xff");
    let mut command = place.command(FATHOM, &["clean"]);
    let answer = Running::start(command.arg(bytes)).wait();
    assert_eq!(answer.code, Some(1));
    fs::create_dir(place.path("x").with_file_name(bytes)).unwrap();
    fs::write(place.path("x").with_file_name(bytes).join(".fathom-scratch-x"), "").unwrap();
    let answer = Running::start(place.command(FATHOM, &["clean"]).arg(bytes)).wait().done();
    is_clean(&answer);
    says(&answer.stdout, &[r"caf\xff/.fathom-scratch-x"]);
}

#[test]
fn the_command_that_removes_a_leftover_is_right_whatever_its_name() {
    for name in ["it's; touch x", EVIL, "a b", "$HOME`"] {
        let place = Place::new();
        let name = format!(".fathom-scratch-{name}");
        place.write(&name, "");
        let answer = clean(&place, &["clean", "--remove", "."], &["remove it yourself: rm -- "]);
        let command = answer.stderr.trim_end().rsplit_once("yourself: ").unwrap().1;
        assert!(place.path(&name).exists());
        let mut shell = Command::new("bash");
        shell.args(["-c", command]).current_dir(place.path("."));
        assert!(shell.status().unwrap().success() && !place.path(&name).exists(), "{command}");
        assert!(!place.path("x").exists());
    }
}

/// A process that works, with a name of its own.
struct Worker(std::process::Child);

impl Worker {
    fn start(place: &Place, name: &str) -> Self {
        let program = place.path(name);
        fs::copy("/bin/sh", &program).unwrap();
        let mut command = Command::new(&program);
        command.args(["-c", "while :; do :; done", EVIL]).stdin(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn threads_and_samples() {
    if !is_root("CPU samples") {
        return;
    }
    let place = Place::new();
    let worker = Worker::start(&place, "w\x1b[31m\n\u{9b}");
    let pid = worker.0.id().to_string();
    let comm = format!("/proc/{pid}/comm");
    until("the program", || fs::read(&comm).is_ok_and(|name| name.starts_with(b"w\x1b")));
    let shown = r"w\x1b[31m\x0a\x9b";
    let columns = "comm2,cmdline,filename";
    let threads = ["threads", "-t", "0.3", "-a", "-p", &pid, "-g", columns];
    let table = clean(&place, &threads, &[shown]).done();
    let lines = |answer: &Answer| answer.stdout.lines().filter(|l| l.contains(shown)).count();
    assert_eq!(lines(&table), 1, "{}", table.stdout);
    clean(&place, &[&threads[..], &["--json"]].concat(), &[]).done();
    let stacks = ["stacks", "--duration", "0.3", "-u", "-p", &pid];
    // On a busy machine it may get no CPU for that long.
    until("samples", || clean(&place, &stacks, &[]).done().stdout.contains(shown));
    let folded = [&stacks[..], &["-o", "-"]].concat();
    until("folded stacks", || clean(&place, &folded, &[]).done().stdout.contains(shown));
    for file in ["flame.svg", "page.json"] {
        clean(&place, &[&stacks[..], &["-o", file]].concat(), &[]).done();
        let text = place.read(file);
        assert!(!text.chars().any(|c| c != '\n' && escape::is_unsafe(c)), "{file}");
    }
    serde_json::from_str::<serde_json::Value>(&place.read("page.json")).unwrap();
    clean(&place, &["watch", "--duration", "0.3", "--pid", &pid, "--record", "record"], &[]).done();
    let tree = ["watch", "--sampling", "default", "--", "true", EVIL];
    let quoted = r"true $'e\033[31m";
    clean(&place, &tree, &[quoted]).done();
}

/// Replaces in a file of a record.
fn forge(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from} is not in {}", path.display());
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn records_from_elsewhere() {
    let place = Place::new();
    clean(&place, &["watch", "--duration", "0.3", "-i", "0.1", "--record", "record"], &[]).done();
    let json = serde_json::to_string(&format!("{EVIL}\n")).unwrap();
    let evil = &json[1..json.len() - 1];
    forge(&place.path("record/record.json"), "\"source\": \"", &format!("\"source\": \"{evil}"));
    forge(&place.path("record/samples.ndjson"), "\"name\":\"", &format!("\"name\":\"{evil}"));
    for form in ["--format=text", "--format=csv", "--json"] {
        let answer = clean(&place, &["top", "--replay", "record", form], &[SHOWN]).done();
        assert!(answer.stdout.lines().count() > 1);
    }
}
