# cause: A redis server with 50 clients on this machine: its one thread uses a whole CPU.
# expect: own-cpu
# busy: own-cpu, other-cpu
# vague: peer
# peers: redis-benchmark
# packages: redis-server redis-tools
# watch: 5s
prepare() {
    starts redis-server --port 7379 --save '' --dir "$DIR"
    until_ok redis-cli -p 7379 ping
}
program() {
    starts redis-benchmark -p 7379 -n 100000000 -q -c 50 -t get
    sleep 0.5
    pgrep -f 'redis-server.*:7379'
}
clean() { ends; }
