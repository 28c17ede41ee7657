# cause: Direct 4 KiB reads of a disk, one at a time.
# expect: queue-depth
# packages: fio
prepare() { filled data 256m; }
program() {
    exec fio --name=a --filename=data --rw=randread --bs=4k --direct=1 --ioengine=psync --time_based --runtime=4 \
        --output=fio.log
}
