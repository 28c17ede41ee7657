# cause: BFQ holds back the requests of a loop device, on which four jobs read one block at a time.
# expect: io-scheduler
# vague: device, stacked-device
# runs: fathom
prepare() {
    looped 512m
    queue scheduler bfq
}
program() { run --filename="$(cat loop)" --ioengine=psync --numjobs=4 --direct=1; }
clean() { unlooped; }
