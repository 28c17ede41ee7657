# cause: Direct reads of 1 MiB from a loop device whose requests have 16 KiB at most.
# expect: splits
# runs: fathom
prepare() {
    looped 512m
    queue max_sectors_kb 16
}
program() { run --filename="$(cat loop)" --ioengine=io_uring --iodepth=1 --bs=1m --direct=1; }
clean() { unlooped; }
