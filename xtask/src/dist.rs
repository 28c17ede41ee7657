//! A release for users who do not build it: the program without debug information, and that
//! information in a file which gdb, perf and addr2line find by its name (.gnu_debuglink).

use crate::{Result, programs};
use std::path::PathBuf;
use std::process::Command;

/// Options of `cargo xtask dist`.
#[derive(clap::Args)]
pub struct Options {
    /// Directory to write `fathom` and `fathom.debug` to
    #[arg(value_name = "DIR", default_value = "target/dist")]
    dir: PathBuf,
}

pub fn run(options: &Options) -> Result<()> {
    let built = programs::fathom(None)?;
    std::fs::create_dir_all(&options.dir)?;
    let program = options.dir.join("fathom");
    let debug = options.dir.join("fathom.debug");
    call(
        Command::new("objcopy")
            .args(["--only-keep-debug", "--compress-debug-sections"])
            .args([&built, &debug]),
    )?;
    let link = format!("--add-gnu-debuglink={}", debug.display());
    // The symbol table stays: panics and `fathom stacks` name functions by it.
    call(Command::new("objcopy").args(["--strip-debug", &link]).args([&built, &program]))?;
    for path in [program, debug] {
        println!("{}: {:.1} MB", path.display(), path.metadata()?.len() as f64 / 1e6);
    }
    Ok(())
}

fn call(command: &mut Command) -> Result<()> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}").into()),
        Err(error) => Err(format!("{command:?}: {error}").into()),
    }
}
