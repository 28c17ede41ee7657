use super::*;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Instant;

/// A process manager for `size` ranks, with values of up to `value_max` bytes: their ends of the connections.
fn manager(size: u32, value_max: usize) -> Vec<UnixStream> {
    let barrier = Arc::new(Barrier::new(size as usize));
    // As with Slurm, values are visible after a barrier.
    let values: Arc<Mutex<HashMap<String, String>>> = Arc::default();
    let pending: Arc<Mutex<HashMap<String, String>>> = Arc::default();
    let names: Arc<Mutex<Vec<String>>> = Arc::default();
    let serve = |_| {
        let (own, its) = UnixStream::pair().expect("a pair");
        let (barrier, names) = (Arc::clone(&barrier), Arc::clone(&names));
        let (values, pending) = (Arc::clone(&values), Arc::clone(&pending));
        thread::spawn(move || {
            let mut out = its.try_clone().expect("a copy");
            for line in BufReader::new(its).lines().map_while(Result::ok) {
                let of = |name: &str| {
                    line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
                };
                let answer = match of("cmd").expect("a command") {
                    "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".into(),
                    "get_maxes" => {
                        format!("cmd=maxes kvsname_max=64 keylen_max=64 vallen_max={value_max}")
                    }
                    "get_my_kvsname" => "cmd=my_kvsname kvsname=kvs_1".into(),
                    "put" => {
                        let (key, value) =
                            (of("key").expect("a key"), of("value").expect("a value"));
                        assert!(value.len() < value_max, "{value}");
                        let before =
                            pending.lock().expect("values").insert(key.into(), value.into());
                        assert_eq!(before, None, "{key}");
                        "cmd=put_result rc=0 msg=success".into()
                    }
                    "barrier_in" => {
                        // Names can be published before all have come.
                        let (barrier, mut out) =
                            (Arc::clone(&barrier), out.try_clone().expect("a copy"));
                        let (values, pending) = (Arc::clone(&values), Arc::clone(&pending));
                        thread::spawn(move || {
                            if barrier.wait().is_leader() {
                                let new =
                                    pending.lock().expect("values").drain().collect::<Vec<_>>();
                                values.lock().expect("values").extend(new);
                            }
                            barrier.wait();
                            let _ = writeln!(out, "cmd=barrier_out");
                        });
                        continue;
                    }
                    "publish_name" => {
                        let name = of("service").expect("a name").to_string();
                        names.lock().expect("names").push(name);
                        "cmd=publish_result info=ok".into()
                    }
                    "lookup_name" => {
                        let name = of("service").expect("a name").to_string();
                        match names.lock().expect("names").contains(&name) {
                            true => "cmd=lookup_result info=ok port=0".into(),
                            false => "cmd=lookup_result info=fail".into(),
                        }
                    }
                    "get" => match values.lock().expect("values").get(of("key").expect("a key")) {
                        Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                        None => "cmd=get_result rc=-1 msg=key_not_found".into(),
                    },
                    "finalize" => "cmd=finalize_ack".into(),
                    other => panic!("{other}"),
                };
                if writeln!(out, "{answer}").is_err() {
                    break;
                }
            }
        });
        own
    };
    (0..size).map(serve).collect()
}

/// Runs `act` as each of `size` ranks; what each returns, by rank.
fn each<T: Send>(size: u32, act: impl Fn(Ranks) -> T + Sync) -> Vec<T> {
    let streams = manager(size, 64);
    thread::scope(|scope| {
        let act = &act;
        let run = |(rank, stream): (usize, UnixStream)| {
            scope.spawn(move || {
                let of = (rank as u32, size);
                act(Ranks::over(stream, of, &CancelToken::default()).expect("joined"))
            })
        };
        let running: Vec<_> = streams.into_iter().enumerate().map(run).collect();
        running.into_iter().map(|one| one.join().expect("a result")).collect()
    })
}

const TIME: Duration = Duration::from_secs(60);

