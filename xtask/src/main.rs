//! What only builders run: `cargo xtask bench`.
#![forbid(unsafe_code)]

mod bench;

use clap::Parser;
use std::process::ExitCode;

/// Errors are for the person at the terminal: a sentence that names the thing.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "What only builders of fathom run")]
enum Command {
    /// Run fathom, fio and t/io_uring in turn, and print medians and ratios as Markdown.
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let Command::Bench(options) = Command::parse();
    match bench::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
