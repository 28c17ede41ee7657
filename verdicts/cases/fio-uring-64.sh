# cause: Direct 64 KiB reads of a disk with io_uring, 64 in flight: as fast as the disk.
# expect: device
# busy: device, other-cpu
# packages: fio
prepare() { filled data 1g; }
program() {
    exec fio --name=a --filename=data --size=1g --time_based --runtime=4 --output=fio.log \
        --ioengine=io_uring --iodepth=64 --direct=1 --rw=randread --bs=64k
}
