# cause: Direct reads of a sparse file, which never reach the disk.
# expect: in-memory, own-cpu
# runs: fathom
prepare() { truncate -s 1g data; }
program() { run --ioengine=io_uring --iodepth=16 --direct=1; }
