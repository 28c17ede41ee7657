# cause: cat waits for a pipe that nobody writes to.
# expect: peer
prepare() {
    mkfifo pipe
    starts bash -c 'exec 3>pipe; sleep 60'
}
program() { for_s 4 cat pipe; }
clean() { ends; }
