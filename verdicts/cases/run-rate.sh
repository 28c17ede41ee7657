# cause: Reads at a rate of 200/s, which the disk reaches easily.
# expect: timer
# runs: fathom
prepare() { filled data 512m; }
program() { run --ioengine=psync --direct=1 --rate_iops=200; }
