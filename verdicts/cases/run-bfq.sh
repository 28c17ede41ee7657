# cause: BFQ passes one of 16 reads at a time on to a loop device (strict_guarantees), which could take all of them.
# expect: io-scheduler
# vague: device, stacked-device
# runs: fathom
prepare() {
    looped 512m
    queue scheduler bfq
    echo 1 >"/sys/block/$(basename "$(cat loop)")/queue/iosched/strict_guarantees"
}
program() { run --filename="$(cat loop)" --ioengine=io_uring --iodepth=16 --direct=1 --runtime=8 --sampling=full; }
clean() { unlooped; }
