# cause: A loop device whose queue has four requests, 32 reads in flight.
# expect: queue-requests
# runs: fathom
prepare() {
    looped 512m
    queue scheduler mq-deadline
    queue nr_requests 4
}
program() { run --filename="$(cat loop)" --ioengine=io_uring --iodepth=32 --direct=1; }
clean() { unlooped; }
