//! Processes at the other end of the watched processes' pipes and sockets: with these the watched program works, so
//! they do not compete with it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

/// Maximum number of processes examined at a time, those with most CPU time first, and of descriptors of each.
const PROCESSES_MAX: usize = 32;
const DESCRIPTORS_MAX: usize = 16_384;
/// Upper bound for the search, as 1/n of a CPU's time.
const PART: u32 = 200;

#[derive(Debug, Default)]
pub(crate) struct Peers {
    found: HashSet<(i32, u64)>,
    next_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ChannelEnd {
    /// The inode of a pipe, and whether this end reads.
    Pipe(u64, bool),
    Socket(u64),
}

impl ChannelEnd {
    fn socket(&self) -> Option<u64> {
        match *self {
            Self::Socket(inode) => Some(inode),
            Self::Pipe(..) => None,
        }
    }
}

impl Peers {
    /// Looks for peers of `watched` among these processes with their start times, unless the last search was
    /// expensive.
    pub fn refresh(
        &mut self,
        proc_root: &Path,
        watched: &[i32],
        active: impl Iterator<Item = (i32, u64)>,
    ) {
        let began = Instant::now();
        if self.next_at.is_some_and(|next| began < next) {
            return;
        }
        let unknown: Vec<(i32, u64)> =
            active.filter(|one| !self.found.contains(one)).take(PROCESSES_MAX).collect();
        if unknown.is_empty() {
            return;
        }
        let others = other_ends(proc_root, watched);
        let holds = |pid: i32| ends(proc_root, pid).iter().any(|end| others.contains(end));
        if !others.is_empty() {
            self.found.extend(unknown.into_iter().filter(|(pid, _)| holds(*pid)));
        }
        self.next_at = Some(Instant::now() + began.elapsed() * PART);
    }

    pub fn contains(&self, pid: i32, start: u64) -> bool {
        self.found.contains(&(pid, start))
    }
}

/// The other ends of all pipes and sockets of these processes.
fn other_ends(proc_root: &Path, pids: &[i32]) -> BTreeSet<ChannelEnd> {
    let own: BTreeSet<ChannelEnd> = pids.iter().flat_map(|pid| ends(proc_root, *pid)).collect();
    let sockets: Vec<u64> = own.iter().filter_map(|end| end.socket()).collect();
    let mut pairs = HashMap::new();
    if !sockets.is_empty() {
        // Where the kernel does not report them, these remain unknown.
        pairs = unix_pairs().unwrap_or_default();
    }
    // The kernel walks its whole table of connections for `tcp`, which takes milliseconds.
    let unpaired = sockets.iter().any(|inode| !pairs.contains_key(inode));
    if let Some(pid) = pids.first().filter(|_| unpaired) {
        pairs.extend(tcp_pairs(&proc_root.join(pid.to_string()).join("net")));
    }
    let other = |end: &ChannelEnd| match *end {
        ChannelEnd::Pipe(inode, reads) => Some(ChannelEnd::Pipe(inode, !reads)),
        ChannelEnd::Socket(inode) => pairs.get(&inode).map(|other| ChannelEnd::Socket(*other)),
    };
    own.iter().filter_map(other).collect()
}

fn ends(proc_root: &Path, pid: i32) -> Vec<ChannelEnd> {
    let links = std::fs::read_dir(proc_root.join(pid.to_string()).join("fd"));
    let links = links.into_iter().flatten().flatten().take(DESCRIPTORS_MAX);
    links.filter_map(|link| end(&link.path())).collect()
}

fn end(link: &Path) -> Option<ChannelEnd> {
    let target = std::fs::read_link(link).ok()?;
    let (kind, inode) = target.to_str()?.strip_suffix(']')?.split_once(":[")?;
    let inode = inode.parse().ok()?;
    match kind {
        "socket" => Some(ChannelEnd::Socket(inode)),
        // The link's permissions are the descriptor's access mode.
        "pipe" => {
            let mode = std::fs::symlink_metadata(link).ok()?.mode();
            Some(ChannelEnd::Pipe(inode, mode & 0o400 != 0))
        }
        _ => None,
    }
}

/// The inodes of connected TCP sockets whose two ends are in this network namespace, from its `tcp` and `tcp6`
/// (proc_pid_net(5)).
fn tcp_pairs(net: &Path) -> HashMap<u64, u64> {
    let text = |name| std::fs::read_to_string(net.join(name)).unwrap_or_default();
    let text = text("tcp") + &text("tcp6");
    let sockets: HashMap<(&str, &str), u64> = text.lines().filter_map(tcp_socket).collect();
    let pair = |((local, remote), inode): (&(&str, &str), &u64)| {
        Some((*inode, *sockets.get(&(*remote, *local))?))
    };
    sockets.iter().filter_map(pair).collect()
}

/// Local and remote address, and the inode.
fn tcp_socket<'a>(line: &'a str) -> Option<((&'a str, &'a str), u64)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
    let [_, local, remote, "01", _, _, _, _, _, inode] = fields.as_slice() else { return None };
    // One end may use IPv4 and the other IPv6 for the same address.
    let plain =
        |address: &'a str| address.strip_prefix("0000000000000000FFFF0000").unwrap_or(address);
    Some(((plain(local), plain(remote)), inode.parse().ok()?))
}