#[test]
fn long_messages_of_any_text_arrive() {
    let text = |rank: u32| format!("rank={rank};\n").repeat(200);
    let all = each(3, |mut ranks| {
        let told: String = ranks.broadcast(&text(ranks.rank), TIME).expect("told");
        let found: Vec<String> = ranks.gather(&text(ranks.rank), TIME).expect("gathered");
        ranks.leave().expect("left");
        (told, found)
    });
    assert_eq!(all[0].1, [text(0), text(1), text(2)]);
    assert!(all.iter().all(|(told, _)| *told == text(0)));
    assert!(all[1].1.is_empty() && all[2].1.is_empty());
}

#[test]
fn clocks_of_one_machine_agree_within_the_bounds() {
    let bounds = each(4, |mut ranks| ranks.compare_clocks(TIME).expect("compared"));
    for one in bounds {
        assert!(one.least <= 0 && one.most >= 0, "{one:?}");
        assert!(one.offset_ns().unsigned_abs() <= one.error_ns(), "{one:?}");
    }
}

#[test]
fn all_start_at_one_moment_and_end_together() {
    let starts = each(3, |ranks| {
        let rank = ranks.rank;
        let together =
            Together::begin(ranks, &format!("node{rank}"), &CancelToken::default(), Gate::Done)
                .expect("begun");
        for gate in [Gate::Planned, Gate::Opened, Gate::Ready] {
            thread::sleep(Duration::from_millis(u64::from(rank) * 20));
            together.reach(gate, Vec::new()).expect("reached");
        }
        together.progress(100, 4096);
        let start = together.start_unix_ns().expect("a start");
        together.reach(Gate::Done, Vec::new()).expect("done");
        let all = together.all();
        assert_eq!(all.len(), if rank == 0 { 3 } else { 1 });
        let (ranks, lost) = together.end();
        assert!(ranks.is_some() && lost.is_none());
        start
    });
    assert!(starts.iter().all(|start| *start == starts[0]), "{starts:?}");
}

#[test]
fn refusals_of_all_come_together() {
    let refused = each(3, |ranks| {
        let rank = ranks.rank;
        let together =
            Together::begin(ranks, &format!("node{rank}"), &CancelToken::default(), Gate::Done)
                .expect("begun");
        let own = if rank == 0 { Vec::new() } else { vec![format!("no {rank}")] };
        let why = together.reach(Gate::Planned, own).expect_err("refused");
        together.end();
        why
    });
    assert_eq!(refused[0], ["node1 (rank 1): no 1", "node2 (rank 2): no 2"]);
}

#[test]
fn the_loss_of_a_rank_ends_the_others() {
    let all = each(3, |mut ranks| {
        // After the first barrier, hosts are known.
        ranks.exchange(None, 0..0, TIME).expect("all");
        if ranks.rank == 1 {
            return SILENCE;
        }
        let is_first = ranks.rank == 0;
        let cancel = CancelToken::default();
        let (began, together) =
            (Instant::now(), Together::begin(ranks, "node0", &cancel, Gate::Done).expect("begun"));
        together.reach(Gate::Planned, Vec::new()).expect_err("lost");
        let (_, lost) = together.end();
        let host = uname().nodename().to_string_lossy().into_owned();
        let who = format!("{host} (rank 1)");
        if is_first {
            assert_eq!(cancel.reason(), Some(format!("the loss of {who}").as_str()));
        }
        assert_eq!(lost, Some(Lost::Silent(is_first.then_some(who))));
        began.elapsed()
    });
    assert!(all.iter().all(|time| *time >= SILENCE), "{all:?}");
}

#[test]
fn an_environment_without_other_ranks_is_that_of_one() {
    let join = |vars: &[(&str, &str)]| {
        let var = |name: &str| {
            vars.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
        };
        Ranks::join(var, &CancelToken::default()).map(|joined| joined.is_some())
    };
    assert_eq!(join(&[]), Ok(false));
    assert_eq!(join(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]), Ok(false));
    assert_eq!(join(&[("PMI_FD", "9"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")]), Ok(false));
    let error = join(&[("PMI_FD", "x"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")]).unwrap_err();
    assert!(error.contains("PMI_FD=x: expected a number"), "{error}");
    let error = join(&[("PMI_FD", "987654"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")]).unwrap_err();
    assert!(error.contains("cannot join 2 ranks") && error.contains("--no-ranks"), "{error}");
}
