# cause: The most of a disk in a cgroup that may read 1000 times per second.
# expect: io-limit
# runs: fathom
prepare() {
    filled data 1g
    grouped blkio blkio.throttle.read_iops_device "$(disk_number) 1000"
}
program() {
    joined blkio
    fathom limit -t 20 data
}
clean() { ungrouped blkio; }
