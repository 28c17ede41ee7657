# cause: Buffered reads of a file that is in the page cache.
# expect: in-memory, own-cpu
# runs: fathom
prepare() {
    filled data 256m
    cat data >/dev/null
}
program() { run --ioengine=psync --direct=0 --invalidate=0; }
