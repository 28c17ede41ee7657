# cause: BFQ serves another cgroup with a hundred times the weight first, on a loop device.
# expect: io-weight
# packages: fio
groups=/sys/fs/cgroup/blkio/fathom-verdicts
prepare() {
    filled image 512m
    loop=$(losetup -f --show --direct-io=on image)
    echo "$loop" >loop
    echo bfq >"/sys/block/${loop#/dev/}/queue/scheduler"
    mkdir -p "$groups" "$groups-other"
    echo 10 >"$groups/blkio.bfq.weight"
    echo 1000 >"$groups-other/blkio.bfq.weight"
    starts sh -c "echo \$\$ >$groups-other/cgroup.procs; exec \"\$@\"" other fio --name=other --filename="$loop" \
        --rw=randread --bs=4k --direct=1 --ioengine=psync --numjobs=4 --time_based --runtime=600
}
program() {
    echo $$ >"$groups/cgroup.procs"
    exec fio --name=a --filename="$(cat loop)" --rw=randread --bs=4k --direct=1 --ioengine=psync --numjobs=4 \
        --time_based --runtime=5
}
clean() {
    ends
    sleep 0.5
    losetup -d "$(cat loop)"
    rmdir "$groups" "$groups-other"
}
