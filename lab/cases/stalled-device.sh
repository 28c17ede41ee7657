# A stall of 8 s appears as latency; a device that never completes does not keep the run from its end.
# modules: dm_mod
# when: all
for number in 0 1 2; do
    echo "0 65536 linear $(disk $number) 0" | dmsetup create lab$number
done
dmsetup mknodes

# start NUMBER RUNTIME
start() {
    (
        status=0
        fathom run --name=job --filename=/dev/mapper/lab$1 --rw=randread --bs=4k --direct=1 --iodepth=4 --time_based \
            --runtime=$2 --output-format=json --record=record$1 >out$1 2>err$1 || status=$?
        echo "$status $(uptime_s)" >end$1
    ) &
}
# On a busy host a run takes seconds to begin: the two whose time ends within the stall begin together.
start 0 24
working record0
start 1 8
start 2 8
working record1
working record2
began=$(uptime_s)
for number in 2 1 0; do dmsetup suspend --noflush --nolockfs lab$number; done
sleep 8
dmsetup resume lab0
dmsetup resume lab1
# The third is not there again until its run has ended; how fast that is depends on the host of the guest.
for _ in $(seq 120); do [ -e end2 ] && break; sleep 1; done
check "a run ends although its device does not" [ -e end2 ]
read -r status ended <end2
check "with 1 ($status), $((ended - began)) s after its device stalled" [ $status = 1 ]
value record2/record.json .elapsed_ns
is record2/record.json '.elapsed_ns / 1e9 - 8 | . > 7' true
says err2 /dev/mapper/lab2
is record2/record.json '.jobs[0].error.errno' 110
check "what was read before is counted" [ "$(value out2 '.jobs[0].read.total_ios')" -gt 0 ]
dmsetup resume lab2
wait
for number in 0 1; do
    read -r status ended <end$number
    check "run $number is complete ($status)" [ $status = 0 ]
    stalled=$(value out$number '.jobs[0].read.clat_ns.max')
    check "the stall is in its latency ($stalled ns)" [ "$stalled" -ge 7500000000 ]
    is out$number '.jobs[0].error' 0
    is record$number/record.json '.jobs[0].lost_wakeups' null
done
keep record0 record1 record2
nothing_left
