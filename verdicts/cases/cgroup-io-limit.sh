# cause: dd reads with O_DIRECT in a cgroup that may read 10 MB per second from the disk.
# expect: io-limit
prepare() {
    filled data 256m
    device=$(lsblk -no MAJ:MIN "$(df --output=source "$DIR" | tail -1)" | tr -d ' ')
    mkdir -p /sys/fs/cgroup/blkio/fathom-verdicts
    echo "$device 10000000" >/sys/fs/cgroup/blkio/fathom-verdicts/blkio.throttle.read_bps_device
}
program() {
    echo $$ >/sys/fs/cgroup/blkio/fathom-verdicts/cgroup.procs
    for_s 6 dd if=data of=/dev/null bs=128k iflag=direct status=none
}
clean() { sleep 0.5; rmdir /sys/fs/cgroup/blkio/fathom-verdicts; }
