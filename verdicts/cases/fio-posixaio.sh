# cause: Direct 64 KiB reads of a disk with POSIX AIO, whose threads for one file read one after the other.
# expect: queue-depth
# busy: queue-depth, other-cpu
# vague: lock
# packages: fio
prepare() { filled data 1g; }
program() {
    exec fio --name=a --filename=data --size=1g --time_based --runtime=4 --output=fio.log \
        --ioengine=posixaio --iodepth=16 --direct=1 --rw=randread --bs=64k
}
