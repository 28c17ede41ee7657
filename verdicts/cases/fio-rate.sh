# cause: Reads at a rate of 200/s, which the disk reaches easily.
# expect: timer
# packages: fio
prepare() { filled data 1g; }
program() {
    exec fio --name=a --filename=data --size=1g --time_based --runtime=4 --output=fio.log \
        --ioengine=psync --direct=1 --rw=randread --bs=4k --rate_iops=200
}
