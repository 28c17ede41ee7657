# cause: 4 KiB writes, each on stable storage (O_DSYNC).
# expect: flush
# runs: fathom
prepare() { filled data 64m; }
program() { run --overwrite=data --rw=write --ioengine=psync --sync=dsync --size=64m; }
