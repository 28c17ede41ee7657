# cause: A redis server with 50 clients on this machine: its one thread uses a whole CPU.
# expect: own-cpu
# vague: peer
# packages: redis-server redis-tools
# watch: 5s
program() {
    starts redis-server --port 7379 --save '' --dir "$DIR"
    until_ok redis-cli -p 7379 ping
    starts redis-benchmark -p 7379 -c 50 -n 100000000 -t get -q
    sleep 0.5
    pgrep -f 'redis-server.*:7379'
}
clean() { ends; }
