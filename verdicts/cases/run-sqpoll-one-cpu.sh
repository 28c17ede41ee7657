# cause: The SQPOLL thread has to share one CPU with the job that submits to it, one read of a zram device at a time.
# expect: sqpoll, own-cpu
# runs: fathom
prepare() { zramctl -f -s 256m >zram; }
program() {
    run --filename="$(cat zram)" --ioengine=io_uring --iodepth=1 --direct=1 --sqthread_poll=1 --sqthread_poll_cpu=0 \
        --cpus_allowed=0
}
clean() {
    sleep 0.5
    zramctl -r "$(cat zram)"
}
