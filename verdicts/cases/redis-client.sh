# cause: A client of a local redis server that waits for each answer.
# expect: peer
# vague: own-cpu
# mentions: redis-server
# packages: redis-server redis-tools
prepare() {
    starts redis-server --port 7379 --save '' --dir "$DIR"
    until_ok redis-cli -p 7379 ping
}
program() { for_s 4 redis-benchmark -p 7379 -n 100000000 -q -c 1 -t get; }
clean() { ends; }
