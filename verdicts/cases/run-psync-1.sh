# cause: Direct 4 KiB reads of a disk, one at a time.
# expect: queue-depth
# runs: fathom
prepare() { filled data 512m; }
program() { run --ioengine=psync --direct=1; }
