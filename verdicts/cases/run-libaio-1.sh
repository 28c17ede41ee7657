# cause: Direct 4 KiB reads of a disk with libaio, one in flight.
# expect: queue-depth
# runs: fathom
prepare() { filled data 512m; }
program() { run --ioengine=libaio --iodepth=1 --direct=1; }
