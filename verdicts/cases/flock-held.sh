# cause: A program waits for a file lock that another program holds.
# expect: kernel-lock
# mentions: file lock
# packages: util-linux
prepare() {
    starts flock lockfile sleep 60
    sleep 0.5
}
program() { for_s 6 flock lockfile true; }
clean() { ends; }
