# cause: 64 reads of a zram device in flight, which libaio submits one by one, each with a system call of its own.
# expect: small-batches
# vague: own-cpu
# runs: fathom
prepare() { zramctl -f -s 256m >zram; }
program() {
    run --filename="$(cat zram)" --ioengine=libaio --iodepth=64 --iodepth_batch=1 --iodepth_batch_complete=1 --direct=1
}
clean() {
    sleep 0.5
    zramctl -r "$(cat zram)"
}
