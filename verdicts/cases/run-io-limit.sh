# cause: 16 reads in flight in a cgroup that may read 1000 times per second.
# expect: io-limit
# runs: fathom
prepare() {
    filled data 512m
    grouped blkio blkio.throttle.read_iops_device "$(disk_number) 1000"
}
program() {
    joined blkio
    run --ioengine=io_uring --iodepth=16 --direct=1
}
clean() { ungrouped blkio; }
