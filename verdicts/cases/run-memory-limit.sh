# cause: Random reads of 200 MiB through the page cache in a cgroup of 64 MiB.
# expect: cache-limit
# vague: device, queue-depth
# runs: fathom
prepare() {
    filled data 200m
    grouped memory memory.limit_in_bytes 64m
}
program() {
    joined memory
    run --ioengine=psync --direct=0 --invalidate=0 --bs=64k --runtime=6
}
clean() { ungrouped memory; }
