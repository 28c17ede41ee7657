//! Developer tools: `cargo xtask agree`, `bench`, `dist`, `fio-suite`, `fleet`, `lab`, `pages`, `steps` and `verdicts`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod agree;
mod bench;
mod dist;
mod fio_suite;
mod fixtures;
mod fleet;
mod lab;
mod pages;
mod programs;
mod run;
mod table;
mod verdicts;

use clap::Parser;
use std::process::ExitCode;

/// Errors are messages for the user: one sentence that names the object.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer tools of fathom")]
enum Command {
    /// Compare fathom's figures with those of fio, iostat, mpstat, vmstat, perf and bpftrace, and with known delays.
    Agree(agree::Options),
    /// Run fathom, fio and t/io_uring alternately, and print medians and ratios as Markdown.
    Bench(bench::Options),
    /// Build a static release, the file with its debug information, and a Debian package.
    Dist(dist::Options),
    /// Run fio's own tests with fio and with fathom, and print which of those that pass with fio pass with fathom.
    ///
    /// Needs fio's source, in which fio is built, and python3-venv; installs Python packages from PyPI.
    FioSuite(fio_suite::Options),
    /// Merge the results of simulated ranks, and print time, memory and the size of the page.
    Fleet(fleet::Options),
    /// Run fathom in guests with real NVMe drivers, and print whether each case passes.
    ///
    /// The guests are emulated machines with Debian's kernels. docs/lab.md describes how to write a case.
    Lab(lab::Options),
    /// Open the HTML of stored runs in a headless Chromium, and check that it loads nothing, reports no error and draws
    /// every chart on phones and wide screens, light and dark.
    Pages(pages::Options),
    /// Count the user instructions of a program's ring-driving thread, by single-stepping it.
    ///
    /// Works for fathom, fio (with thread=1) and t/io_uring, and needs no hardware counters.
    Steps {
        /// The program and its arguments; a small number of I/Os, as this is slow.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// The threads that `bench` samples.
    #[command(hide = true)]
    ThreadsLoad(bench::threads::Load),
    /// Watch programs whose cause is known, and print whether fathom names it.
    Verdicts(verdicts::Options),
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Agree(options) => agree::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Dist(options) => dist::make(&options),
        Command::FioSuite(options) => fio_suite::run(&options),
        Command::Fleet(options) => fleet::run(&options),
        Command::Lab(options) => lab::run(&options),
        Command::Pages(options) => pages::run(&options),
        Command::Steps { command } => steps(&command),
        Command::ThreadsLoad(load) => load.run(),
        Command::Verdicts(options) => verdicts::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn steps(command: &[String]) -> Result<()> {
    let (program, arguments) = command.split_first().ok_or("name a program")?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let counted = xtask::steps::count(program, &arguments)?;
    let per_call = counted.instructions as f64 / counted.enters.max(1) as f64;
    println!(
        "{} user instructions in {} calls of io_uring_enter: {per_call:.0} for each call",
        counted.instructions, counted.enters
    );
    Ok(())
}
