# cause: Near miss of run-drop-limit: the limit that is set in the middle of the run is out of reach.
# expect: device, queue-depth
# runs: fathom
prepare() {
    filled data 512m
    grouped blkio blkio.throttle.read_iops_device "$(disk_number) 0"
    starts sh -c "sleep 4; echo '$(disk_number) 90000000' >/sys/fs/cgroup/blkio/fathom-verdicts/blkio.throttle.read_iops_device"
}
program() {
    joined blkio
    run --ioengine=io_uring --iodepth=16 --direct=1 --runtime=12
}
clean() {
    ends
    ungrouped blkio
}
