# cause: curl waits for a local server that thinks for 4 s.
# expect: peer
# mentions: python
# packages: curl python3
prepare() {
    starts /usr/bin/python3 -c '
import socket, time
server = socket.create_server(("127.0.0.1", 7480))
while True:
    client, _ = server.accept()
    client.recv(65536)
    time.sleep(4)
    client.sendall(b"HTTP/1.0 200 OK\r\n\r\nhello")
    client.close()'
    sleep 1
}
program() { exec curl -s http://127.0.0.1:7480/; }
clean() { ends; }
