//! Processes at the other end of the watched processes' pipes and sockets: with these the watched program works, so
//! they do not compete with it.

use super::sockets::{TcpSocket, one_per_network, tcp_sockets, unix_pairs};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
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
    let networks = if sockets.is_empty() { Vec::new() } else { one_per_network(proc_root, pids) };
    let mut pairs = HashMap::new();
    for pid in &networks {
        // Where the kernel does not report them, these remain unknown.
        pairs.extend(unix_pairs(proc_root, *pid).unwrap_or_default());
    }
    // The kernel walks its whole table of connections for these, which takes milliseconds.
    let unpaired = sockets.iter().any(|inode| !pairs.contains_key(inode));
    for pid in networks.iter().filter(|_| unpaired) {
        pairs.extend(tcp_pairs(&tcp_sockets(proc_root, *pid).unwrap_or_default()));
    }
    let other = |end: &ChannelEnd| match *end {
        ChannelEnd::Pipe(inode, reads) => Some(ChannelEnd::Pipe(inode, !reads)),
        ChannelEnd::Socket(inode) => pairs.get(&inode).map(|other| ChannelEnd::Socket(*other)),
    };
    own.iter().filter_map(other).collect()
}

/// The inodes of connected TCP sockets whose two ends are in one network.
pub(super) fn tcp_pairs(sockets: &[TcpSocket]) -> HashMap<u64, u64> {
    let connected = sockets.iter().filter(|socket| !socket.listens);
    let inodes: HashMap<_, u64> =
        connected.map(|socket| ((socket.local, socket.remote), socket.inode)).collect();
    let pair = |((local, remote), inode): (&(SocketAddr, SocketAddr), &u64)| {
        Some((*inode, *inodes.get(&(*remote, *local))?))
    };
    inodes.iter().filter_map(pair).collect()
}

/// The inodes of a process's sockets.
pub(super) fn sockets_of(proc_root: &Path, pid: i32) -> Vec<u64> {
    ends(proc_root, pid).iter().filter_map(ChannelEnd::socket).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsRawFd, OwnedFd};
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
        let Ok(listener) = TcpListener::bind("[::]:0") else {
            println!("skipped: no IPv6");
            return;
        };
        let port = listener.local_addr().unwrap().port();
        let one = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let other = listener.accept().unwrap().0;
        let inode = |socket: &TcpStream| {
            std::fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap().ino()
        };
        let pairs = tcp_pairs(&tcp_sockets(Path::new("/proc"), crate::own_pid()).unwrap());
        assert_eq!(pairs.get(&inode(&one)), Some(&inode(&other)));
        assert_eq!(pairs.get(&inode(&other)), Some(&inode(&one)));
    }
}
