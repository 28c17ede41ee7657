# cause: 4 KiB writes, each followed by fsync.
# expect: flush
# runs: fathom
prepare() { filled data 64m; }
program() { run --overwrite=data --rw=write --ioengine=psync --fsync=1 --size=64m; }
