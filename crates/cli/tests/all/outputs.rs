//! Where results and records go: nothing is followed, nothing hangs, and what is refused is refused before any
//! target has changed.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{FATHOM, MIB, Place, Running, assert_one_error, is_root, says, tool};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

const RUN: [&str; 5] = ["run", "--no-record", "--eta=never", "--rw=read", "data"];

fn place() -> Place {
    let place = Place::new();
    place.data("data", MIB);
    place
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// A command of a shell that calls fathom as `$0`.
fn shell(place: &Place, script: &str) -> crate::common::Answer {
    Running::start(&mut place.command("sh", &["-c", script, FATHOM])).wait()
}

#[test]
fn a_planted_name_is_not_followed_on_the_way_to_the_result() {
    let place = place();
    place.write("victim", "mine");
    let run = RUN.join(" ");
    shell(&place, &format!("ln -s victim result.$$.part; exec \"$0\" {run} --output=result"))
        .done();
    assert_eq!(place.read("victim"), "mine");
    says(&place.read("result"), &["IOPS"]);
    let record = "exec \"$0\" run --eta=never --rw=read --record=kept data";
    let plant = "mkdir kept; ln -s ../victim kept/record.json.$$.part";
    shell(&place, &format!("{plant}; {record}")).done();
    assert_eq!(place.read("victim"), "mine");
}

#[test]
fn an_existing_result_keeps_its_mode_and_owner() {
    let place = place();
    for bits in [0o600, 0o640, 0o666, 0o750] {
        place.write("result", "old");
        fs::set_permissions(place.path("result"), fs::Permissions::from_mode(bits)).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(place.path("result"), Some(1234), Some(4321)).unwrap();
        }
        let before = fs::metadata(place.path("result")).unwrap();
        place.ask(&[&RUN[..], &["--output=result"]].concat()).done();
        says(&place.read("result"), &["IOPS"]);
        let after = fs::metadata(place.path("result")).unwrap();
        assert_eq!(mode(place.path("result")), bits);
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    }
    // A new one is an ordinary file.
    let run = RUN.join(" ");
    shell(&place, &format!("umask 027; exec \"$0\" {run} --output=new")).done();
    assert_eq!(mode(place.path("new")), 0o640);
}

#[test]
fn the_ending_of_a_file_selects_the_format_and_others_are_refused() {
    let place = place();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/fixtures/v2/run");
    let stored = fixture.to_str().unwrap();
    let commands: [&[&str]; 3] = [&["show", stored], &["report", stored], &RUN];
    for (at, command) in commands.into_iter().enumerate() {
        let to = |name: &str| place.ask(&[command, &["-o", name]].concat());
        // fio's users name the files of `run` as they like.
        if at < 2 {
            let refused = to("x.pdf");
            assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
            let texts = ["--output=x.pdf: .pdf is not supported", ".html, .md"];
            assert_one_error(&refused.stderr, &texts);
            assert!(!place.path("x.pdf").exists());
        }
        for (name, begin) in [("x.html", "<!DOCTYPE"), ("x.md", "#"), ("x.json", "{")] {
            if (at, name) != (1, "x.json") {
                to(name).done();
                assert!(place.read(name).trim_start().starts_with(begin), "{command:?} {name}");
            }
        }
        place.ask(&[command, &["--format=markdown", "-o", "x.pdf"]].concat()).done();
        fs::remove_file(place.path("x.pdf")).unwrap();
    }
}

#[test]
fn links_and_special_files_are_refused_by_name() {
    let place = place();
    place.write("real", "mine");
    symlink("real", place.path("link")).unwrap();
    symlink("nowhere", place.path("dangling")).unwrap();
    tool("mkfifo", &[place.path("pipe").to_str().unwrap()]);
    let _socket = UnixListener::bind(place.path("socket")).unwrap();
    fs::create_dir(place.path("dir")).unwrap();
    let real = fs::canonicalize(place.path("real")).unwrap();
    let itself = format!("{}; name that file itself", real.display());
    let before = place.look();
    for (name, part) in [
        ("link", &*itself),
        ("dangling", "nowhere"),
        ("pipe", "FIFO"),
        ("socket", "socket"),
        ("dir", "directory"),
        ("/dev/zero", "character device"),
        ("/proc/x", "cannot be written"),
        ("new/", "names no file"),
        ("data/x", "--output=data/x"),
    ] {
        let output = format!("--output={name}");
        let run = place.ask(&[&RUN[..], &[&output]].concat());
        let stacks = place.ask(&["stacks", "--duration=50ms", "-o", name]);
        let limit = place.ask(&["limit", "--quick", "--no-record", &output, "data"]);
        for answer in [run, stacks, limit] {
            assert_eq!(answer.code, Some(1), "{name}: {}", answer.stderr);
            assert_one_error(&answer.stderr, &[name, part]);
        }
    }
    assert_eq!(place.look(), before);
}

