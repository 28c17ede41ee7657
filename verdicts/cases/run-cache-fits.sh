# cause: Near miss of run-cache-cliff: a file of 48 MiB fits into the same memory.
# expect: in-memory, own-cpu
# runs: fathom
prepare() {
    filled data 48m
    grouped memory memory.limit_in_bytes 128m
}
program() {
    joined memory
    run --ioengine=psync --direct=0 --invalidate=0 --rw=read --bs=64k --runtime=6
}
clean() { ungrouped memory; }
