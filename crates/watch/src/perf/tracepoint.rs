//! The kernel's tracepoints: where they are described, what their records hold, and counting them
//! on every processor (Documentation/trace/events.rst, tracefs's `events/GROUP/NAME/format`).

use super::{Event, Gate, Of, bindings};
use fathom_model::watch::Missing;
use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

/// The file system in which the kernel describes its tracepoints.
#[derive(Debug, Clone)]
pub(crate) struct Tracefs(PathBuf);

/// One tracepoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tracepoint {
    /// As perf names it: `block:block_rq_issue`.
    pub name: String,
    id: u64,
    fields: Vec<Field>,
}

/// Where a field lies in the raw data of a tracepoint's sample. It moves from kernel to kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    name: String,
    offset: usize,
    size: usize,
    signed: bool,
}

/// An event on each processor. Dropping it closes them.
#[derive(Debug)]
pub(crate) struct OnCpus(Vec<Event>);

impl Tracefs {
    /// Finds it among what is mounted. `proc_root` is where the proc file system is mounted: `/proc`;
    /// `what` is what is not seen without it.
    ///
    /// # Errors
    /// Where it is not mounted, or not to be entered: what to mount or who may.
    pub fn find(proc_root: &Path, what: &str) -> Result<Self, Missing> {
        let mounts = std::fs::read_to_string(proc_root.join("mounts")).unwrap_or_default();
        let of = |kind: &str| {
            let mut lines = mounts.lines().map(|line| line.split(' '));
            lines.find_map(|mut words| Some((words.nth(1)?, words.next()? == kind)).filter(|x| x.1))
        };
        let own = of("tracefs").map(|(path, _)| PathBuf::from(path));
        let root = own.or_else(|| of("debugfs").map(|(path, _)| Path::new(path).join("tracing")));
        let missing =
            |why: String, allow: &str| Missing { what: what.into(), why, allow: allow.into() };
        let Some(root) = root else {
            let allow = "mount -t tracefs nodev /sys/kernel/tracing";
            return Err(missing("tracefs is not mounted".into(), allow));
        };
        // The directory itself is open to root alone on most systems.
        match std::fs::read_dir(root.join("events")) {
            Ok(_) => Ok(Self(root)),
            Err(error) => {
                Err(missing(format!("{}/events: {error}", root.display()), "run as root"))
            }
        }
    }

    /// The tracepoint `group`:`name`.
    ///
    /// # Errors
    /// Where the kernel has none, or its description cannot be read.
    pub fn tracepoint(&self, group: &str, name: &str) -> Result<Tracepoint, Missing> {
        let full = format!("{group}:{name}");
        let path = self.0.join("events").join(group).join(name).join("format");
        let missing = |why: String, allow: &str| Missing {
            what: format!("tracepoint {full}"),
            why,
            allow: allow.into(),
        };
        let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => missing("this kernel has none of this name".into(), ""),
            _ => missing(format!("{}: {error}", path.display()), "run as root"),
        })?;
        Tracepoint::parse(full.clone(), &text)
            .ok_or_else(|| missing(format!("{}: expected an ID and fields", path.display()), ""))
    }
}

impl Tracepoint {
    /// Reads a `format` file; `None` where it is not as the kernel writes it.
    pub fn parse(name: String, format: &str) -> Option<Self> {
        let id = format.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let fields: Vec<Field> = format.lines().filter_map(Field::parse).collect();
        (!fields.is_empty()).then_some(Self { name, id, fields })
    }

    /// The field of this name, where this kernel's records have it.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// A description of an event on it that counts and is not enabled yet.
    pub fn attr(&self) -> bindings::perf_event_attr {
        let mut attr = bindings::perf_event_attr {
            type_: bindings::PERF_TYPE_TRACEPOINT,
            config: self.id,
            ..Default::default()
        };
        attr.set_disabled(1);
        attr
    }

    /// An event on each of `cpus` that counts what `filter` matches; not enabled yet.
    ///
    /// # Errors
    /// Where the kernel refuses to open one, or does not understand the filter; see [`refused`].
    pub fn count(&self, cpus: &[u32], filter: Option<&str>) -> io::Result<OnCpus> {
        self.open(self.attr(), cpus, filter, None)
    }

