# cause: A client sends requests to a local server that takes 50 ms for each, without computing.
# expect: peer, timer
# mentions: python
# peers: python3
# packages: python3
prepare() {
    cat >server.py <<'P'
import socket, time
server = socket.create_server(("127.0.0.1", 7483))
while True:
    client, _ = server.accept()
    while client.recv(4096):
        time.sleep(0.05)
        client.sendall(b"answer")
P
    starts /usr/bin/python3 server.py
    sleep 0.5
}
program() {
    exec perl -MIO::Socket::INET -e '
        my $end = time + 6;
        my $server = IO::Socket::INET->new("127.0.0.1:7483") or die;
        while (time < $end) { syswrite($server, "question"); sysread($server, my $answer, 4096) }'
}
clean() { ends; }
