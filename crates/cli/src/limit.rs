//! placeholder until the limit command lands
/// args
#[derive(clap::Args)]
pub struct Args {}
/// c
pub fn command(_: &Args) -> Result<std::process::ExitCode, String> { Err("x".into()) }
