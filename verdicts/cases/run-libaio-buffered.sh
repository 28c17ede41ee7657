# cause: Buffered reads with libaio, which are not asynchronous.
# expect: sync-submission
# runs: fathom
prepare() { filled data 1g; }
program() { run --ioengine=libaio --iodepth=16 --direct=0; }
