# cause: io_uring hands each read to a worker thread (force_async).
# expect: io-wq
# runs: fathom
prepare() { filled data 512m; }
program() { run --ioengine=io_uring --iodepth=32 --direct=1 --force_async=1; }
