//! `fathom top` as a user sees it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{FATHOM, Place, assert_one_error, says};
use fathom_model::RunRecord;
use fathom_model::progress::Sample;
use fathom_model::record::Header;
use fathom_model::watch::{DiskCounters, IoCounters, MachineSample, SamplingRecord};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn sum_of(values: &[f64]) -> f64 {
    values.iter().sum()
}

#[test]
fn plain_lines_have_dstats_columns_and_true_sums() {
    let place = Place::new();
    // Where standard output is not a terminal, --format=text is the default.
    for args in [&["--format=text"][..], &[]] {
        let args = [&["top", "-n", "3", "-i", "200ms"], args].concat();
        let text = place.ask(&args).done().stdout;
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[1].contains("run blk new|usr sys idl wai hiq siq stl"), "{text}");
        for line in &lines[2..] {
            assert_eq!(line.split('|').count(), 7, "{text}");
            assert_eq!(line.chars().count(), lines[1].chars().count(), "{text}");
            let shares = line.split('|').nth(2).unwrap().split_whitespace();
            let shares: Vec<f64> = shares.map(|share| share.parse().unwrap()).collect();
            assert_eq!((shares.len(), sum_of(&shares)), (7, 100.0), "{text}");
        }
    }
}

#[test]
fn csv_has_the_same_columns_in_every_line() {
    let text = Place::new().ask(&["top", "--format=csv", "-n", "3", "-i", "200ms"]).done().stdout;
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 4, "{text}");
    let column = |name: &str| rows[0].iter().position(|have| *have == name).unwrap();
    for row in &rows[1..] {
        assert_eq!(row.len(), rows[0].len(), "{text}");
        let value = |name: &str| row[column(name)].parse::<f64>().unwrap();
        let (from, to) = (column("user_pct"), column("steal_pct"));
        let shares: Vec<f64> = row[from..=to].iter().map(|share| share.parse().unwrap()).collect();
        assert!((sum_of(&shares) - 100.0).abs() < 0.01, "{text}");
        assert!(value("unix_s") > 1.7e9 && value("memory_used_bytes") > 0.0, "{text}");
    }
}

#[test]
fn each_line_of_ndjson_is_one_object() {
    let text = Place::new().ask(&["top", "--json", "-n", "2", "-i", "300ms"]).done().stdout;
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        let cpu = line["system"]["cpu"].as_object().unwrap();
        let shares: Vec<f64> = cpu.values().map(|share| share.as_f64().unwrap()).collect();
        assert!((sum_of(&shares) - 100.0).abs() < 1e-6, "{cpu:?}");
        assert!(line["elapsed_ns"].as_u64().unwrap() > 0);
        assert!(!line["cost"].as_array().unwrap().is_empty());
    }
    assert!(lines[0]["unix_ns"].as_u64() < lines[1]["unix_ns"].as_u64());
}

#[test]
fn what_was_recorded_is_replayed() {
    let place = Place::new();
    let live = ["top", "--format=csv", "-n", "6", "-i", "250ms", "--record=seen"];
    let live = place.ask(&live).done().stdout;
    let record: Value = serde_json::from_str(&place.read("seen/record.json")).unwrap();
    assert!(record["outcome"] == "finished" && record["sampling"]["interval_ns"] == 250_000_000);
    let all = place.ask(&["top", "--replay=seen", "--format=csv"]).done().stdout;
    // The record may have one interval more, which ended with the watching.
    let figures =
        |line: &str| line.split_once(',').unwrap().1.split_once(',').unwrap().1.to_string();
    let seen: Vec<String> = live.lines().skip(1).map(figures).collect();
    let again: Vec<String> = all.lines().skip(1).map(figures).collect();
    assert_eq!(seen[..], again[..seen.len()], "{live}\n{all}");
    // One second of them, by times counted from the first sample.
    let part = ["top", "--replay=seen", "--format=csv", "--from=+1s", "--to=+1s"];
    let part = place.ask(&part).done().stdout;
    assert_eq!(part.lines().count(), 2, "{part}");
    assert!(all.contains(part.lines().nth(1).unwrap()), "{part}\n{all}");
}

