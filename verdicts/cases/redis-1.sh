# cause: A redis server with one client on this machine, which waits for each answer: the server waits for its requests, or computes, whichever takes longer.
# expect: peer, own-cpu
# busy: peer, own-cpu, other-cpu
# peers: redis-benchmark
# packages: redis-server redis-tools
# watch: 5s
prepare() {
    starts redis-server --port 7379 --save '' --dir "$DIR"
    until_ok redis-cli -p 7379 ping
}
program() {
    starts redis-benchmark -p 7379 -n 100000000 -q -c 1 -t get
    sleep 0.5
    pgrep -f 'redis-server.*:7379'
}
clean() { ends; }
