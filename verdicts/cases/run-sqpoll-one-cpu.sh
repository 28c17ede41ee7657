# cause: The SQPOLL thread has to share one CPU with the job that submits to it, one read at a time.
# expect: sqpoll, own-cpu
# vague: in-memory
# runs: fathom
prepare() { truncate -s 1g data; }
program() { run --ioengine=io_uring --iodepth=1 --direct=1 --sqthread_poll=1 --sqthread_poll_cpu=0 --cpus_allowed=0; }
