# cause: A process that sleeps forever.
# expect: timer, idle
# packages: coreutils
# watch: 5s
program() {
    starts sleep infinity
    sleep 0.2
    head -1 background.pids
}
clean() { ends; }