/// The inodes of connected Unix sockets by their peers' (sock_diag(7), include/uapi/linux/unix_diag.h).
fn unix_pairs() -> io::Result<HashMap<u64, u64>> {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const UDIAG_SHOW_PEER: u32 = 4;
    const REQUEST: u32 = 16 + 24;
    let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, flags, libc::NETLINK_SOCK_DIAG) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and owned by nobody else.
    let mut socket = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    let dump = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u32;
    let kind = u32::from(SOCK_DIAG_BY_FAMILY) | dump << 16;
    // Length, type and flags, sequence number, port; family, all states, inode, what to show, cookie.
    let request = [REQUEST, kind, 0, 0, libc::AF_UNIX as u32, u32::MAX, 0, UDIAG_SHOW_PEER, 0, 0];
    socket.write_all(&request.map(u32::to_ne_bytes).concat())?;
    let (mut pairs, mut buffer) = (HashMap::new(), vec![0; 64 << 10]);
    loop {
        let length = socket.read(&mut buffer)?;
        if length == 0 || !add_pairs(&buffer[..length], &mut pairs) {
            return Ok(pairs);
        }
    }
}

/// Adds the pairs of these messages; returns whether more follow.
fn add_pairs(mut messages: &[u8], pairs: &mut HashMap<u64, u64>) -> bool {
    const UNIX_DIAG_PEER: u16 = 2;
    let u16_at = |of: &[u8], at| Some(u16::from_ne_bytes(*of.get(at..)?.first_chunk()?));
    let u32_at = |of: &[u8], at| Some(u32::from_ne_bytes(*of.get(at..)?.first_chunk()?));
    while let Some(length) = u32_at(messages, 0).map(|length| length as usize) {
        let Some(message) = messages.get(..length).filter(|_| length >= 16) else { return false };
        if matches!(u16_at(message, 4), Some(kind) if i32::from(kind) <= libc::NLMSG_DONE) {
            return false;
        }
        let inode = u32_at(message, 16 + 4);
        let mut attributes = message.get(16 + 16..).unwrap_or_default();
        while let Some(length) = u16_at(attributes, 0).filter(|length| *length >= 4) {
            let peer =
                u32_at(attributes, 4).filter(|_| u16_at(attributes, 2) == Some(UNIX_DIAG_PEER));
            pairs.extend(inode.zip(peer).map(|(own, peer)| (u64::from(own), u64::from(peer))));
            attributes =
                attributes.get(usize::from(length).next_multiple_of(4)..).unwrap_or_default();
        }
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::process::{Child, Command, Stdio};

    fn reader(input: impl Into<Stdio>) -> Child {
        Command::new("cat").stdin(input).stdout(Stdio::null()).spawn().unwrap()
    }

    #[test]
    fn processes_at_the_other_end_of_pipes_and_sockets() {
        let (unix, unix_other) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let tcp_other = listener.accept().unwrap().0;
        let (read, write) = io::pipe().unwrap();
        // Has the end of the pipe that this process has as well.
        let sibling = Command::new("sleep").arg("60").stdout(write.try_clone().unwrap()).spawn();
        let mut children = vec![
            reader(OwnedFd::from(unix_other)),
            reader(OwnedFd::from(tcp_other)),
            reader(read),
            sibling.unwrap(),
        ];
        let others = other_ends(Path::new("/proc"), &[crate::own_pid()]);
        let is_peer = |child: &Child| {
            ends(Path::new("/proc"), child.id() as i32).iter().any(|end| others.contains(end))
        };
        let found: Vec<bool> = children.iter().map(is_peer).collect();
        drop((unix, tcp, write));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(found, [true, true, true, false]);
    }

    #[test]
    fn ipv4_and_ipv6_of_one_connection() {
        let v4 = "   1: 0100007F:1538 0100007F:9C42 01 00000000:00000000 00:00000000 00000000  0  0 71 1 0";
        let v6 = "   0: 0000000000000000FFFF00000100007F:9C42 0000000000000000FFFF00000100007F:1538 01 \
                  00000000:00000000 00:00000000 00000000  0  0 72 1 0";
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tcp"), format!("  sl  local_address rem_address\n{v4}\n"))
            .unwrap();
        std::fs::write(dir.path().join("tcp6"), v6).unwrap();
        assert_eq!(tcp_pairs(dir.path()), HashMap::from([(71, 72), (72, 71)]));
    }
}
