# cause: 64 reads in flight on a loop device in memory, which io_uring submits one by one, each with a system call of its own.
# expect: small-batches
# vague: own-cpu, device, stacked-device
# runs: fathom
prepare() {
    head -c 256m /dev/zero >/dev/shm/fathom-verdicts
    losetup -f --show /dev/shm/fathom-verdicts >loop
    queue scheduler none
}
program() {
    run --filename="$(cat loop)" --ioengine=io_uring --iodepth=64 --iodepth_batch=1 --iodepth_batch_complete=1 --direct=1 \
        --bs=512
}
clean() {
    unlooped
    rm -f /dev/shm/fathom-verdicts
}
