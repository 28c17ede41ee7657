# cause: A read every 10 ms, with sleeps in between (thinktime).
# expect: timer
# packages: fio
prepare() { filled data 1g; }
program() {
    exec fio --name=a --filename=data --size=1g --time_based --runtime=4 --output=fio.log \
        --ioengine=psync --direct=1 --rw=randread --bs=4k --thinktime=10ms
}
