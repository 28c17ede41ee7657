# cause: tail -f of a file to which nobody writes.
# expect: peer, timer
# packages: coreutils
# watch: 5s
program() {
    echo line >log
    starts tail -f log
    sleep 0.5
    head -1 background.pids
}
clean() { ends; }
