# cause: 16 reads in flight on a loop device whose file is on the disk.
# expect: stacked-device, device
# runs: fathom
prepare() { looped 512m; }
program() { run --filename="$(cat loop)" --ioengine=io_uring --iodepth=16 --direct=1; }
clean() { unlooped; }
