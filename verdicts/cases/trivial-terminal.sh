# cause: A program reads from a terminal at which nobody types.
# expect: stopped
# mentions: terminal
# packages: bsdutils
# watch: 5s
program() {
    starts bash -c "sleep 60 | script -qfc 'exec cat' /dev/null"
    sleep 0.5
    pgrep -nx cat
}
clean() { ends; }