#[test]
fn results_go_to_the_streams_that_people_name() {
    let place = place();
    fn to(name: &str) -> Vec<&str> {
        [&RUN[..], &["--output-format=json", name]].concat()
    }
    for name in ["--output=/dev/stdout", "--output=/dev/fd/1", "--output=/proc/self/fd/1"] {
        place.ask(&to(name)).done().json();
    }
    let answer = place.ask(&to("--output=/dev/stderr")).done();
    assert!(serde_json::from_str::<Value>(&answer.stderr).is_ok(), "{}", answer.stderr);
    assert_eq!(place.ask(&to("--output=/dev/null")).done().stdout, "");
    let run = to("--output=/dev/fd/7").join(" ");
    shell(&place, &format!("exec \"$0\" {run} 7>seven")).done();
    assert!(serde_json::from_str::<Value>(&place.read("seven")).is_ok());
    let piped = shell(&place, &format!("{{ \"$0\" {run} 7>&1 >&2; }} | cat")).done();
    piped.json();
    let none = place.ask(&to("--output=/dev/fd/77"));
    assert_one_error(none.stderr.lines().last().unwrap(), &["/dev/fd/77"]);
    assert_eq!(none.code, Some(1));
}

#[test]
fn what_has_no_place_is_refused_before_a_target_has_changed() {
    let place = place();
    let before = place.look();
    let write = ["run", "--eta=never", "--rw=write", "--size=4m"];
    for places in [
        &["--record=/proc/x"][..],
        &["--record=/sys/x/y"],
        &["--no-record", "--output=/proc/x"],
        &["--record=new/record", "--output=/proc/x"],
    ] {
        for target in [&["--overwrite=data", "data"][..], &["made"]] {
            let answer = place.ask(&[&write[..], places, target].concat());
            assert_eq!(answer.code, Some(1), "{places:?}: {}", answer.stderr);
            assert_eq!(place.look(), before, "{places:?} {target:?}");
        }
    }
    let scratch = place.ask(&["limit", "--quick", "--record=/proc/x", "--size=1m"]);
    assert_eq!(scratch.code, Some(1));
    assert_one_error(&scratch.stderr, &["/proc/x"]);
}

#[test]
fn nothing_is_left_of_a_record_whose_targets_are_refused() {
    let place = place();
    fs::create_dir(place.path("there")).unwrap();
    let before = place.look();
    for record in ["--record=new/a/b", "--record=there", "--record=there/new"] {
        // Without --overwrite, of a file that is not fathom's own.
        let run = place.ask(&["run", "--eta=never", "--rw=write", record, "data"]);
        let limit = place.ask(&["limit", "--quick", record, "missing"]);
        for answer in [run, limit] {
            assert_eq!(answer.code, Some(1), "{}", answer.stderr);
            assert_eq!(place.look(), before, "{record}");
        }
    }
    let run = place.ask(&["run", "--eta=never", "--rw=write", "data"]);
    assert_eq!(run.code, Some(1));
    assert_eq!(place.look(), before);
}

#[test]
fn records_are_for_their_owner_only() {
    let place = place();
    let run = "run --eta=never --rw=read data";
    let record = "record -i 50ms --record ring";
    let script = format!(
        "umask 0; \"$0\" {run} --record=a/run && \"$0\" {run} && \"$0\" watch --duration 100ms --record watch && \
         \"$0\" limit --duration=5 --record=limit data && {{ \"$0\" {record} & sleep 1.5; kill $!; wait $!; }}"
    );
    shell(&place, &script).done();
    let mut dirs = ["a", "a/run", "watch", "limit", "ring"].map(|d| place.path(d)).to_vec();
    let entries = |path: &Path| -> Vec<PathBuf> {
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    dirs.extend(entries(&place.path("ring")).into_iter().filter(|path| path.is_dir()));
    let runs = place.home().join(".local/state/fathom/runs");
    dirs.extend(entries(&runs));
    dirs.push(runs);
    assert_eq!(dirs.len(), 8, "{dirs:?}");
    for dir in dirs {
        assert_eq!(mode(&dir), 0o700, "{}", dir.display());
        for file in entries(&dir).into_iter().filter(|path| !path.is_dir()) {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    }
}

#[test]
fn an_unwritable_result_of_someone_else_is_refused() {
    if !is_root("a result as another user") {
        return;
    }
    let place = place();
    place.write("result", "theirs");
    fs::set_permissions(place.path("result"), fs::Permissions::from_mode(0o644)).unwrap();
    let dir = place.path("");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let run = RUN.join(" ");
    // Only where another user can reach the place and the program at all.
    let as_nobody = format!("exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$0\" {run}");
    if shell(&place, &as_nobody).code != Some(0) {
        println!("skipped: another user cannot run fathom here");
        return;
    }
    let answer = shell(&place, &format!("{as_nobody} --output=result"));
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    assert_one_error(&answer.stderr, &["--output=result", "ermission denied"]);
    assert_eq!(place.read("result"), "theirs");
    File::open(dir).unwrap();
}
