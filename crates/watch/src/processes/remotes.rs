//! The other ends of the watched processes' TCP connections: addresses, and on this machine the processes, which may be idle.

use super::peers::{sockets_of, tcp_pairs};
use super::sockets::{TcpSocket, one_per_network, tcp_sockets};
use crate::proc_file::numbered;
use fathom_model::watch::RemotePeer;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::time::Instant;

/// Maximum number of addresses reported, those with most segments first.
const REMOTES_MAX: usize = 8;
/// Maximum number of addresses kept meanwhile.
const FOUND_MAX: usize = 10_000;
/// Upper bound for the search, as 1/n of a CPU's time.
const PART: u32 = 200;

#[derive(Debug, Default)]
pub(super) struct Remotes {
    /// Segments of each connection when it was last read, by inode.
    known: HashMap<u64, u64>,
    /// By address.
    found: BTreeMap<String, RemotePeer>,
    /// The processes that hold the other ends, by these ends' inodes; none if they are not visible.
    holders: HashMap<u64, Option<(i32, String)>>,
    has_begun: bool,
    next_at: Option<Instant>,
}

impl Remotes {
    /// Adds the addresses that `watched` are connected with, and what was exchanged with them since the last call; unless
    /// that one was expensive.
    pub fn look(&mut self, proc_root: &Path, watched: &[i32]) {
        let began = Instant::now();
        if self.next_at.is_some_and(|next| began < next) {
            return;
        }
        let own: BTreeSet<u64> =
            watched.iter().flat_map(|pid| sockets_of(proc_root, *pid)).collect();
        let networks =
            if own.is_empty() { Vec::new() } else { one_per_network(proc_root, watched) };
        let mut known = HashMap::new();
        let mut connections: BTreeMap<String, u32> = BTreeMap::new();
        for pid in networks {
            let sockets = tcp_sockets(proc_root, pid).unwrap_or_default();
            let is_own = |inode: &u64| own.contains(inode);
            let ends = other_ends(&sockets)
                .filter(|end| is_own(&end.socket.inode) && !end.here.as_ref().is_some_and(is_own));
            let ends: Vec<OtherEnd> = ends.collect();
            self.find_holders(proc_root, ends.iter().filter_map(|end| end.here));
            for OtherEnd { socket, address, here } in ends {
                let holder = here.and_then(|inode| self.holders.get(&inode)?.clone());
                if here.is_some() && holder.is_none() {
                    continue;
                }
                known.insert(socket.inode, socket.segments);
                // What was exchanged before the first call is not of the record.
                let start = if self.has_begun { 0 } else { socket.segments };
                let before = self.known.get(&socket.inode).copied().unwrap_or(start);
                if self.found.len() >= FOUND_MAX && !self.found.contains_key(&address) {
                    continue;
                }
                *connections.entry(address.clone()).or_default() += 1;
                let remote = self.found.entry(address).or_default();
                remote.segments += socket.segments.saturating_sub(before);
                remote.rtt_us = remote.rtt_us.max(socket.rtt_us);
                if let Some(holder) = holder {
                    (remote.pid, remote.comm) = holder;
                }
            }
        }
        for (address, connections) in connections {
            let remote = self.found.entry(address).or_default();
            remote.connections = remote.connections.max(connections);
        }
        (self.known, self.has_begun) = (known, true);
        self.next_at = Some(Instant::now() + began.elapsed() * PART);
    }

    /// Finds the processes that hold these sockets, and forgets those of other sockets.
    fn find_holders(&mut self, proc_root: &Path, inodes: impl Iterator<Item = u64>) {
        let wanted: BTreeSet<u64> = inodes.collect();
        self.holders.retain(|inode, _| wanted.contains(inode));
        let mut unknown: BTreeSet<u64> =
            wanted.into_iter().filter(|inode| !self.holders.contains_key(inode)).collect();
        if unknown.is_empty() {
            return;
        }
        for (pid, _) in numbered(proc_root).into_iter().flatten() {
            for inode in sockets_of(proc_root, pid) {
                if unknown.remove(&inode) {
                    let comm = std::fs::read_to_string(proc_root.join(format!("{pid}/comm")));
                    let comm = comm.map(|comm| comm.trim_end().to_string());
                    self.holders.insert(inode, comm.ok().map(|comm| (pid, comm)));
                }
            }
            if unknown.is_empty() {
                return;
            }
        }
        self.holders.extend(unknown.into_iter().map(|inode| (inode, None)));
    }

    /// Takes what was found, the addresses with most segments first.
    pub fn take(&mut self) -> Vec<RemotePeer> {
        let named = |(address, remote)| RemotePeer { address, ..remote };
        let mut remotes: Vec<RemotePeer> =
            std::mem::take(&mut self.found).into_iter().map(named).collect();
        remotes.sort_by_key(|remote| std::cmp::Reverse(remote.segments));
        remotes.truncate(REMOTES_MAX);
        remotes
    }
}

/// A connection, and what is at its other end.
struct OtherEnd<'a> {
    socket: &'a TcpSocket,
    /// Without the port, which says nothing, of a client.
    address: String,
    /// The inode of the socket there, if it is in the same network.
    here: Option<u64>,
}

