//! Other programs that run anyway: what they transfer from and to disks in a window.

use crate::cancel::CancelToken;
use crate::window::MachineSnapshots;
use fathom_machine::Roots;
use fathom_model::experiment::WindowResult;
use fathom_model::watch::MachineSample;
use fathom_watch::{ProcessSampler, Sampler, Scope};
use std::thread;
use std::time::{Duration, Instant};

/// Between two checks whether a signal came.
const TICK: Duration = Duration::from_millis(20);

/// Waits for the ramp, then measures the processes `pids` and their descendants for the window: their bytes and CPU time.
pub(super) fn measure(
    pids: &[i32],
    (ramp, window): (Duration, Duration),
    machine: &MachineSnapshots,
    cancel: &CancelToken,
) -> Result<WindowResult, String> {
    let began = Instant::now();
    wait(ramp, cancel);
    let unread = |why: std::io::Error| format!("cannot read the processes: {why}");
    let scope = Scope::Trees(pids.to_vec());
    let from = machine.take();
    let mut sampler = ProcessSampler::open(&Roots::default().proc, scope).map_err(unread)?;
    wait(window, cancel);
    let mut sample = MachineSample::default();
    sampler.finish();
    sampler.take(&mut sample);
    let to = machine.take();
    let seen = sample.processes.ok_or("the processes cannot be read")?;
    if seen.watched.processes == 0 {
        return Err("the program has ended".into());
    }
    Ok(WindowResult {
        elapsed_ns: seen.elapsed_ns,
        took_ns: began.elapsed().as_nanos() as u64,
        bytes: seen.watched.disk_bytes(),
        cpu: to.cpu_since(&from),
        ..WindowResult::default()
    })
}

fn wait(time: Duration, cancel: &CancelToken) {
    let end = Instant::now() + time;
    while cancel.reason().is_none() {
        match end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => return,
            left => thread::sleep(left.min(TICK)),
        }
    }
}
