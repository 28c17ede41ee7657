# cause: Direct 64 KiB reads of a disk, 32 in flight: as fast as the disk.
# expect: device
# busy: device, other-cpu
# packages: fio
prepare() { filled data 1g; }
program() {
    exec fio --name=a --filename=data --size=1g --time_based --runtime=4 --output=fio.log \
        --ioengine=libaio --iodepth=32 --direct=1 --rw=randread --bs=64k
}
