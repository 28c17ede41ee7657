# cause: dd reads a pipe that a slow program fills.
# expect: peer
prepare() {
    mkfifo pipe
    starts bash -c 'exec >pipe; while sleep 0.1; do head -c 65536 /dev/zero; done'
}
program() { for_s 4 dd if=pipe of=/dev/null bs=64k status=none; }
clean() { ends; }