    /// As [`Tracepoint::count`], and counts from now on, or while `gate` is on.
    ///
    /// # Errors
    /// As [`Tracepoint::count`].
    pub fn count_gated(
        &self,
        cpus: &[u32],
        filter: Option<&str>,
        gate: Option<&Gate>,
    ) -> io::Result<OnCpus> {
        let counters = self.open(self.attr(), cpus, filter, gate)?;
        if gate.is_none() {
            counters.enable()?;
        }
        Ok(counters)
    }

    /// An event on each of `cpus`, as `attr` describes it, that sees what `filter` matches; a member of
    /// the groups of `gate` where that is given.
    ///
    /// # Errors
    /// As [`Tracepoint::count`].
    pub fn open(
        &self,
        mut attr: bindings::perf_event_attr,
        cpus: &[u32],
        filter: Option<&str>,
        gate: Option<&Gate>,
    ) -> io::Result<OnCpus> {
        let filter = filter.map(CString::new).transpose()?;
        if gate.is_some() {
            Gate::admit(&mut attr);
        }
        let leaders = gate.map_or(&[][..], Gate::leaders).iter().map(Some);
        let leaders = leaders.chain(std::iter::repeat(None));
        let open = |(cpu, leader): (&u32, Option<&Event>)| {
            let event = Event::open(attr, Of::Cpu(*cpu), leader)?;
            if let Some(filter) = &filter {
                event.set_filter(filter)?;
            }
            Ok(event)
        };
        Ok(OnCpus(cpus.iter().zip(leaders).map(open).collect::<io::Result<_>>()?))
    }
}

/// What to tell where the kernel refused `what` with `error`, which came from opening an event.
pub(crate) fn refused(what: &str, error: &io::Error) -> Missing {
    use rustix::io::Errno;
    let allow = match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM) => {
            "run as root, or with CAP_PERFMON; in a container, let its seccomp filter pass perf_event_open"
        }
        Some(Errno::MFILE) => "raise the limit of open files: ulimit -n",
        Some(Errno::NOSYS | Errno::OPNOTSUPP) => "use a kernel with CONFIG_PERF_EVENTS",
        _ => "",
    };
    Missing { what: what.into(), why: error.to_string(), allow: allow.into() }
}

impl Field {
    /// A line such as `field:unsigned int nr_sector; offset:24; size:4; signed:0;`.
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim().split(';').map(str::trim);
        let declared = parts.next()?.strip_prefix("field:")?;
        let name = declared.rsplit(' ').next()?.split('[').next()?.to_string();
        let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
        let (offset, size) = (number("offset:")?, number("size:")?);
        Some(Self { name, offset, size, signed: number("signed:") == Some(1) })
    }

    /// The number in a record's raw data; a signed one as its two's complement in 64 bits. `None`
    /// where the data is too short or the field is no number.
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

    /// The text of a fixed array of characters, up to its zero.
    pub fn text<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        let bytes = raw.get(self.offset..)?.get(..self.size)?;
        bytes.split(|byte| *byte == 0).next()
    }
}

impl OnCpus {
    /// Of events that are open, one for each processor.
    pub fn new(events: Vec<Event>) -> Self {
        Self(events)
    }

    /// Switches all of them on.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn enable(&self) -> io::Result<()> {
        self.0.iter().try_for_each(Event::enable)
    }

    /// What they counted so far, together.
    ///
    /// # Errors
    /// Where one cannot be read.
    pub fn read(&self) -> io::Result<u64> {
        self.0.iter().try_fold(0, |sum: u64, event| Ok(sum.wrapping_add(event.read()?.value)))
    }

    /// Each of them, in the order of the processors.
    pub fn events(&self) -> &[Event] {
        &self.0
    }
}

/// The processors that are online, ascending. `sys_root` is where sysfs is mounted: `/sys`.
///
/// # Errors
/// Where the file cannot be read, or is not as the kernel writes it; names it.
pub(crate) fn online_cpus(sys_root: &Path) -> io::Result<Vec<u32>> {
    let path = sys_root.join("devices/system/cpu/online");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    let ranges: Option<Vec<_>> = text.trim().split(',').map(range).collect();
    let cpus: Vec<u32> = ranges.into_iter().flatten().flatten().take(1 << 16).collect();
    if cpus.is_empty() {
        let message =
            format!("{}: expected processors such as 0-3, found {text:?}", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(cpus)
}

#[cfg(test)]
#[path = "tracepoint_tests.rs"]
mod tests;