#[test]
fn what_cannot_be_is_refused_with_what_was_expected() {
    let place = Place::new();
    fs::create_dir(place.path("empty")).unwrap();
    let error = |args: &[&str]| {
        let answer = place.ask(args);
        assert_ne!(answer.code, Some(0), "{args:?}");
        answer.stderr
    };
    assert_one_error(&error(&["top", "--replay=empty"]), &["empty", "no record"]);
    says(&error(&["top", "--interval=1ms"]), &["--interval", "50ms"]);
    says(&error(&["top", "-n", "0"]), &["--count 0", "from 1 to"]);
    assert_one_error(&error(&["top", "--pid", "2147483646"]), &["2147483646", "no such process"]);
    says(&error(&["top", "--from=+1s"]), &["--replay"]);
    says(&error(&["top", "--format=text", "--format=csv"]), &["cannot be used multiple times"]);
    place.ask(&["top", "-n", "2", "-i", "50ms", "--record=seen"]).done();
    assert_one_error(&error(&["top", "--replay=seen", "--from=noon"]), &["noon", "19:53:12"]);
    assert_one_error(&error(&["top", "-n", "1", "--record=seen"]), &["seen"]);
    let late = error(&["top", "--replay=seen", "--format=text", "--from=+9h"]);
    assert_one_error(&late, &["seen", "no samples between"]);
}

#[test]
fn damage_to_a_record_costs_what_it_hit_and_is_named() {
    let place = Place::new();
    place.ask(&["top", "--format=csv", "-n", "6", "-i", "100ms", "--record=seen"]).done();
    let all = place.read("seen/samples.ndjson");
    let lines: Vec<&str> = all.lines().collect();
    let replayed = || place.ask(&["top", "--replay=seen", "--format=csv"]);
    let count = || replayed().done().stdout.lines().count();
    let whole = count();
    // Its last line half written, a line of other bytes, one without any, one at the wrong place.
    place.write("seen/samples.ndjson", &all[..all.len() - 100]);
    assert_eq!(count(), whole - 1);
    for damage in ["", "\0\0\0\0", "{\"elapsed_ns\":1}", "{}", lines[4]] {
        let mut damaged = lines.clone();
        damaged[2] = damage;
        place.write("seen/samples.ndjson", damaged.join("\n") + "\n");
        assert!((whole - 1..=whole).contains(&count()), "{damage}");
    }
    for (contents, part) in [("", "no samples"), ("x\n\n", "no samples")] {
        place.write("seen/samples.ndjson", contents);
        assert_one_error(&replayed().stderr, &["seen", part]);
    }
    place.write("seen/samples.ndjson", &all);
    place.write("seen/stacks.ndjson", "damage\n");
    assert_eq!(count(), whole);
    let record = place.read("seen/record.json");
    let newer = record.replacen("\"record_version\": 3", "\"record_version\": 99", 1);
    assert_ne!(newer, record);
    for (contents, part) in [(&*newer, "version 99"), ("{", "record.json"), ("", "record.json")] {
        place.write("seen/record.json", contents);
        let answer = replayed();
        assert_eq!(answer.code, Some(1), "{contents}");
        assert_one_error(&answer.stderr, &["seen/record.json", part]);
    }
}

