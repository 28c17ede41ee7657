//! `fathom compare` as a user sees it, on recorded runs. None of these asserts a speed.

use crate::common::{Loop, MIB, Place, as_root, assert_one_error, says, until};
use fathom_model::experiment::{ExperimentRecord, RoundWindow};
use fathom_model::outcome::Outcome;
use fathom_model::window::CpuTime;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const READS: [&str; 5] =
    ["--rw=randread", "--bs=4k", "--direct=1", "--time_based", "--runtime=200ms"];

/// Records a short run in the directory `name`.
fn record(place: &Place, name: &str, args: &[&str]) {
    let to = format!("--record={name}");
    let run = ["run", "--eta=never", "--sampling=off", &to, "--name=reads", "--filename=data"];
    place.ask(&[&run[..], &READS, args].concat()).done();
}

fn recorded() -> Place {
    let place = Place::new();
    place.data("data", 4 * MIB);
    record(&place, "kept", &["--iodepth=4"]);
    place
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// The run `kept` as a run in the directory `to`, which did `per_mille` of its I/Os.
fn variant(place: &Place, to: &Path, per_mille: u64, change: impl FnOnce(&mut Value)) {
    copied(&place.path("kept"), to);
    let file = to.join("record.json");
    let mut record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let ios = &mut record["jobs"][0]["dirs"]["read"]["counts"]["ios"];
    *ios = (100_000 * per_mille / 1000).into();
    record["facts"]["host"]["host_id"] = "this-machine".into();
    change(&mut record);
    fs::write(file, record.to_string()).unwrap();
}

/// Runs of the default directory, of which the first ones did as many I/Os as given.
fn stored(place: &Place, per_mille: &[u64]) -> Vec<String> {
    let runs = place.home().join(".local/state/fathom/runs");
    let one = |(at, part): (usize, &u64)| {
        let name = format!("2026110{}-120000-{at}", at + 1);
        let started = 1_793_620_800_000_000_000 + at as u64 * 86_400_000_000_000;
        variant(place, &runs.join(&name), *part, |r| r["started_unix_ns"] = started.into());
        name
    };
    per_mille.iter().enumerate().map(one).collect()
}

#[test]
fn two_runs_show_figures_and_claim_nothing() {
    let place = recorded();
    record(&place, "other", &["--iodepth=8"]);
    let answer = place.ask(&["compare", "kept", "other"]).done();
    let shown = [
        "The plans differ (iodepth: 4 → 8).",
        "No difference is claimed (",
        "Repeat each at least three times",
        "Whether other programs ran during kept, other is not known",
        "\nreads\n",
        "change (95% CI)",
        "p99.9",
        "CPU per I/O",
        "in flight",
        "what differs",
    ];
    says(&answer.stdout, &shown);
    let json = place.ask(&["compare", "kept", "other", "--json"]).done().json();
    let reads = &json["parts"][0];
    assert_eq!((&json["kind"], &reads["name"]), (&"run".into(), &"reads".into()));
    let figure =
        reads["figures"].as_array().unwrap().iter().find(|one| one["id"] == "iops").unwrap();
    assert_eq!((&figure["verdict"], &figure["interval"]), (&"unknown".into(), &Value::Null));
    // Whatever blocks a claim, the answer and the main figures are on the first screen.
    let figures = ["No difference is claimed (", "IOPS", "bandwidth", "p99"];
    place.first_screen(&["compare", "kept", "other"], &figures);
    copied(&fixture("v1/run"), &place.path("before"));
    copied(&fixture("v2/run"), &place.path("after"));
    let figures =
        ["No difference is claimed (", "the runs are not comparable", "read await 122 µs"];
    place.first_screen(&["compare", "before", "after"], &figures);
    let markdown = place.ask(&["compare", "kept", "other", "--format=markdown"]).done().stdout;
    assert!(markdown.contains("| IOPS |"), "{markdown}");
    // Each row has the cells of its head.
    let mut cells = 0;
    for line in markdown.lines() {
        let here = line.split(" | ").count() * usize::from(line.starts_with('|'));
        assert!(cells == 0 || here == 0 || here == cells, "{line}\n{markdown}");
        cells = here;
    }
    let html = ["compare", "kept", "other", "--format=html", "-o", "page.html"];
    place.ask(&html).done();
    says(&place.read("page.html"), &["<title>", "fathom compare", "</html>"]);
    // No file of a compared run may be replaced.
    let over = place.ask(&["compare", "kept", "other", "-o", "kept/record.json"]);
    assert_eq!(over.code, Some(1), "{}", over.stderr);
    assert!(place.read("kept/record.json").contains("run_id"));
}

#[test]
fn sets_of_repetitions_allow_claims() {
    let place = recorded();
    // What else ran is not known: those of both sides alternate.
    let started = |name: &str, at: usize| Value::from(1 + 2 * at + usize::from(name != "a"));
    let set = |set: &str, parts: [u64; 5]| -> Vec<String> {
        let one = |(at, part): (usize, u64)| {
            let name = format!("{set}{at}");
            let time = started(set, at);
            variant(&place, &place.path(&name), part, |r| r["started_unix_ns"] = time);
            name
        };
        parts.into_iter().enumerate().map(one).collect()
    };
    let before = set("a", [1000, 1004, 997, 1001, 998]);
    let after = set("b", [900, 903, 897, 901, 899]);
    let again = set("c", [1001, 999, 1003, 996, 1000]);
    let with = |others: &[String]| -> Vec<String> {
        let all = [&before[..], &["--to".to_string()], others].concat();
        ["compare".to_string()].into_iter().chain(all).collect()
    };
    let compare = |others: &[String], more: &[&str]| {
        let args = with(others);
        place.ask(&[&args.iter().map(String::as_str).collect::<Vec<_>>(), more].concat())
    };
    let page = compare(&after, &[]).done().stdout;
    says(&page, &["Slower: ", "IOPS −10.0% (95% CI −10.", "worse", "5 runs"]);
    let args = with(&after);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    place.first_screen(&args, &["Slower: reads IOPS −10.0% (95% CI", "bandwidth", "p99"]);
    let page = compare(&again, &[]).done().stdout;
    says(&page, &["No difference is shown: ", "not shown"]);
    // One set after the other: the difference may be the effect of another program.
    let time = |at: u64| move |r: &mut Value| r["started_unix_ns"] = (100 + at).into();
    (0..5).for_each(|at| variant(&place, &place.path(&format!("d{at}")), 900 + at, time(at)));
    let later: Vec<String> = (0..5).map(|at| format!("d{at}")).collect();
    let page = compare(&later, &[]).done().stdout;
    says(
        &page,
        &[
            "No difference is claimed (",
            "IOPS −9.",
            "not comparable:",
            "Whether other programs ran",
        ],
    );
    assert!(!page.contains("Slower"), "{page}");
    let open = compare(&later, &["--fail-if", "iops < -3%"]);
    assert_eq!(open.code, Some(4), "{}{}", open.stdout, open.stderr);
    let failed = compare(&after, &["--fail-if", "iops < -3%"]);
    assert_eq!(failed.code, Some(3), "{}{}", failed.stdout, failed.stderr);
    says(&failed.stdout, &["fail if iops < -3%", "holds: ", "IOPS −10.0%"]);
    let passed = compare(&again, &["--fail-if", "iops < -3%", "--fail-if", "reads:p99 > +50%"]);
    assert_eq!(passed.code, Some(0), "{}{}", passed.stdout, passed.stderr);
    // The threshold is within the interval.
    let open = compare(&after, &["--fail-if", "iops < -10%", "--json"]);
    assert_eq!(open.code, Some(4), "{}{}", open.stdout, open.stderr);
    assert_eq!(open.json()["requirements"][0]["outcome"], "inconclusive");
    let junit = compare(&after, &["--fail-if", "iops < -3%", "--fail-if", "p99 > +50%", "--junit"]);
    assert_eq!(junit.code, Some(3), "{}{}", junit.stdout, junit.stderr);
    says(&junit.stdout, &["<testsuite name=\"fathom\" tests=\"2\" failures=\"1\" errors=\"0\">"]);
    // An incomplete run blocks the claim.
    variant(&place, &place.path("b4"), 899, |r| {
        r["started_unix_ns"] = started("b", 4);
        r["outcome"] = serde_json::json!({"interrupted": {"by": "SIGINT"}});
    });
    let page = compare(&after, &[]).done().stdout;
    says(&page, &["b4 is incomplete.", "the runs are not comparable", "not comparable"]);
    assert!(!page.contains("Slower"), "{page}");
}

#[test]
fn earlier_runs_show_how_much_single_ones_differ() {
    let place = recorded();
    let names = stored(&place, &[1000, 1002, 999, 1001, 1000, 800]);
    let (before, after) = (names[4].as_str(), names[5].as_str());
    let json = place.ask(&["compare", before, after, "--json"]).done().json();
    let earlier = json["earlier"].as_array().unwrap();
    assert_eq!(
        earlier.iter().map(|n| n.as_str().unwrap()).collect::<Vec<_>>(),
        [&names[3], &names[2], &names[1], &names[0]]
    );
    let page = place.ask(&["compare", before, after]).done().stdout;
    // Nothing is known of other programs, which may have slowed down the one after.
    let said =
        ["No difference is claimed (", "IOPS −20.0% (95% CI −", "not comparable", "from 4 runs: "];
    says(&page, &said);
    // Runs on another machine, or of another plan, say nothing.
    for (run, pointer, value) in
        [(0, "/facts/host/host_id", "other"), (1, "/plan/jobs/0/name", "x")]
    {
        let file =
            place.home().join(format!(".local/state/fathom/runs/{}/record.json", names[run]));
        let mut record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        *record.pointer_mut(pointer).unwrap() = value.into();
        fs::write(file, record.to_string()).unwrap();
    }
    let page = place.ask(&["compare", before, after]).done().stdout;
    says(&page, &["No difference is claimed (", "IOPS −20.0%): how much runs differ"]);
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/fixtures").join(name)
}

#[test]
fn every_kind_of_result_is_compared_with_its_own() {
    let place = Place::new();
    for (name, part) in
        [("run", "IOPS"), ("watch", "vda"), ("limit", "peak"), ("experiment", "IOPS")]
    {
        let from = fixture(&format!("v2/{name}"));
        copied(&from, &place.path(name));
        let page = place.ask(&["compare", from.to_str().unwrap(), name]).done().stdout;
        says(&page, &["No difference is claimed (", part, "nothing that is recorded"]);
    }
    let wrong = place.ask(&["compare", "run", "limit"]);
    assert_eq!(wrong.code, Some(1));
    assert_one_error(&wrong.stderr, &["run is a result of `run`, limit one of `limit`"]);
}

#[test]
fn fio_json_is_compared_with_fio_json_and_with_runs() {
    let place = recorded();
    let fio = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/fio-3.33/run.json");
    let text = fs::read_to_string(fio).unwrap();
    place.write("a.json", &text);
    place.write("b.json", format!("fio: a message\n{}", text.replace("496000", "248000")));
    let page = place.ask(&["compare", "a.json", "b.json"]).done().stdout;
    says(&page, &["a read", "IOPS", "496k", "248k", "−50.0%", "is not known; differences include"]);
    assert!(!page.contains("limited by"), "{page}");
    let absolute = place.ask(&["compare", "a.json", "b.json", "--fail-if", "a read:iops < 300k"]);
    assert_eq!(absolute.code, Some(3), "{}", absolute.stderr);
    // A run is read as the JSON that it prints for fio's users.
    let reads = text.replace("\"jobname\" : \"a\"", "\"jobname\" : \"reads\"");
    place.write("reads.json", reads);
    let page = place.ask(&["compare", "reads.json", "kept"]).done().stdout;
    says(&page, &["The plans differ (", "\nreads\n"]);
    // What else the machine did is known of a sampled run.
    copied(&fixture("v2/run"), &place.path("sampled"));
    place.write("reads.json", text.replace("\"jobname\" : \"a\"", "\"jobname\" : \"randread\""));
    let page = place.ask(&["compare", "reads.json", "sampled"]).done().stdout;
    says(&page, &["Whether other programs ran during reads.json is not known;", "CPUs of other"]);
    place.write("text.json", "{\"jobs\": 1}");
    let wrong = place.ask(&["compare", "a.json", "text.json"]);
    assert_eq!(wrong.code, Some(1));
    assert_one_error(&wrong.stderr, &["text.json is not fio's JSON", "--output-format=json"]);
}

#[test]
fn wrong_command_lines_are_usage_errors() {
    let place = recorded();
    copied(&place.path("kept"), &place.path("other"));
    let cases: [(&[&str], &[&str]); 10] = [
        (&["kept"], &["name two runs"]),
        (&["kept", "a", "b"], &["3 runs", "--to"]),
        (&["kept", "kept"], &["kept is named twice"]),
        (&[".", ".."], &[". is not a run directory; name a run, its directory or a tag"]),
        (&["kept", "./kept"], &["./kept is named twice"]),
        (
            &["kept", "other", "--fail-if", "usr_cpuu > 2"],
            &["unknown figure 'usr_cpuu'; did you mean 'usr_cpu'?", "p99.9", "cpu_ms_per_io"],
        ),
        (
            &["kept", "other", "--fail-if", "writes:iops > 2"],
            &["'writes:iops > 2': no part is called 'writes'; parts are reads"],
        ),
        (&["kept", "other", "--fail-if", "p99 > 2mss"], &["expected a time such as 2ms"]),
        (&["kept", "a", "--fail-if", "p99"], &["expected FIGURE > VALUE"]),
        (&["kept", "a", "--fail-if", "iops < 5%"], &["+5%"]),
    ];
    for (args, parts) in cases {
        let before = place.look();
        let answer = place.ask(&[&["compare"], args].concat());
        assert_eq!(answer.code, Some(2), "{args:?}: {}", answer.stderr);
        says(&answer.stderr, parts);
        assert!(answer.stdout.is_empty() && place.look() == before, "{args:?}");
    }
    let missing = place.ask(&["compare", "kept", "nosuch"]);
    assert_eq!(missing.code, Some(1));
    assert_one_error(&missing.stderr, &["no such run or tag: nosuch"]);
}

/// The experiment in `once` as a run on `kernel`, with so many IOPS of the variant "buffered" and this CPU time.
fn on_kernel(place: &Place, name: &str, kernel: &str, buffered: f64, cpu: CpuTime) {
    copied(&place.path("once"), &place.path(name));
    let text = place.read("once/record.json");
    let mut record: ExperimentRecord = serde_json::from_str(&text).unwrap();
    record.header.outcome = Outcome::Finished;
    record.header.facts.host.kernel = kernel.to_string();
    for (condition, found) in
        record.request.experiment.conditions.iter().zip(&mut record.report.conditions)
    {
        (found.windows, found.errors) = (9, 0);
        found.iops = if condition.name == "buffered" { buffered } else { 5000.0 };
    }
    place.write(&format!("{name}/record.json"), serde_json::to_vec(&record).unwrap());
    let window = |line: &str| {
        let mut window: RoundWindow = serde_json::from_str(line).unwrap();
        // What else ran on this machine is no part of the test.
        let sample = window.outcome.as_mut().unwrap();
        (sample.cpu, sample.disk) = (Some(cpu), None);
        serde_json::to_string(&window).unwrap() + "\n"
    };
    let windows: String = place.read("once/windows.ndjson").lines().map(window).collect();
    place.write(&format!("{name}/windows.ndjson"), windows);
}

#[test]
fn experiments_on_two_kernels_are_compared_variant_by_variant() {
    let place = Place::new();
    place.data("data", 4 * MIB);
    place.ask(&[
        "try",
        "kernels",
        "data",
        "--duration=1",
        "--window=50ms",
        "--sampling=off",
        "--record=once",
    ]);
    let idle = CpuTime { idle_ns: 1_000_000_000, ..CpuTime::default() };
    let busy = CpuTime { busy_ns: 900_000_000, idle_ns: 100_000_000, ..CpuTime::default() };
    for at in 0..3 {
        let noise = f64::from(at);
        on_kernel(&place, &format!("old{at}"), "5.8.0", 2000.0 + noise, idle);
        on_kernel(&place, &format!("new{at}"), "5.11.0", 3000.0 + noise, idle);
        on_kernel(&place, &format!("beside{at}"), "5.11.0", 3000.0 + noise, busy);
    }
    let compare = |with: &str| {
        let after = [0, 1, 2].map(|at| format!("{with}{at}"));
        let args = ["compare", "old0", "old1", "old2", "--to", &after[0], &after[1], &after[2]];
        place.ask(&args).done().stdout
    };
    let page = compare("new");
    says(&page, &["Faster: buffered IOPS +50.0% (", "5.8.0", "5.11.0"]);
    let page = compare("beside");
    says(&page, &["CPUs were busy besides the load before, ", "the runs are not comparable"]);
    assert!(!page.contains("Faster"), "{page}");
}

#[test]
fn a_tag_stands_for_all_of_its_runs() {
    let place = recorded();
    let names = stored(&place, &[1000, 1004, 996, 2000, 2004, 1996]);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    place.ask(&["runs", "tag", names[0], names[1], names[2], "slow"]).done();
    place.ask(&["runs", "tag", names[3], names[4], names[5], "fast"]).done();
    let list = place.ask(&["runs", "--json"]).done().json();
    assert_eq!((&list[0]["tags"][0], &list[5]["tags"][0]), (&"slow".into(), &"fast".into()));
    says(&place.ask(&["runs"]).done().stdout, &["tags", "slow", "fast"]);
    let compared = place.ask(&["compare", "slow", "fast", "--json"]).done().json();
    assert_eq!(compared["before"]["runs"].as_array().unwrap().len(), 3);
    assert_eq!(compared["after"]["runs"][2]["name"], names[5]);
    assert_eq!(compared["parts"][0]["figures"][0]["verdict"], "not_comparable", "{compared}");
    // Three runs on one side show how much the single one after differs by itself.
    let single = ["compare", "--baseline", "slow", names[3], "--json"];
    let single = place.ask(&single).done().json();
    assert_eq!(single["earlier"], serde_json::json!(names[..3]));
    assert!(!single["parts"][0]["figures"][0]["interval"].is_null(), "{single}");
    let twice = place.ask(&["compare", "--baseline", "slow", names[0]]);
    assert_eq!(twice.code, Some(2));
    assert_one_error(&twice.stderr, &["is named twice"]);
    let shown = place.ask(&["show", "fast", "--json"]).done().json();
    assert_eq!(shown, place.ask(&["show", names[5], "--json"]).done().json());
    place.ask(&["runs", "untag", "slow", "slow"]).done();
    place.ask(&["runs", "prune", "--keep=0s"]).done();
    let list = place.ask(&["runs", "--json"]).done().json();
    assert_eq!(list.as_array().unwrap().len(), 3, "those with a tag stay");
    for (args, why) in [
        (["slow", "x"], "no such run or tag: slow"),
        (["fast", "a b"], "cannot be a tag"),
        (["fast", names[3]], "has the form of a run's name"),
    ] {
        let answer = place.ask(&[&["runs", "tag"], &args[..]].concat());
        assert_eq!(answer.code, Some(1));
        assert_one_error(&answer.stderr, &[why]);
    }
}

#[test]
fn rounds_are_one_result_with_intervals_between_them() {
    let place = Place::new();
    place.data("data", 4 * MIB);
    let run = |args: &[&str]| {
        let run = ["run", "--eta=never", "--sampling=off", "--name=reads", "--filename=data"];
        place.ask(&[&run[..], &READS, args].concat())
    };
    let page = run(&["--repeat=3", "--tag=rounds"]).done().stdout;
    says(&page, &["3 rounds: reads IOPS ", "mean (95% CI between rounds)", "least", "bandwidth"]);
    let list = place.ask(&["runs", "--json"]).done().json();
    let list = list.as_array().unwrap();
    assert!(list.len() == 3 && list.iter().all(|run| run["tags"][0] == "rounds"), "{list:?}");
    // What makes the figures of a round doubtful is said of all.
    fs::File::create(place.path("sparse")).unwrap().set_len(4 << 20).unwrap();
    let sparse =
        ["run", "--eta=never", "--no-record", "--repeat=2", "--name=x", "--filename=sparse"];
    says(&place.ask(&[&sparse[..], &READS].concat()).done().stdout, &["2 rounds: ", "WARNING"]);
    // A round that cannot be planned, as its file is gone, leaves the results of those before.
    place.data("gone", MIB);
    let gone = ["run", "--eta=never", "--sampling=off", "--no-record", "--repeat=100"];
    let read = ["--name=x", "--filename=gone"];
    let running = place.start(&[&gone[..], &read, &READS].concat());
    until("a round", || running.so_far("stderr").contains("round 1 of 100"));
    fs::remove_file(place.path("gone")).unwrap();
    let answer = running.wait();
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    says(&answer.stdout, &["x IOPS ", "greatest"]);
    says(&answer.stderr, &["gone does not exist"]);
    // So does a signal, whether it comes in a round, between two or while one is prepared.
    let running = place.start(&[&gone[..], &["--name=x", "--filename=data"], &READS].concat());
    until("a round", || running.so_far("stderr").contains("round 1 of 100"));
    running.signal(Signal::INT);
    let answer = running.wait();
    assert_eq!((answer.code, answer.signal), (Some(1), None), "{}", answer.stderr);
    says(&answer.stdout, &["x IOPS ", "greatest"]);
    let said = ["SIGINT after ", "interrupted while data was being prepared"];
    assert!(said.iter().any(|said| answer.stderr.contains(said)), "{}", answer.stderr);
    // Programs get each round, and a file holds all of them.
    run(&["--repeat=2", "--record=kept", "--output-format=json", "--output=out.json"]).done();
    let text = fs::read_to_string(place.path("out.json")).unwrap();
    let each = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    assert_eq!(each.filter(|one| one.as_ref().unwrap()["jobs"][0]["error"] == 0).count(), 2);
    assert!(place.path("kept/1/record.json").exists() && place.path("kept/2/record.json").exists());
    let both = run(&["--repeat=2", "--no-record", "--output-format=json,normal"]).done().stdout;
    says(&both, &["\"jobs\"", "2 rounds: "]);
}

#[test]
fn a_run_is_compared_and_held_to_requirements() {
    let place = recorded();
    let run = |args: &[&str]| {
        let run = ["run", "--eta=never", "--sampling=off", "--no-record", "--iodepth=4"];
        let job = ["--name=reads", "--filename=data"];
        place.ask(&[&run[..], args, &job, &READS].concat())
    };
    let compared = run(&["--compare=kept", "--fail-if=p99 > +900%"]);
    assert_eq!(compared.code, Some(4), "{}", compared.stderr);
    says(
        &compared.stdout,
        &["comparison  with kept", "before", "fail if p99 > +900%  inconclusive"],
    );
    // What cannot be compared is an error, after the result.
    let null = |args: &[&str]| {
        let run = ["run", "--eta=never", "--sampling=off", "--no-record"];
        let job = ["--ioengine=null", "--rw=read", "--size=1m", "--number_ios=9"];
        place.ask(&[&run[..], args, &job].concat())
    };
    place.write("a.json", null(&["--output-format=json", "--name=a"]).done().stdout);
    for rounds in ["--repeat=1", "--repeat=2"] {
        let different = null(&["--compare=a.json", rounds, "--name=b"]);
        assert_eq!(different.code, Some(1), "{}", different.stderr);
        says(&different.stdout, &["IOPS"]);
        says(&different.stderr, &["nothing is in both: a.json has a"]);
    }
    place.ask(&["watch", "--record=watched", "--", "true"]).done();
    let refused = run(&["--compare=watched"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
    assert_one_error(&refused.stderr, &["watched is a result of `watch`; name one of `run`"]);
    // For programs that read the results, the requirements are on standard error.
    let json = run(&["--compare=kept", "--fail-if=p99 > +900%", "--output-format=json"]);
    assert_eq!(json.code, Some(4));
    says(&json.stderr, &["fail if p99 > +900%: inconclusive: "]);
    for (requirement, code) in [
        ("iops > 1", 3),
        ("iops < 1", 0),
        ("p99 < 1us", 0),
        // Any figure, in the unit that its name has.
        ("max < 1ns", 0),
        ("p95 > 1ns", 3),
        ("p99.99 > 60s", 0),
        ("errors > 0", 0),
        ("usr_cpu > 101%", 0),
        ("reads:ctx > 1g", 0),
        ("slat.p99 > 60s", 0),
        ("read.clat_ns.min < 60s", 3),
        ("read.bw > 1k", 3),
        ("job_runtime > 60s", 0),
        ("fathom.jobs.depth_max > 4", 0),
        ("fathom.jobs.depth_max < 5", 3),
        // No such I/Os.
        ("write.clat_ns.max > 1ns", 4),
        ("fathom.nothing > 1", 4),
    ] {
        let answer = run(&["--fail-if", requirement]);
        assert_eq!(answer.code, Some(code), "{requirement}: {}", answer.stderr);
        says(&answer.stdout, &[&format!("fail if {requirement}")]);
        let rounds = run(&["--repeat=2", "--fail-if", requirement]);
        assert_eq!(rounds.code, Some(code), "{requirement}: {}", rounds.stderr);
    }
    for (args, why) in [
        (["--fail-if=p99 > +5%", "--eta=never"], "name what to compare with: --compare=RUN"),
        (["--fail-if=speed > 5", "--eta=never"], "unknown figure 'speed'"),
        (["--fail-if=speed > 5", "--parse-only"], "unknown figure 'speed'"),
        (["--fail-if=read.clat_ns.maxx > 5ms", "--eta=never"], "did you mean 'read.clat_ns.max'?"),
        (["--fail-if=p101 > 5%", "--eta=never"], "'p101' is not a percentile"),
        (["--fail-if=clat_ns.max > 5", "--eta=never"], "expected a time such as 2ms"),
        (["--compare=nosuch", "--eta=never"], "no such run or tag: nosuch"),
        (["--repeat=0", "--eta=never"], "--repeat"),
        (["--tag=good", "--eta=never"], "--tag and --no-record conflict"),
    ] {
        let answer = run(&args);
        let code = if args[0].starts_with("--fail-if") { 2 } else { 1 };
        assert_eq!(answer.code, Some(code), "{}", answer.stdout);
        assert_one_error(&answer.stderr, &[why]);
    }
}

#[test]
fn rounds_until_a_steady_state_begin_with_a_discarded_and_twice_written_device() {
    let Some(_guard) = as_root("rounds until a steady state") else { return };
    let place = Place::new();
    place.write("image", vec![0; 4 * MIB]);
    let device = Loop::on(&place.path("image"));
    let (erase, file) = (format!("--erase={}", device.0), format!("--filename={}", device.0));
    // Its rate is met on any machine.
    let job = ["--rw=randwrite", "--rate_iops=100", "--runtime=500ms", "--time_based"];
    let run = |args: &[&str]| {
        let run = ["run", "--eta=never", "--steady-state=snia", "--name=writes", &file];
        place.ask(&[&run[..], &job, args].concat())
    };
    let steady = run(&[&erase, "--repeat=12"]).done();
    says(&steady.stdout, &["steady state", "reached in rounds ", "rounds until steady"]);
    let prepared = "4 MiB discarded, then 8 MiB written in blocks of 128 KiB, 2 times all";
    says(&steady.stdout, &[prepared]);
    let list = place.ask(&["runs", "--json"]).done().json();
    assert!(list.as_array().unwrap().len() >= 6, "{list}");
    // What is only read is left as it is.
    let before = fs::read(&device.0).unwrap();
    let reads = run(&["--rw=randread", "--repeat=9", "--no-record"]);
    says(&reads.stdout, &["was neither discarded nor written: --erase="]);
    assert!(fs::read(&device.0).unwrap() == before);
    for (option, why) in [
        ("--confirm", "--confirm and --steady-state conflict"),
        ("--readonly", "--steady-state writes the targets first, but --readonly is set"),
        ("--repeat=2", "--steady-state takes 5 rounds at least"),
    ] {
        let refused = run(&["--rw=randread", &erase, option]);
        assert!(refused.stderr.contains(why), "{option}: {}", refused.stderr);
        assert!(fs::read(&device.0).unwrap() == before, "{option}");
    }
}

#[test]
fn machines_differ_in_what_doctor_and_topo_print() {
    let place = Place::new();
    let json = place.ask(&["doctor", "--json"]).done().stdout;
    place.write("before.json", &json);
    let mut after: Value = serde_json::from_str(&json).unwrap();
    after["host"]["kernel"] = "9.9.9".into();
    place.write("after.json", after.to_string());
    let page = place.ask(&["compare", "before.json", "after.json"]).done().stdout;
    says(&page, &["before.json and after.json differ in 1 property.", "kernel", "9.9.9"]);
    place.write("topo.json", &place.ask(&["topo", "--json"]).done().stdout);
    let answer = place.ask(&["compare", "before.json", "topo.json"]);
    assert_eq!(answer.code, Some(1));
    assert_one_error(&answer.stderr, &["compare results of one command"]);
    let answer = place.ask(&["compare", "before.json", "after.json", "--fail-if", "iops < -3%"]);
    assert_eq!(answer.code, Some(2));
    says(&answer.stderr, &["machines have no figures"]);
}
