# cause: BFQ serves another cgroup with a hundred times the weight first, on a loop device.
# expect: io-weight
# packages: fio
# runs: fathom
groups=/sys/fs/cgroup/blkio/fathom-verdicts
prepare() {
    looped 512m
    queue scheduler bfq
    mkdir -p "$groups" "$groups-other"
    echo 10 >"$groups/blkio.bfq.weight"
    echo 1000 >"$groups-other/blkio.bfq.weight"
    starts sh -c "echo \$\$ >$groups-other/cgroup.procs; exec \"\$@\"" other fio --name=other --filename="$(cat loop)" \
        --rw=randread --bs=4k --direct=1 --ioengine=psync --numjobs=4 --time_based --runtime=600
}
program() {
    echo $$ >"$groups/cgroup.procs"
    run --filename="$(cat loop)" --ioengine=psync --numjobs=4 --direct=1 --runtime=6
}
clean() {
    ends
    unlooped
    rmdir "$groups" "$groups-other"
}
