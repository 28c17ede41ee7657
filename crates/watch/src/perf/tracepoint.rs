//! The kernel's tracepoints, and perf events on them (Documentation/trace/events.rst, tracefs's
//! `events/GROUP/NAME/format`).

use super::event::{EventTarget, PerfEvent};
use super::per_cpu::PerCpuEvents;
use super::windows::GroupLeaders;
use fathom_model::watch::Unavailable;
use perf_event_open_sys::bindings;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// tracefs's `events` directory, which describes the kernel's tracepoints.
#[derive(Debug)]
pub(crate) struct Tracefs {
    events: OwnedFd,
    path: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tracepoint {
    pub name: String,
    id: u64,
    fields: Vec<EventField>,
}

/// Location of a field in the raw data of a sample, which differs between kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventField {
    name: String,
    offset: usize,
    size: usize,
    signed: bool,
}

impl Tracefs {
    /// Opens tracefs where it is mounted, otherwise through a detached mount that exists only as
    /// long as this value. `what` names the data that is unavailable without tracefs.
    pub fn find(proc_root: &Path, what: &str) -> Result<Self, Unavailable> {
        let mounts = std::fs::read_to_string(proc_root.join("mounts")).unwrap_or_default();
        let open = |kind: &str, events: &str| {
            let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
            let mount = mounts.find(|mount| mount.get(2) == Some(&kind))?;
            Some(Self::open(CWD, Path::new(mount[1]).join(events)))
        };
        let opened = match open("tracefs", "events") {
            Some(Ok(tracefs)) => return Ok(tracefs),
            opened => opened,
        };
        // Preferred to debugfs, where accessing `tracing` mounts tracefs for everyone.
        let detached = match Self::detached() {
            Ok(tracefs) => return Ok(tracefs),
            Err(error) => unmounted(what, error),
        };
        match opened.or_else(|| open("debugfs", "tracing/events")) {
            None => Err(detached),
            Some(opened) => {
                let allow = "run as root".into();
                opened.map_err(|why| Unavailable {
                    source: what.into(),
                    reason: why,
                    remedy: allow,
                })
            }
        }
    }

    /// tracefs in a detached mount, visible to no other process.
    fn detached() -> Result<Self, Errno> {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(context.as_fd())?;
        let read_only = MountAttrFlags::MOUNT_ATTR_RDONLY;
        let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, read_only)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            events: openat(mount, "events", flags, Mode::empty())?,
            path: "tracefs/events".into(),
        })
    }

    fn open(dir: impl AsFd, path: PathBuf) -> Result<Self, String> {
        let events = openat(dir, &path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let failed = |error| format!("{}: {}", path.display(), io::Error::from(error));
        Ok(Self { events: events.map_err(failed)?, path })
    }

    pub fn tracepoint(&self, group: &str, name: &str) -> Result<Tracepoint, Unavailable> {
        let full = format!("{group}:{name}");
        let format = Path::new(group).join(name).join("format");
        let missing = |why: String, allow: &str| Unavailable {
            source: format!("tracepoint {full}"),
            reason: why,
            remedy: allow.into(),
        };
        let path = || self.path.join(&format).display().to_string();
        let mut text = String::new();
        openat(&self.events, &format, OFlags::CLOEXEC, Mode::empty())
            .map_err(io::Error::from)
            .and_then(|file| File::from(file).read_to_string(&mut text))
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => missing("not supported by this kernel".into(), ""),
                _ => missing(format!("{}: {error}", path()), "run as root"),
            })?;
        Tracepoint::parse(full.clone(), &text)
            .ok_or_else(|| missing(format!("{}: expected an ID and fields", path()), ""))
    }
}

/// Why `what` is unavailable if tracefs is not mounted and cannot be.
fn unmounted(what: &str, error: Errno) -> Unavailable {
    let (why, allow) = match error {
        Errno::NODEV => {
            ("tracefs: not supported by this kernel", "use a kernel with CONFIG_TRACING")
        }
        _ => ("tracefs is not mounted", "run as root"),
    };
    Unavailable { source: what.into(), reason: format!("{why} ({error})"), remedy: allow.into() }
}

impl Tracepoint {
    pub fn parse(name: String, format: &str) -> Option<Self> {
        let id = format.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let fields: Vec<EventField> = format.lines().filter_map(EventField::parse).collect();
        (!fields.is_empty()).then_some(Self { name, id, fields })
    }

    pub fn field(&self, name: &str) -> Option<&EventField> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The field `name`, without which there are no `what`.
    pub fn required(&self, name: &str, what: &str) -> Result<EventField, Unavailable> {
        self.field(name).cloned().ok_or_else(|| Unavailable {
            source: what.into(),
            reason: format!("tracepoint {} has no field `{name}`", self.name),
            remedy: String::new(),
        })
    }

