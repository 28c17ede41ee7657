# cause: io_uring hands each 4 KiB read of a file in memory to a worker thread (force_async), which costs more than the read.
# expect: io-wq
# vague: in-memory
# runs: fathom
prepare() {
    filled data 256m
    cat data >/dev/null
}
program() { run --ioengine=io_uring --iodepth=16 --direct=0 --invalidate=0 --force_async=1; }