/// The other ends of these connections; none of those whose other end was on this machine and is closed.
fn other_ends(sockets: &[TcpSocket]) -> impl Iterator<Item = OtherEnd<'_>> {
    let ports: HashSet<u16> =
        sockets.iter().filter(|socket| socket.listens).map(|socket| socket.local.port()).collect();
    let pairs = tcp_pairs(sockets);
    sockets.iter().filter(|socket| !socket.listens).filter_map(move |socket| {
        let here = pairs.get(&socket.inode).copied();
        let is_client = ports.contains(&socket.local.port());
        let address = match is_client {
            true => socket.remote.ip().to_string(),
            false => socket.remote.to_string(),
        };
        let is_closed = here.is_none() && socket.remote.ip().is_loopback();
        (!is_closed).then_some(OtherEnd { socket, address, here })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    #[test]
    fn clients_and_servers_here_and_on_other_machines() {
        let socket = |inode, local: &str, remote: &str| TcpSocket {
            inode,
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            listens: inode == 0,
            segments: 0,
            rtt_us: 0,
        };
        let sockets = [
            socket(0, "[::]:80", "[::]:0"),
            socket(1, "10.0.0.1:80", "10.0.0.7:40001"),
            socket(2, "10.0.0.1:40002", "10.0.0.2:5432"),
            // Both ends are here; and one that is closed at the other end.
            socket(3, "10.0.0.1:40003", "10.0.0.1:80"),
            socket(4, "10.0.0.1:80", "10.0.0.1:40003"),
            socket(5, "[fe80::1]:40004", "[fe80::2]:6379"),
            socket(6, "127.0.0.1:40005", "127.0.0.1:9"),
        ];
        let found: Vec<(u64, String, Option<u64>)> =
            other_ends(&sockets).map(|end| (end.socket.inode, end.address, end.here)).collect();
        let wanted = [
            (1, "10.0.0.7", None),
            (2, "10.0.0.2:5432", None),
            (3, "10.0.0.1:80", Some(4)),
            (4, "10.0.0.1", Some(3)),
            (5, "[fe80::2]:6379", None),
        ];
        assert_eq!(found, wanted.map(|(inode, address, here)| (inode, address.to_string(), here)));
    }

    #[test]
    fn a_process_at_the_other_end_is_found_even_if_it_is_idle() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = format!(
            "import socket\ns = socket.create_connection(('127.0.0.1', {port}))\ns.send(b'x')\ns.recv(1)\n"
        );
        let mut child = Command::new("python3").args(["-c", &script]).spawn().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0]).unwrap();
        let mut remotes = Remotes::default();
        remotes.look(Path::new("/proc"), &[child.id() as i32]);
        let found = remotes.take();
        let own = std::fs::read_to_string("/proc/self/comm").unwrap();
        drop(stream);
        child.wait().unwrap();
        let one = found.iter().find(|one| one.address == format!("127.0.0.1:{port}")).unwrap();
        assert_eq!((one.pid, one.comm.as_str()), (crate::own_pid(), own.trim_end()), "{found:?}");
    }

    /// Two networks, with a pair of interfaces between them.
    struct Networks(&'static str);

    impl Networks {
        fn new() -> Option<Self> {
            let networks = Self("fathom-test-net");
            let made = [
                "netns add fathom-test-net",
                "link add fathom-t0 type veth peer name fathom-t1",
                "link set fathom-t1 netns fathom-test-net",
                "addr add 10.213.77.1/30 dev fathom-t0",
                "link set fathom-t0 up",
                "-n fathom-test-net addr add 10.213.77.2/30 dev fathom-t1",
                "-n fathom-test-net link set fathom-t1 up",
            ];
            let ip = |line: &str| {
                let run = Command::new("ip").args(line.split(' ')).stderr(Stdio::null()).status();
                run.is_ok_and(|status| status.success())
            };
            made.into_iter().all(ip).then_some(networks)
        }
    }

    impl Drop for Networks {
        fn drop(&mut self) {
            for line in ["link del fathom-t0", "netns del fathom-test-net"] {
                let _ = Command::new("ip").args(line.split(' ')).stderr(Stdio::null()).status();
            }
        }
    }

    #[test]
    fn a_connection_with_another_network_has_its_address_and_traffic() {
        let Some(networks) = Networks::new() else {
            println!("skipped: no network namespaces, veth or ip(8)");
            return;
        };
        let listener = TcpListener::bind("10.213.77.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // Answers each byte, in the other network.
        let script = format!(
            "import socket\ns = socket.create_connection(('10.213.77.1', {port}))\n\
             while True:\n  b = s.recv(1)\n  if not b: break\n  s.send(b)\n"
        );
        let mut child = Command::new("ip")
            .args(["netns", "exec", networks.0, "python3", "-c", &script])
            .spawn()
            .unwrap();
        let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
        let (own, theirs) = ([crate::own_pid()], [child.id() as i32]);
        let (mut of_server, mut of_client) = (Remotes::default(), Remotes::default());
        let mut exchange = |times: u32| {
            for _ in 0..times {
                stream.write_all(b"x").unwrap();
                stream.read_exact(&mut [0]).unwrap();
            }
        };
        exchange(3);
        of_server.look(Path::new("/proc"), &own);
        of_client.look(Path::new("/proc"), &theirs);
        exchange(20);
        (of_server.next_at, of_client.next_at) = (None, None);
        of_server.look(Path::new("/proc"), &own);
        of_client.look(Path::new("/proc"), &theirs);
        let (server, client) = (of_server.take(), of_client.take());
        drop(stream);
        child.wait().unwrap();
        let find = |remotes: &[RemotePeer], address: &str| {
            remotes.iter().find(|remote| remote.address == address).map(|remote| remote.segments)
        };
        // Some may be sent twice; those before the first look do not count.
        let is_of_twenty = |segments: Option<u64>| segments.is_some_and(|n| (40..46).contains(&n));
        assert!(is_of_twenty(find(&server, "10.213.77.2")), "{server:?}");
        assert!(is_of_twenty(find(&client, &format!("10.213.77.1:{port}"))), "{client:?}");
        assert!(of_server.take().is_empty());
        drop(networks);
    }
}
