//! A prompt in a guest, on the terminal.

use super::case::Machine;
use super::guest::{self, Setup};
use super::host;
use super::image::Image;
use crate::Result;
use std::path::Path;
use std::process::Command;

pub fn run(image: &Image, machine: &str, cmdline: &str, dir: &Path) -> Result<()> {
    let machine = Machine::parse(machine)?;
    let cmdline = format!("lab.shell {cmdline}");
    let setup = Setup {
        image,
        machine: &machine,
        cmdline: &cmdline,
        logged: false,
        dir: dir.to_path_buf(),
        console: dir.join("console"),
    };
    guest::make_disks(&setup)?;
    println!("`exit` ends the guest, Ctrl-A X kills it");
    let status = Command::new(host::QEMU)
        .args(guest::arguments(&setup, guest::GuestPeer::Terminal))
        .status()?;
    if status.success() { Ok(()) } else { Err(format!("QEMU: {status}").into()) }
}
