# cause: Direct 64 KiB reads of a disk with lseek and read, one at a time.
# expect: queue-depth
# busy: queue-depth, other-cpu
# packages: fio
prepare() { filled data 1g; }
program() {
    exec fio --name=a --filename=data --size=1g --time_based --runtime=4 --output=fio.log \
        --ioengine=sync --direct=1 --rw=randread --bs=64k
}