/// A program on a terminal of its own.
struct Terminal {
    child: Child,
    /// Our end.
    ours: File,
    /// Its end, kept to look at its modes.
    theirs: OwnedFd,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn start(place: &Place, args: &[&str]) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = File::options().read(true).write(true).open(name).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&ours, size).unwrap();
        let mut command = place.command(FATHOM, args);
        command.env("TERM", "xterm-256color").stdin(theirs.try_clone().unwrap());
        command.stdout(theirs.try_clone().unwrap()).stderr(theirs.try_clone().unwrap());
        let child = command.spawn().unwrap();
        let ours = File::from(ours);
        let mut reader = ours.try_clone().unwrap();
        let (sink, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                if sink.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, ours, theirs: theirs.into(), output, seen: String::new() }
    }

    /// Waits until this has been drawn since the last call.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.seen.contains(text) {
            assert!(Instant::now() < until, "no {text:?} in {:?}", self.seen);
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(50)) {
                self.seen += &String::from_utf8_lossy(&bytes);
            }
        }
        self.seen.clear();
    }

    /// Waits until this word is on the screen. Only changes are drawn, so a full redraw is requested.
    #[track_caller]
    fn shows(&mut self, word: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            self.seen.clear();
            self.press(REDRAW);
            std::thread::sleep(Duration::from_millis(300));
            let drawn: Vec<u8> = self.output.try_iter().flatten().collect();
            if String::from_utf8_lossy(&drawn).contains(word) {
                return;
            }
            assert!(Instant::now() < until, "no {word:?} in {:?}", String::from_utf8_lossy(&drawn));
        }
    }

    /// All that is on the screen.
    fn screen(&mut self) -> String {
        std::thread::sleep(Duration::from_millis(300));
        self.output.try_iter().count();
        self.press(REDRAW);
        std::thread::sleep(Duration::from_millis(500));
        let drawn: Vec<u8> = self.output.try_iter().flatten().collect();
        String::from_utf8_lossy(&drawn).into_owned()
    }

    fn resize(&self, ws_row: u16, ws_col: u16) {
        let size = Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.ours, size).unwrap();
        // The kernel signals only the foreground group, which a test does not have.
        kill_process(Pid::from_child(&self.child), Signal::WINCH).unwrap();
    }

    fn press(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.theirs).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    /// Asserts that it succeeded and restored the terminal.
    #[track_caller]
    fn has_ended(mut self) {
        self.wait_for(LEAVE);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        assert!(!self.is_raw());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// To the alternate screen, and back from it.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
/// Ctrl-L.
const REDRAW: &str = "\x0c";

#[test]
fn the_screen_takes_keys_and_gives_the_terminal_back() {
    let place = Place::new();
    let mut terminal = Terminal::start(&place, &["top", "-i", "200ms"]);
    terminal.wait_for(ENTER);
    terminal.shows("DISK");
    assert!(terminal.is_raw());
    terminal.press("?");
    terminal.shows("text page");
    terminal.press("q");
    terminal.shows("cpus");
    terminal.press(" ");
    terminal.shows("PAUSED");
    terminal.press("!");
    terminal.shows("sampler");
    // Input that followed at once would be taken for part of the same key.
    terminal.press("\x1b");
    std::thread::sleep(Duration::from_secs(1));
    terminal.shows("cpus");
    terminal.press("q");
    terminal.has_ended();
}

#[test]
fn a_signal_ends_it_with_the_terminal_as_it_was() {
    let place = Place::new();
    for signal in [Signal::TERM, Signal::INT] {
        let mut terminal = Terminal::start(&place, &["top", "-i", "200ms", "--record=seen"]);
        terminal.shows("REC");
        kill_process(Pid::from_child(&terminal.child), signal).unwrap();
        terminal.has_ended();
        let record: Value = serde_json::from_str(&place.read("seen/record.json")).unwrap();
        assert!(record["outcome"] == "finished");
        fs::remove_dir_all(place.path("seen")).unwrap();
    }
}

#[test]
fn a_stopped_view_leaves_the_terminal_to_the_shell() {
    let place = Place::new();
    let mut terminal = Terminal::start(&place, &["top", "-i", "200ms"]);
    terminal.shows("DISK");
    let process = Pid::from_child(&terminal.child);
    // By the key, as in the shell, and by the signal.
    for by_key in [true, false] {
        if by_key {
            terminal.press("\x1a");
        } else {
            kill_process(process, Signal::TSTP).unwrap();
        }
        terminal.wait_for(LEAVE);
        let until = Instant::now() + PATIENCE;
        let stat = format!("/proc/{}/stat", terminal.child.id());
        while !fs::read_to_string(&stat).unwrap().contains(") T ") {
            assert!(Instant::now() < until, "not stopped");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!terminal.is_raw());
        kill_process(process, Signal::CONT).unwrap();
        terminal.wait_for(ENTER);
        terminal.shows("DISK");
        assert!(terminal.is_raw());
    }
    terminal.press("q");
    terminal.has_ended();
}

#[test]
fn a_record_is_played_and_sought_in() {
    let place = Place::new();
    place.ask(&["top", "--format=csv", "-n", "8", "-i", "100ms", "--record=seen"]).done();
    let mut terminal = Terminal::start(&place, &["top", "--replay=seen"]);
    terminal.shows("PAUSED");
    terminal.press("\x1b[F");
    terminal.shows("100%");
    terminal.press("\x1b[H");
    terminal.shows("%  ends ");
    terminal.press("g+99h\r");
    terminal.shows("100%");
    terminal.press("gnoon\r");
    terminal.shows("expected");
    terminal.press("q");
    terminal.has_ended();
}

/// A record of an artificial machine with a busy sda and a nearly idle sdb, a sample every second.
fn made_up(place: &Place, seconds: u64) {
    const SECOND: u64 = 1_000_000_000;
    let started_unix_ns = 1_795_289_760 * SECOND;
    let watch = SamplingRecord { interval_ns: SECOND, ..SamplingRecord::default() };
    let record = RunRecord {
        header: Header { started_unix_ns, sampling: Some(watch), ..Header::default() },
        ..RunRecord::default()
    };
    let disk = |name: &str, ios: u64| DiskCounters {
        name: name.into(),
        read: IoCounters { ios, sectors: ios * 8, ticks_ms: ios as u32, ..IoCounters::default() },
        busy_ms: ios as u32,
        weighted_ms: ios as u32,
        ..DiskCounters::default()
    };
    let sample = |second: u64| {
        let disks = vec![disk("sda", second * 900), disk("sdb", second * 7)];
        let machine = MachineSample { disks, ..MachineSample::default() };
        let (elapsed_ns, unix_ns) = (second * SECOND, started_unix_ns + second * SECOND);
        Sample { elapsed_ns, unix_ns, machine, ..Sample::default() }
    };
    fs::create_dir(place.path("made-up")).unwrap();
    place.write("made-up/record.json", serde_json::to_vec(&record).unwrap());
    let lines = (0..seconds).map(|second| serde_json::to_string(&sample(second)).unwrap() + "\n");
    place.write("made-up/samples.ndjson", lines.collect::<String>());
}

#[test]
fn tables_are_sorted_and_rows_shown_in_full() {
    let place = Place::new();
    made_up(&place, 60);
    let mut terminal = Terminal::start(&place, &["top", "--replay=made-up"]);
    terminal.shows("PAUSED");
    let order = |screen: &str| {
        let at = |name: &str| screen.find(name).unwrap_or_else(|| panic!("no {name}: {screen:?}"));
        at("sda") < at("sdb")
    };
    let before = terminal.screen();
    assert!(order(&before), "{before:?}");
    terminal.press("R");
    let turned = terminal.screen();
    assert!(!order(&turned), "{turned:?}");
    terminal.press("R");
    let marked = |screen: &str| screen[..screen.find('▾').unwrap()].len();
    let column = marked(&before);
    terminal.press("S");
    let other = terminal.screen();
    assert_ne!(marked(&other), column, "{other:?}");
    // The second row in full, and back.
    terminal.press("s\x1b[B\r");
    let detail = terminal.screen();
    says(&detail, &["sdb", "areq-sz"]);
    assert!(!detail.contains("sda"), "{detail:?}");
    terminal.press("\x7f");
    says(&terminal.screen(), &["sda", "sdb"]);
    terminal.press("q");
    terminal.has_ended();
}

#[test]
fn a_record_plays_as_fast_as_asked_and_stops_at_its_end() {
    let place = Place::new();
    made_up(&place, 120);
    let mut terminal = Terminal::start(&place, &["top", "--replay=made-up"]);
    terminal.shows("PAUSED");
    terminal.press(" ");
    terminal.shows("1×");
    terminal.press("-");
    terminal.shows("0.5×");
    for speed in ["1×", "2×", "5×", "10×", "30×", "60×", "300×"] {
        terminal.press("+");
        terminal.shows(speed);
        if speed == "10×" {
            break;
        }
    }
    terminal.press(" ");
    terminal.shows("PAUSED");
    // One interval on and one back, then all the rest at once.
    terminal.press("\x1b[H\x1b[C\x1b[C\x1b[D");
    terminal.shows("19:36:02");
    terminal.press("g+60s\r");
    terminal.shows("50%");
    terminal.press("++++ ");
    terminal.shows("PAUSED");
    terminal.shows("100%");
    terminal.press("q");
    terminal.has_ended();
}

#[test]
fn any_size_of_the_terminal_will_do() {
    let place = Place::new();
    let mut terminal = Terminal::start(&place, &["top", "-i", "200ms"]);
    terminal.shows("DISK");
    for (rows, columns) in [(1, 1), (2, 7), (400, 500), (1, 300), (100, 2), (0, 0), (24, 80)] {
        terminal.resize(rows, columns);
        for key in ["!", "?", "q", "z", "t", "\t", "z"] {
            terminal.press(key);
            std::thread::sleep(Duration::from_millis(30));
        }
    }
    terminal.shows("DISK");
    terminal.press("q");
    terminal.has_ended();
}

#[test]
fn it_ends_when_its_terminal_is_gone() {
    let place = Place::new();
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = File::options().read(true).write(true).open(name).unwrap();
    let mut command = place.command(FATHOM, &["top", "-i", "50ms"]);
    // Its messages, too, go to the terminal: they must not make it panic.
    command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
    let mut child = command.spawn().unwrap();
    // Its own copies of the terminal.
    drop(command);
    let mut ours = File::from(ours);
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&seen).contains("1049h") {
        let n = ours.read(&mut buffer).unwrap();
        seen.extend_from_slice(&buffer[..n]);
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "it shows the machine");
    drop(ours);
    let mut ended = None;
    for _ in 0..600 {
        ended = child.try_wait().unwrap();
        if ended.is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
    let ended = ended.expect("it goes on without a terminal");
    assert!(ended.success(), "{ended}");
}

#[test]
fn figures_are_sent_to_a_collector() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("--otlp=http://{}", listener.local_addr().unwrap());
    let collector = std::thread::spawn(move || {
        let answers = ["200 OK", "400 Bad Request"].map(|status| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (Vec::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(text) = line.strip_prefix("Content-Length: ") {
                    length = text.trim().parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
                head.push(line);
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").unwrap();
            (head.remove(0), serde_json::from_slice::<Value>(&body).unwrap())
        });
        answers.to_vec()
    });
    let top = ["top", "-n", "1", "-i", "200ms", url.as_str()];
    let answer = place.ask(&top).done();
    assert_eq!(answer.stdout, "");
    says(&place.ask(&top).stderr, &["refused the figures: HTTP/1.1 400 Bad Request; retrying"]);
    let (line, body) = collector.join().unwrap().remove(0);
    assert_eq!(line, "POST /v1/metrics HTTP/1.1\r\n");
    let metrics = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let named = |one: &&Value| one["name"] == "fathom_user_pct";
    let user = metrics.as_array().unwrap().iter().find(named).unwrap();
    assert!(user["gauge"]["dataPoints"][0]["asDouble"].is_number(), "{user}");
    // Nobody listens any more.
    says(&place.ask(&top).stderr, &["cannot send to http://127.0.0.1:", "retrying"]);
    let wrong = place.ask(&["top", "-n", "1", "--otlp=https://a"]);
    assert_eq!(wrong.code, Some(2));
    says(&wrong.stderr, &["https is not supported"]);
}

#[test]
fn figures_are_exported_for_prometheus() {
    let place = Place::new();
    let exported = |args: &[&str]| {
        let answer = place.ask(&[args, &["--prometheus=figures.prom"]].concat()).done();
        assert_eq!(answer.stdout, "");
        fs::read_to_string(place.path("figures.prom")).unwrap()
    };
    let text = exported(&["top", "-n", "1", "-i", "200ms"]);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("fathom_") && value.parse::<f64>().is_ok(), "{line}");
    }
    says(&text, &["# TYPE fathom_user_pct gauge\n", "# HELP fathom_disk_reads_per_s "]);
    let answer = place.ask(&["top", "--prometheus=a.prom", "--json"]);
    assert_eq!(answer.code, Some(2));
}
