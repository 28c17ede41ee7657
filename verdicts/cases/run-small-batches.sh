# cause: 64 reads in flight, which io_uring submits and completes one by one, each with a system call of its own.
# expect: small-batches
# vague: own-cpu, device
# runs: fathom
prepare() { filled data 512m; }
program() { run --ioengine=io_uring --iodepth=64 --iodepth_batch=1 --iodepth_batch_complete=1 --direct=1 --bs=512; }
