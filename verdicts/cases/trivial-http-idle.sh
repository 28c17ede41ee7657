# cause: A web server without clients.
# expect: peer, timer
# packages: python3
# watch: 5s
program() {
    starts /usr/bin/python3 -m http.server 7485 --bind 127.0.0.1
    sleep 1
    head -1 background.pids
}
clean() { ends; }
