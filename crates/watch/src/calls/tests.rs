use super::*;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

/// A program that says that it has started, and after a line on its standard input writes, flushes and reads back `n`
/// blocks.
fn program(n: u32) -> Option<(tempfile::TempDir, std::process::Child)> {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "import os, sys\nprint(flush=True)\nsys.stdin.readline()\nfd = os.open('data', os.O_RDWR | os.O_CREAT)\n\
         for i in range({n}):\n  os.pwrite(fd, b'x' * 4096, i * 4096)\n  os.fsync(fd)\n  \
         os.pread(fd, 4096, i * 4096)\n"
    );
    let child = Command::new("python3")
        .args(["-c", &script])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.ok()?;
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    Some((dir, child))
}

#[test]
fn the_calls_of_a_program_are_timed() {
    const N: u32 = 40;
    let Some((_dir, mut child)) = program(N) else {
        println!("skipped: no python3");
        return;
    };
    let scope = Scope::Only(vec![child.id() as i32]);
    let opened = CallSampler::open(Path::new("/proc"), Path::new("/sys"), &scope);
    let mut sampler = match opened {
        Ok(sampler) => sampler,
        Err(missing) => {
            println!("skipped: {missing}");
            child.kill().unwrap();
            child.wait().unwrap();
            return;
        }
    };
    sampler.take(&mut MachineSample::default());
    let began = Instant::now();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    while child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
        sampler.sample();
    }
    let took = began.elapsed();
    let mut sample = MachineSample::default();
    sampler.take(&mut sample);
    let calls = sample.calls.unwrap();
    // The machine may make so many system calls that only windows are recorded.
    let part = calls.seen_ns as f64 / took.as_nanos() as f64;
    println!("{:.0}% of {took:?} recorded, {} lost", part * 100.0, calls.lost);
    if part < 0.9 || calls.lost > 0 {
        return;
    }
    for name in ["pwrite64", "fsync", "pread64"] {
        let of = calls.calls.iter().find(|of| of.call == name);
        let of = of.unwrap_or_else(|| panic!("{name} is not in {calls:?}"));
        assert_eq!((of.latency.count(), of.failed), (u64::from(N), 0), "{name}");
        assert!(u128::from(of.latency.sum_ns()) < took.as_nanos(), "{name}");
    }
}

#[test]
fn other_processes_are_left_out() {
    let scope = Scope::Only(vec![1]);
    let opened = CallSampler::open(Path::new("/proc"), Path::new("/sys"), &scope);
    let Ok(mut sampler) = opened else { return };
    sampler.take(&mut MachineSample::default());
    let mut file = tempfile::tempfile().unwrap();
    for _ in 0..10 {
        file.write_all(&[1]).unwrap();
        file.sync_all().unwrap();
    }
    File::open("/proc/self/exe").unwrap().read_exact(&mut [0]).unwrap();
    let mut sample = MachineSample::default();
    sampler.take(&mut sample);
    assert!(sample.calls.unwrap().calls.iter().all(|of| of.call != "fsync"));
}
