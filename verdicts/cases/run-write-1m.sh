# cause: Direct sequential 1 MiB writes, 16 in flight: as fast as the disk.
# expect: device
# busy: device, other-cpu
# runs: fathom
prepare() { filled data 512m; }
program() { run --overwrite=data --ioengine=io_uring --iodepth=16 --bs=1m --rw=write --direct=1; }
