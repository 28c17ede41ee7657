# cause: Direct 64 KiB reads of a disk, 64 in flight: as fast as the disk.
# expect: device
# busy: device, other-cpu
# runs: fathom
prepare() { filled data 1g; }
program() { run --ioengine=io_uring --iodepth=64 --bs=64k --direct=1; }
