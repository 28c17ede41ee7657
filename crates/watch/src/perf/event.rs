//! A single perf event.

use perf_event_open_sys as sys;
use perf_event_open_sys::bindings::{self, perf_event_attr};
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

#[derive(Debug)]
pub(crate) struct PerfEvent(File);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventTarget {
    /// A thread, 0 for the calling one, on any CPU.
    Thread(i32),
    Cpu(u32),
    ThreadOn(i32, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    pub value: u64,
    pub enabled_ns: u64,
    pub running_ns: u64,
}

impl PerfEvent {
    /// Opens the event described by `attr`, as a member of `leader`'s group if given. Sets the
    /// structure size and the read format.
    pub fn open(
        mut attr: perf_event_attr,
        of: EventTarget,
        leader: Option<&Self>,
    ) -> Result<Self, Errno> {
        attr.size = size_of::<perf_event_attr>() as u32;
        attr.read_format = u64::from(
            bindings::PERF_FORMAT_TOTAL_TIME_ENABLED | bindings::PERF_FORMAT_TOTAL_TIME_RUNNING,
        );
        let (pid, cpu) = match of {
            EventTarget::Thread(tid) => (tid, -1),
            EventTarget::Cpu(cpu) => (-1, number(cpu)?),
            EventTarget::ThreadOn(tid, cpu) => (tid, number(cpu)?),
        };
        let group = leader.map_or(-1, |leader| leader.0.as_raw_fd());
        let flags = bindings::PERF_FLAG_FD_CLOEXEC.into();
        // SAFETY: `attr` is initialized, has the size it states, and outlives the call.
        let fd = unsafe { sys::perf_event_open(&raw mut attr, pid, cpu, group, flags) };
        if fd < 0 {
            return Err(last_errno());
        }
        // SAFETY: the call above returned this descriptor, and nothing else owns it.
        Ok(Self(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    pub fn enable(&self) -> io::Result<()> {
        // SAFETY: the descriptor is an open perf event, and ENABLE takes a number.
        done(unsafe { sys::ioctls::ENABLE(self.0.as_raw_fd(), bindings::PERF_IOC_FLAG_GROUP) })
    }

    /// Disables the event, with its group if it is a leader.
    pub fn disable(&self) -> io::Result<()> {
        // SAFETY: the descriptor is an open perf event, and DISABLE takes a number.
        done(unsafe { sys::ioctls::DISABLE(self.0.as_raw_fd(), bindings::PERF_IOC_FLAG_GROUP) })
    }

    /// Enables or disables this event alone; members of its group count only while it is enabled.
    pub fn switch(&self, on: bool) -> io::Result<()> {
        let switch = if on { sys::ioctls::ENABLE } else { sys::ioctls::DISABLE };
        // SAFETY: the descriptor is an open perf event, and both requests take a number.
        done(unsafe { switch(self.0.as_raw_fd(), 0) })
    }

    /// Restricts a tracepoint event to records that match `filter` (Documentation/trace/events.rst,
    /// "Event filtering").
    pub fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        // SAFETY: the descriptor is an open perf event; the kernel copies the NUL-terminated
        // string.
        done(unsafe { sys::ioctls::SET_FILTER(self.0.as_raw_fd(), filter.as_ptr().cast_mut()) })
    }

    /// Redirects its records to the ring buffer of `other`, an event of the same CPU.
    pub fn send_to(&self, other: &Self) -> io::Result<()> {
        let ring = other.0.as_raw_fd();
        // SAFETY: both descriptors are open perf events.
        done(unsafe { sys::ioctls::SET_OUTPUT(self.0.as_raw_fd(), ring as _) })
    }

    pub fn id(&self) -> io::Result<u64> {
        let mut id: u64 = 0;
        // SAFETY: the descriptor is an open perf event, and the kernel writes one u64 to `id`.
        done(unsafe { sys::ioctls::ID(self.0.as_raw_fd(), &raw mut id) })?;
        Ok(id)
    }

    /// Its value so far. Events are read one by one: older kernels refuse to read an inherited
    /// group.
    pub fn read(&self) -> io::Result<Reading> {
        let mut bytes = [0; 24];
        (&self.0).read_exact(&mut bytes)?;
        let mut words =
            bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).fuse();
        let mut next = || words.next().unwrap_or(0);
        Ok(Reading { value: next(), enabled_ns: next(), running_ns: next() })
    }
}

impl AsFd for PerfEvent {
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
