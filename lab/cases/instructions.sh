# User and kernel instructions per I/O do not exceed the recorded baseline.
# kernels: 6.12 7
# limit: 600
# when: all
# machine: nvme=1 disk=64 roots=1 clock=instructions
# modules: ext4
mkfs.ext4 -q -F "$(disk 0)"
mount -t ext4 "$(disk 0)" /mnt
truncate -s 4G /mnt/sparse
ulimit -l unlimited
# Instructions of 1 s of this machine's time are 10^9. docs/performance.md has the figures; a tenth
# of head-room is for other builds of these kernels. Samplers read the names of the kernel's functions once, which
# takes much of a second here.
at_most() {
    limit=$1
    shift
    fathom run --name=job --rw=randread --norandommap --bs=4k --iodepth=128 --iodepth_batch_submit=32 \
        --iodepth_batch_complete_min=32 --time_based --runtime=1 --no-record --sampling=off --output-format=json "$@" >out.json
    cost=$(value out.json '1e9 / .jobs[0].read.iops | floor')
    check "an I/O takes $cost instructions, at most $limit" [ "$cost" -le "$limit" ]
}
at_most 3400 --filename=/mnt/sparse --direct=1
at_most 430 --ioengine=nop --size=4g
umount /mnt
