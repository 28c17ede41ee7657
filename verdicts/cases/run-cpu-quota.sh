# cause: Reads of a sparse file in a cgroup that may use a fifth of a CPU.
# expect: cpu-quota
# runs: fathom
prepare() {
    truncate -s 1g data
    grouped cpu cpu.cfs_quota_us 20000
}
program() {
    joined cpu
    run --ioengine=psync --direct=1
}
clean() { ungrouped cpu; }
