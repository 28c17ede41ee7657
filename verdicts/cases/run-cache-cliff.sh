# cause: A file of 192 MiB is read from its beginning to its end, again and again, where 128 MiB of memory hold its page cache (a cgroup).
# expect: cache-limit
# vague: queue-depth, device, readahead
# runs: fathom
size=192m
prepare() {
    filled data $size
    grouped memory memory.limit_in_bytes 128m
}
program() {
    joined memory
    run --ioengine=psync --direct=0 --invalidate=0 --rw=read --bs=64k --runtime=6
}
clean() { ungrouped memory; }
