//! One event: opened, switched on and off, read.

use super::bindings::{self, perf_event_attr};
use perf_event_open_sys as sys;
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An open event. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Event(File);

/// What an event looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// A thread, 0 for the calling one, wherever it runs.
    Thread(i32),
    /// A processor, whatever runs there.
    Cpu(u32),
    /// A thread while it is on this processor.
    ThreadOn(i32, u32),
}

/// What an event counted, as the kernel shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    pub value: u64,
    pub enabled_ns: u64,
    pub running_ns: u64,
}

impl Event {
    /// Opens the event that `attr` describes, as a member of a group where `leader` is given. Sets the
    /// structure's size and the format in which it is read.
    pub fn open(mut attr: perf_event_attr, of: Of, leader: Option<&Self>) -> Result<Self, Errno> {
        attr.size = size_of::<perf_event_attr>() as u32;
        attr.read_format = u64::from(
            bindings::PERF_FORMAT_TOTAL_TIME_ENABLED | bindings::PERF_FORMAT_TOTAL_TIME_RUNNING,
        );
        let (pid, cpu) = match of {
            Of::Thread(tid) => (tid, -1),
            Of::Cpu(cpu) => (-1, number(cpu)?),
            Of::ThreadOn(tid, cpu) => (tid, number(cpu)?),
        };
        let group = leader.map_or(-1, |leader| leader.0.as_raw_fd());
        let flags = bindings::PERF_FLAG_FD_CLOEXEC.into();
        // SAFETY: `attr` is an initialised structure of the size it states, alive during the call;
        // the event takes no memory of this process.
        let fd = unsafe { sys::perf_event_open(&raw mut attr, pid, cpu, group, flags) };
        if fd < 0 {
            return Err(last_errno());
        }
        // SAFETY: the call above made this descriptor, and nothing else owns it.
        Ok(Self(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// Switches it on, and its group where it leads one.
    pub fn enable(&self) -> io::Result<()> {
        // SAFETY: the descriptor is an open perf event, and the argument of ENABLE is a number.
        done(unsafe { sys::ioctls::ENABLE(self.0.as_raw_fd(), bindings::PERF_IOC_FLAG_GROUP) })
    }

    /// Switches it off, and its group where it leads one.
    pub fn disable(&self) -> io::Result<()> {
        // SAFETY: the descriptor is an open perf event, and the argument of DISABLE is a number.
        done(unsafe { sys::ioctls::DISABLE(self.0.as_raw_fd(), bindings::PERF_IOC_FLAG_GROUP) })
    }

    /// Switches it on or off, alone: members of a group that it leads count while it is on.
    pub fn switch(&self, on: bool) -> io::Result<()> {
        let switch = if on { sys::ioctls::ENABLE } else { sys::ioctls::DISABLE };
        // SAFETY: the descriptor is an open perf event, and the argument of both is a number.
        done(unsafe { switch(self.0.as_raw_fd(), 0) })
    }

    /// Lets a tracepoint's event see only what `filter` matches
    /// (Documentation/trace/events.rst, "Event filtering").
    pub fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        // SAFETY: the descriptor is an open perf event; the kernel copies the string, which ends in a zero.
        done(unsafe { sys::ioctls::SET_FILTER(self.0.as_raw_fd(), filter.as_ptr().cast_mut()) })
    }

    /// Sends its records to the ring of `other`, an event of the same processor.
    pub fn send_to(&self, other: &Self) -> io::Result<()> {
        let ring = other.0.as_raw_fd();
        // SAFETY: both descriptors are open perf events.
        done(unsafe { sys::ioctls::SET_OUTPUT(self.0.as_raw_fd(), ring as _) })
    }

    /// The number by which its records name it (`PERF_SAMPLE_IDENTIFIER`).
    pub fn id(&self) -> io::Result<u64> {
        let mut id: u64 = 0;
        // SAFETY: the descriptor is an open perf event, and the kernel writes one number to `id`.
        done(unsafe { sys::ioctls::ID(self.0.as_raw_fd(), &raw mut id) })?;
        Ok(id)
    }

    /// What it counted so far. Each event alone: older kernels refuse to read a group that children
    /// inherit.
    pub fn read(&self) -> io::Result<Reading> {
        let mut bytes = [0; 24];
        (&self.0).read_exact(&mut bytes)?;
        let mut words =
            bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).fuse();
        let mut next = || words.next().unwrap_or(0);
        Ok(Reading { value: next(), enabled_ns: next(), running_ns: next() })
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn number(cpu: u32) -> Result<i32, Errno> {
    i32::try_from(cpu).map_err(|_| Errno::INVAL)
}

fn done(ret: i32) -> io::Result<()> {
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
