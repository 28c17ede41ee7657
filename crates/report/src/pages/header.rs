//! How every page begins: who measured what, where and when.

use super::parts;
use crate::calendar::TimeZone;
use crate::doc::{Heading, Text, bytes, plural, text, whole};
use fathom_model::facts::{DeviceFacts, HeldBy, Host, TargetFacts};
use fathom_model::outcome::Outcome;
use fathom_model::record::Header;
use fathom_model::{list, shell};
use std::path::Path;

/// The page of a record that was exported with `--share`.
const SHARED: &str = "shared: host names, serials, paths and command lines are replaced";
/// Devices up to this many are described; the others are counted.
const DEVICES_SHOWN: usize = 3;

#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    pub name: &'a str,
    pub version: &'a str,
    pub command: &'a [String],
    pub started_unix_ns: u64,
    pub host: &'a Host,
    pub targets: &'a [TargetFacts],
    /// Whether names in it were replaced.
    pub shared: bool,
}

impl Origin<'_> {
    /// The heading, with the devices of the targets; none of an empty record.
    pub fn heading(&self) -> Option<Heading> {
        let kernel = &self.host.kernel;
        let kernel = (!kernel.is_empty()).then(|| format!("Linux\u{a0}{kernel}"));
        let version = (!self.version.is_empty()).then(|| format!("fathom\u{a0}{}", self.version));
        let heading = Heading {
            title: format!("fathom {}", self.name),
            host: self.host.hostname.clone(),
            started_unix_ns: self.started_unix_ns,
            machine: parts([kernel.into(), cpus(self.host), guest(self.host), version.into()]),
            devices: listed(self.targets.iter().map(storage)),
            command: command_line(self.command),
            note: if self.shared { SHARED.into() } else { Text::default() },
            zone: TimeZone::UTC,
        };
        (!heading.machine.is_empty()).then_some(heading)
    }
}

impl<'a> Origin<'a> {
    pub fn of(name: &'a str, header: &'a Header) -> Self {
        let Header { fathom_version, command, started_unix_ns, facts, shared, .. } = header;
        Self {
            name,
            version: fathom_version,
            command,
            started_unix_ns: *started_unix_ns,
            host: &facts.host,
            targets: &facts.targets,
            shared: *shared,
        }
    }
}

/// Why a result is not complete, if so.
pub fn incomplete(outcome: &Outcome) -> Option<String> {
    let why = match outcome {
        Outcome::Finished => return None,
        Outcome::Failed { because } => because.clone(),
        other => other.to_string(),
    };
    Some(format!("INCOMPLETE: {why}; results so far:"))
}

/// `16 CPUs (AMD EPYC 9354P)`; where affinity leaves only some of them, `2 of 16 CPUs`.
fn cpus(host: &Host) -> Text {
    if host.cpus_online == 0 {
        return Text::default();
    }
    let allowed = host.cpus_allowed.len() as u64;
    let some = (0 < allowed && allowed < host.cpus_online.into())
        .then(|| text!(whole(allowed), "\u{a0}of\u{a0}"));
    let model = (!host.cpu_model.is_empty()).then(|| format!(" ({})", host.cpu_model));
    text!(some, plural(host.cpus_online.into(), "CPU"), model)
}

/// `virtual machine (Amazon EC2)`; nothing on bare metal.
fn guest(host: &Host) -> Text {
    match host.virtualization.as_deref() {
        None => Text::default(),
        Some("unknown") => "virtual machine".into(),
        Some(maker) => format!("virtual machine ({maker})").into(),
    }
}

/// `ext4 on nvme0n1 (SAMSUNG MZQL23T8HCLS, 3.49 TiB)`, without a file system for a device.
fn storage(target: &TargetFacts) -> Text {
    let several = || match &target.held_by {
        HeldBy::Devices(names) => Some(list::few(names, DEVICES_SHOWN).into()),
        HeldBy::AnyDisk | HeldBy::Hidden => Some("a disk that is not visible".into()),
        HeldBy::Device => None,
    };
    let device = target.device.as_ref().map(device).or_else(several);
    match (target.file_system.as_deref(), device) {
        (Some(file_system), Some(device)) => text!(file_system, "\u{a0}on ", device),
        (file_system, device) => text!(file_system, device),
    }
}

/// `nvme0n1 (SAMSUNG MZQL23T8HCLS, 3.49 TiB)`
fn device(device: &DeviceFacts) -> Text {
    let model = device.model.as_deref().map(str::trim).filter(|model| !model.is_empty());
    let size = (device.size_bytes > 0).then(|| bytes(device.size_bytes));
    let known = Text::join([model.into(), size.into()], ", ");
    let known = (!known.is_empty()).then(|| text!(" (", known, ")"));
    let on = match device.members.is_empty() {
        true => String::new(),
        false => format!(" on {}", device.members.join(", ")),
    };
    text!(device.name.as_str(), known, on)
}

pub fn device_list<'a>(all: impl IntoIterator<Item = &'a DeviceFacts>) -> Text {
    listed(all.into_iter().map(device))
}

/// Each of `all` once, up to the number that is shown.
fn listed(all: impl IntoIterator<Item = Text>) -> Text {
    let mut known = list::distinct(all.into_iter().filter(|one| !one.is_empty()));
    let others = known.len().saturating_sub(DEVICES_SHOWN);
    known.truncate(DEVICES_SHOWN);
    let others = (others > 0).then(|| text!("and ", plural(others as u64, "other")));
    parts(known.into_iter().chain([others.into()]))
}

/// The command line as one would type it: the program by its name, words quoted where a shell needs that.
pub(super) fn command_line(words: &[String]) -> String {
    let Some((program, args)) = words.split_first() else { return String::new() };
    let program = Path::new(program)
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let args = args.iter().map(|arg| shell::quoted(arg).into_owned());
    std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ")
}
