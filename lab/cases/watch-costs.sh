# Sampling a run adds few instructions per I/O.
# kernels: 7
# machine: nvme=1 disk=64 roots=1 clock=instructions
# modules: zram
# when: all
modprobe zram num_devices=1
echo 256M >/sys/block/zram0/disksize
ulimit -l unlimited
# Instructions of 1 s of this machine's time are 10^9, a quarter of a real CPU's: what comes with
# time and not with I/Os costs four times as much here as there, and the only CPU is the load's. When
# each I/O was counted, it was 150 and 198 in a hundred; it is 108 and 114. Ten seconds, as the names
# of the kernel's functions are read once, which takes much of a second here.
# cost LEVEL FOLDER: instructions of an I/O.
cost() {
    fathom run --name=job --filename=/dev/zram0 --rw=randread --norandommap --bs=4k --direct=1 --iodepth=32 \
        --iodepth_batch_submit=4 --iodepth_batch_complete_min=4 --time_based --runtime=10 \
        --sampling="$1" --record="$2" --output-format=json >out.json
    value out.json '1e9 / .jobs[0].read.iops | floor'
}
# The first run after booting takes more.
cost off first
off=$(cost off off)
for level in default:112 full:120; do
    most=${level#*:} level=${level%:*}
    with=$(cost $level $level)
    keep $level
    check "with $level an I/O takes $with instructions, without $off" [ $((with * 100)) -le $((off * most)) ]
done
