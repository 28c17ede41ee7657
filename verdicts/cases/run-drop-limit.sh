# cause: In the middle of the run, the cgroup is limited to 500 reads per second.
# expect: drop
# vague: io-limit
# mentions: allows 500 reads/s
# runs: fathom
reads=500
prepare() {
    filled data 512m
    grouped blkio blkio.throttle.read_iops_device "$(disk_number) 0"
    starts sh -c "sleep 4; echo '$(disk_number) $reads' >/sys/fs/cgroup/blkio/fathom-verdicts/blkio.throttle.read_iops_device"
}
program() {
    joined blkio
    run --ioengine=io_uring --iodepth=16 --direct=1 --runtime=12
}
clean() {
    ends
    ungrouped blkio
}
