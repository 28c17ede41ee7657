# cause: A redis server with 50 clients that flushes its log before it answers (appendfsync always): flushes, or its CPU time, whichever takes longer.
# expect: flush, own-cpu
# busy: flush, own-cpu, other-cpu
# peers: redis-benchmark
# packages: redis-server redis-tools
# watch: 5s
prepare() {
    starts redis-server --port 7379 --save '' --dir "$DIR" --appendonly yes --appendfsync always
    until_ok redis-cli -p 7379 ping
}
program() {
    starts redis-benchmark -p 7379 -n 100000000 -q -c 50 -t set
    sleep 0.5
    pgrep -f 'redis-server.*:7379'
}
clean() { ends; }
