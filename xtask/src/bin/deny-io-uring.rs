//! `deny-io-uring ERRNO COMMAND…`: runs a command under a seccomp filter that makes io_uring_setup fail with ERRNO, as in
//! many containers. Used by lab cases.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use std::env;
use std::error::Error;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

const IO_URING_SETUP: i64 = 425;

fn main() -> ExitCode {
    let Err(error) = run() else { return ExitCode::SUCCESS };
    eprintln!("deny-io-uring: {error}");
    ExitCode::FAILURE
}

/// Executes the command; returns only if that fails.
fn run() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let usage = "give an errno and a command";
    let errno: u32 = args.next().ok_or(usage)?.parse().map_err(|_| usage)?;
    let program = args.next().ok_or(usage)?;
    let denied = [(IO_URING_SETUP, Vec::new())].into();
    let (others, those) = (SeccompAction::Allow, SeccompAction::Errno(errno));
    let filter = SeccompFilter::new(denied, others, those, env::consts::ARCH.try_into()?)?;
    let filter: BpfProgram = filter.try_into()?;
    apply_filter(&filter)?;
    Err(Command::new(program).args(args).exec().into())
}
