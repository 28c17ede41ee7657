//! The sockets of a network namespace, from sock_diag(7).

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Maximum number of network namespaces examined.
const NETWORKS_MAX: usize = 8;
/// Length of the header of a message (linux/netlink.h).
const HEADER: usize = 16;
/// States of a TCP socket (include/net/tcp_states.h).
const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;

/// A TCP socket that is connected or listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TcpSocket {
    pub inode: u64,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub listens: bool,
    /// Segments with data that it has sent and received.
    pub segments: u64,
    /// Smoothed round-trip time, in microseconds.
    pub rtt_us: u32,
}

/// A process of each network namespace that these are in.
pub(super) fn one_per_network(proc_root: &Path, pids: &[i32]) -> Vec<i32> {
    let networks: BTreeMap<Option<PathBuf>, i32> =
        pids.iter().map(|pid| (network(proc_root, &pid.to_string()), *pid)).collect();
    networks.into_values().take(NETWORKS_MAX).collect()
}

/// The network namespace of a process.
fn network(proc_root: &Path, pid: &str) -> Option<PathBuf> {
    std::fs::read_link(proc_root.join(pid).join("ns/net")).ok()
}

/// The inodes of connected Unix sockets by their peers', in the network of process `pid` (include/uapi/linux/unix_diag.h).
pub(super) fn unix_pairs(proc_root: &Path, pid: i32) -> io::Result<HashMap<u64, u64>> {
    const UDIAG_SHOW_PEER: u32 = 4;
    // Family, all states, inode, what to show, cookie.
    let request = [libc::AF_UNIX as u32, u32::MAX, 0, UDIAG_SHOW_PEER, 0, 0];
    let mut pairs = HashMap::new();
    dump(proc_root, pid, &request.map(u32::to_ne_bytes).concat(), |body| {
        pairs.extend(unix_pair(body));
    })?;
    Ok(pairs)
}

fn unix_pair(body: &[u8]) -> Option<(u64, u64)> {
    const UNIX_DIAG_PEER: u16 = 2;
    let peer = attribute(body.get(16..)?, UNIX_DIAG_PEER)?;
    Some((u64::from(u32_at(body, 4)?), u64::from(u32_at(peer, 0)?)))
}

/// The TCP sockets in the network of process `pid` (include/uapi/linux/inet_diag.h).
pub(super) fn tcp_sockets(proc_root: &Path, pid: i32) -> io::Result<Vec<TcpSocket>> {
    /// `struct inet_diag_sockid`.
    const ANY_SOCKET: usize = 48;
    let mut sockets = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let shown = 1 << (INET_DIAG_INFO - 1);
        let mut request = vec![family as u8, libc::IPPROTO_TCP as u8, shown, 0];
        request.extend((1u32 << ESTABLISHED | 1 << LISTEN).to_ne_bytes());
        request.resize(request.len() + ANY_SOCKET, 0);
        dump(proc_root, pid, &request, |body| sockets.extend(tcp_socket(body)))?;
    }
    Ok(sockets)
}

const INET_DIAG_INFO: u16 = 2;

/// `struct inet_diag_msg`, and `struct tcp_info` as an attribute.
fn tcp_socket(body: &[u8]) -> Option<TcpSocket> {
    let (family, state) = (i32::from(*body.first()?), *body.get(1)?);
    let address = |port: usize, address: usize| {
        let port = u16::from_be_bytes(*body.get(port..)?.first_chunk()?);
        let ip = match family {
            libc::AF_INET => {
                IpAddr::from(Ipv4Addr::from(*body.get(address..)?.first_chunk::<4>()?))
            }
            _ => IpAddr::from(Ipv6Addr::from(*body.get(address..)?.first_chunk::<16>()?)),
        };
        // One end may use IPv4 and the other IPv6 for the same address.
        Some(SocketAddr::new(ip.to_canonical(), port))
    };
    let info = attribute(body.get(72..)?, INET_DIAG_INFO).unwrap_or_default();
    let of_info = |at: usize| u32_at(info, at).unwrap_or(0);
    Some(TcpSocket {
        inode: u32_at(body, 68)?.into(),
        local: address(4, 8)?,
        remote: address(6, 24)?,
        listens: state == LISTEN,
        // tcpi_data_segs_in, tcpi_data_segs_out, tcpi_rtt.
        segments: u64::from(of_info(152)) + u64::from(of_info(156)),
        rtt_us: of_info(68),
    })
}

