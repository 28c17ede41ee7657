# cause: Reads of 256 MiB each into a buffer of that size, of which the cgroup lets 64 MiB stay out of swap.
# expect: swapping, memory-limit
# vague: page-fault, in-memory
# packages: util-linux
# runs: fathom
prepare() {
    truncate -s 1g data
    fallocate -l 1g swap
    chmod 600 swap
    mkswap -q swap >/dev/null
    swapon swap
    grouped memory memory.limit_in_bytes 64m
}
program() {
    joined memory
    run --rw=read --ioengine=psync --direct=0 --bs=256m --runtime=6
}
clean() {
    ungrouped memory || :
    swapoff swap
}
