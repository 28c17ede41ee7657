# null_blk works in bio and multi-queue mode, with one queue and several, and its counters match fathom's.
# kernels: 6.12 6.1
# Kernels since 5.0 have no request mode (queue_mode 1), those since 6.9 no bio mode (0).
# read_write MODE QUEUES: makes a device, writes and reads it whole, and compares the kernel's counts.
read_write() {
    node=$(null_blk "$1$2" queue_mode="$1" submit_queues="$2")
    fathom run --name=write --filename="$node" --erase="$node" --rw=write --bs=64k --size=16m --direct=1 \
        --iodepth=8 --output-format=json >write.json
    is write.json '.jobs[0].write.total_ios' 256
    is write.json '.jobs[0].error' 0
    read -r reads _ before _ <"/sys/block/${node#/dev/}/stat"
    fathom run --name=read --filename="$node" --rw=read --bs=64k --size=16m --direct=1 --iodepth=8 \
        --output-format=json >read.json
    is read.json '.jobs[0].read.io_bytes' 16777216
    read -r reads _ after _ <"/sys/block/${node#/dev/}/stat"
    # In bio mode the driver keeps no counts.
    [ "$1" = 2 ] || return 0
    check "mode $1: the kernel counts what fathom read" [ $((after - before)) -ge 32768 ]
    check "mode $1: and little beside it" [ $((after - before)) -le 33792 ]
}

# gone MODE WORDS: the kernel has no such mode, and reports it.
gone() {
    device=/sys/kernel/config/nullb/lab$1
    mkdir "$device"
    echo "$1" >"$device/queue_mode"
    status=0
    echo 1 2>err >"$device/power" || status=$?
    dmesg >messages
    says messages "$2"
    rmdir "$device"
}

read_write 2 1
read_write 2 2
gone 1 "legacy IO path is no longer available"
check "request mode is refused" [ $status != 0 ]
case $(uname -r) in
6.1.*) read_write 0 1 ;;
# It is multi-queue instead.
*) gone 0 "BIO-based IO path is no longer available" ;;
esac

# A command from a report on io_uring's submission thread, for a shorter time.
node=$(null_blk last queue_mode=2 submit_queues=1)
fathom run --name=sqpoll --ioengine=io_uring --direct=1 --iodepth=128 --runtime=3 --bs=4k --invalidate=1 --time_based \
    --ramp_time=1 --group_reporting=1 --filename="$node" --rw=randread --numjobs=1 --sqthread_poll \
    --output-format=json >sqpoll.json
is sqpoll.json '.jobs[0].error' 0
check "it reads" [ "$(jq '.jobs[0].read.total_ios' sqpoll.json)" -ge 1000 ]
