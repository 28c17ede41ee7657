# cause: Reads of 1 MiB of a file in memory: worker threads of io_uring (force_async) copy it, which is no more work than without.
# expect: in-memory, own-cpu
# runs: fathom
prepare() {
    filled data 256m
    cat data >/dev/null
}
program() { run --ioengine=io_uring --iodepth=16 --bs=1m --direct=0 --invalidate=0 --force_async=1; }