    /// Attributes of a counting event on this tracepoint, initially disabled.
    pub fn attr(&self) -> bindings::perf_event_attr {
        let mut attr = bindings::perf_event_attr {
            type_: bindings::PERF_TYPE_TRACEPOINT,
            config: self.id,
            ..Default::default()
        };
        attr.set_disabled(1);
        attr
    }

    /// An event on each of `cpus` that counts occurrences matching `filter`; initially disabled.
    /// For errors, see [`refused`].
    pub fn count(&self, cpus: &[u32], filter: Option<&str>) -> io::Result<PerCpuEvents> {
        self.open(self.attr(), cpus, filter, None)
    }

    /// Like [`Tracepoint::count`], but enabled: from now on, or while `leaders` are.
    pub fn count_grouped(
        &self,
        cpus: &[u32],
        filter: Option<&str>,
        leaders: Option<&GroupLeaders>,
    ) -> io::Result<PerCpuEvents> {
        let counters = self.open(self.attr(), cpus, filter, leaders)?;
        if leaders.is_none() {
            counters.enable()?;
        }
        Ok(counters)
    }

    /// An event described by `attr` on each of `cpus`, restricted by `filter`; a member of the
    /// groups of `leaders` if given.
    pub fn open(
        &self,
        mut attr: bindings::perf_event_attr,
        cpus: &[u32],
        filter: Option<&str>,
        leaders: Option<&GroupLeaders>,
    ) -> io::Result<PerCpuEvents> {
        let filter = filter.map(CString::new).transpose()?;
        if leaders.is_some() {
            GroupLeaders::make_member(&mut attr);
        }
        let leaders = leaders.map_or(&[][..], GroupLeaders::events).iter().map(Some);
        let leaders = leaders.chain(std::iter::repeat(None));
        let open = |(cpu, leader): (&u32, Option<&PerfEvent>)| {
            let event = PerfEvent::open(attr, EventTarget::Cpu(*cpu), leader)?;
            if let Some(filter) = &filter {
                event.set_filter(filter)?;
            }
            Ok(event)
        };
        Ok(PerCpuEvents::new(cpus.iter().zip(leaders).map(open).collect::<io::Result<_>>()?))
    }
}

/// The reason and remedy if the kernel refused to open the events for `what`.
pub(crate) fn refused(what: &str, error: &io::Error) -> Unavailable {
    let allow = match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM) => {
            "run as root or with CAP_PERFMON; in a container, the seccomp profile must allow perf_event_open"
        }
        Some(Errno::MFILE) => "raise the open file limit: ulimit -n",
        Some(Errno::NOSYS | Errno::OPNOTSUPP) => "use a kernel with CONFIG_PERF_EVENTS",
        _ => "",
    };
    Unavailable { source: what.into(), reason: error.to_string(), remedy: allow.into() }
}

impl EventField {
    /// Parses a line such as `field:unsigned int nr_sector; offset:24; size:4; signed:0;`.
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim().split(';').map(str::trim);
        let declared = parts.next()?.strip_prefix("field:")?;
        let name = declared.rsplit(' ').next()?.split('[').next()?.to_string();
        let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
        let (offset, size) = (number("offset:")?, number("size:")?);
        Some(Self { name, offset, size, signed: number("signed:") == Some(1) })
    }

    /// The field as a number, sign-extended to 64 bits. `None` if the data is too short or the
    /// field is not a number.
    pub fn number(&self, raw: &[u8]) -> Option<u64> {
        let bytes = raw.get(self.offset..)?.get(..self.size)?;
        let mut wide = [0; 8];
        match self.size {
            1 | 2 | 4 | 8 => {}
            _ => return None,
        }
        if cfg!(target_endian = "big") {
            wide[8 - self.size..].copy_from_slice(bytes);
        } else {
            wide[..self.size].copy_from_slice(bytes);
        }
        let unused = 64 - 8 * self.size as u32;
        let value = u64::from_ne_bytes(wide);
        Some(if self.signed { ((value << unused) as i64 >> unused) as u64 } else { value })
    }

    /// The first number of an array of 64-bit numbers; `None` if the data is too short.
    pub fn first(&self, raw: &[u8]) -> Option<u64> {
        Some(u64::from_ne_bytes(*raw.get(self.offset..)?.get(..self.size)?.first_chunk()?))
    }

    /// The text of a fixed-size character array, up to NUL.
    pub fn text<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        let bytes = raw.get(self.offset..)?.get(..self.size)?;
        bytes.split(|byte| *byte == 0).next()
    }
}

#[cfg(test)]
#[path = "tracepoint_tests.rs"]
mod tests;
