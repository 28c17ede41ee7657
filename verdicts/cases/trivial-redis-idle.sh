# cause: A redis server without clients.
# expect: timer, idle
# packages: redis-server redis-tools
# watch: 5s
prepare() {
    starts redis-server --port 7486 --save '' --dir "$DIR"
    until_ok redis-cli -p 7486 ping
}
program() {
    sleep 1
    pgrep -f 'redis-server.*:7486'
}
clean() { ends; }