/// Asks for all sockets of a kind, in the network of process `pid`, and passes on what is known of each.
fn dump(proc_root: &Path, pid: i32, request: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<()> {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    let mut socket = connect(proc_root, pid)?;
    let kind =
        u32::from(SOCK_DIAG_BY_FAMILY) | ((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u32) << 16;
    // Length, type and flags, sequence number, port.
    let header = [(HEADER + request.len()) as u32, kind, 0, 0].map(u32::to_ne_bytes).concat();
    socket.write_all(&[&header, request].concat())?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = socket.read(&mut buffer)?;
        if length == 0 || !each_message(&buffer[..length], &mut each) {
            return Ok(());
        }
    }
}

/// A socket for such requests: it answers for the network in which it was opened.
fn connect(proc_root: &Path, pid: i32) -> io::Result<File> {
    let theirs = network(proc_root, &pid.to_string());
    if theirs.is_none() || theirs == network(proc_root, "self") {
        return open();
    }
    let link = File::open(proc_root.join(pid.to_string()).join("ns/net"))?;
    let there = || {
        move_into_link_name_space(link.as_fd(), Some(LinkNameSpaceType::Network))?;
        open()
    };
    // Only the thread moves.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("fathom-net".into());
        let opened = thread.spawn_scoped(scope, there)?.join();
        opened.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    })
}

fn open() -> io::Result<File> {
    let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, flags, libc::NETLINK_SOCK_DIAG) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and owned by nobody else.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Passes on the body of each of these messages; returns whether more follow.
fn each_message(mut messages: &[u8], each: &mut impl FnMut(&[u8])) -> bool {
    while let Some(length) = u32_at(messages, 0).map(|length| length as usize) {
        let Some(message) = messages.get(..length).filter(|_| length >= HEADER) else {
            return false;
        };
        if matches!(u16_at(message, 4), Some(kind) if i32::from(kind) <= libc::NLMSG_DONE) {
            return false;
        }
        each(&message[HEADER..]);
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

/// The value of the attribute `wanted`.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let Some(length) = u16_at(attributes, 0).map(usize::from).filter(|length| *length >= 4) {
        if u16_at(attributes, 2) == Some(wanted) {
            return attributes.get(4..length);
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

fn u16_at(of: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*of.get(at..)?.first_chunk()?))
}

fn u32_at(of: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*of.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = (HEADER + body.len()) as u32;
        let header = [length, kind.into(), 0, 0].map(u32::to_ne_bytes).concat();
        let mut message = [&header[..], body].concat();
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    #[test]
    fn messages_and_attributes_that_are_cut_off_end_the_answer() {
        let whole = [message(20, b"abc"), message(20, b"defgh")].concat();
        for length in 0..=whole.len() {
            let mut found = Vec::new();
            each_message(&whole[..length], &mut |body: &[u8]| found.push(body.to_vec()));
            let wanted = usize::from(length >= 19) + usize::from(length >= whole.len() - 3);
            assert_eq!(found.len(), wanted, "{length}");
        }
        let done = [message(20, b"abc"), message(3, b"")].concat();
        let mut found = 0;
        assert!(!each_message(&done, &mut |_: &[u8]| found += 1));
        assert_eq!(found, 1);
        // Of type 1, three bytes; of type 2, four.
        let attributes = [7, 0, 1, 0, 9, 9, 9, 0, 8, 0, 2, 0, 1, 2, 3, 4];
        assert_eq!(attribute(&attributes, 2), Some(&[1, 2, 3, 4][..]));
        assert_eq!(attribute(&attributes[..13], 2), None);
        assert_eq!(attribute(&[0; 8], 2), None);
        assert_eq!(tcp_socket(&[2, 1, 0]), None);
    }
}
