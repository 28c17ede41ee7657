# cause: A redis server whose 8 clients send 64 requests at a time: its one thread computes.
# expect: own-cpu
# busy: own-cpu, other-cpu
# peers: redis-benchmark
# packages: redis-server redis-tools
# watch: 6s
prepare() {
    starts redis-server --port 7484 --save '' --dir "$DIR"
    until_ok redis-cli -p 7484 ping
}
program() {
    starts redis-benchmark -p 7484 -n 1000000000 -q -c 8 -P 64 -t lrange_300
    sleep 1
    pgrep -f 'redis-server.*:7484'
}
clean() { ends; }
