# cause: A client waits for answers from a local server on a Unix socket, which computes 5 ms for each.
# expect: peer, own-cpu
# mentions: python
# peers: python3
# packages: python3
prepare() {
    cat >server.py <<'P'
import socket, time
server = socket.socket(socket.AF_UNIX)
server.bind("socket")
server.listen()
while True:
    client, _ = server.accept()
    while client.recv(4096):
        until = time.monotonic() + 0.005
        while time.monotonic() < until:
            pass
        client.sendall(b"answer")
P
    starts /usr/bin/python3 server.py
    until_ok test -S socket
}
program() {
    exec perl -MIO::Socket::UNIX -e '
        my $end = time + 6;
        my $server = IO::Socket::UNIX->new(Peer => "socket") or die;
        while (time < $end) { syswrite($server, "question"); sysread($server, my $answer, 4096) }'
}
clean() { ends; }
