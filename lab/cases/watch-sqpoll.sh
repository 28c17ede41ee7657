# A ring's SQPOLL thread is reported as busy under load and nearly idle without.
# kernels: 6.12 7
# when: all
# Kernels before 6.9 do not report how long it worked; later ones only while the ring is not locked, so that it
# must not be at work all the time. This disk's I/Os are done where they are submitted.
node=$(null_blk fast irqmode=0 no_sched=1)
set -- --name=job --filename=$node --rw=randread --bs=256k --direct=1 --sqthread_poll=1 --sqthread_poll_idle=5000 \
    --time_based --runtime=3 --output-format=json

# at_work NAME ARGUMENT…: per mille of the thread's time between its first and its last sample.
at_work() {
    name=$1
    shift
    # On a busy host the ring may be locked at every sample.
    for try in 1 2 3; do
        fathom watch --sampling=default -i 100ms --record "$name$try" -- fathom run "$@" --no-record --sampling=off >out
        jq -s '[.[].machine.rings.rings[0]?.sq_poll | select(.total_us)] | [first, last]
            | if .[0] == .[1] then empty else (.[1].work_us - .[0].work_us) * 1000
            / (.[1].total_us - .[0].total_us) | floor end' "$name$try/samples.ndjson" >share
        [ -s share ] && break
    done
    mv "$name$try" "$name"
}
at_work loaded "$@" --iodepth=4
loaded=$(cat share)
at_work idle "$@" --rate_iops=2
idle=$(cat share)
# It was 20 to 90 on emulated machines, depending on the load of their host, and 0 to 10 without load.
check "it is at work under load ($loaded of 1000)" [ "$loaded" -ge 10 ]
check "and hardly without ($idle of 1000)" [ $((2 * idle)) -lt "$loaded" ]
keep loaded idle
