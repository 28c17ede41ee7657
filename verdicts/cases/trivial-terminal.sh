# cause: A program reads from a terminal at which nobody types.
# expect: peer
# packages: bsdutils
# watch: 5s
program() {
    starts script -qfc 'exec cat' /dev/null
    sleep 0.5
    pgrep -P "$(head -1 background.pids)" | tail -1
}
clean() { ends; }
