# cause: libaio without direct I/O: submitting a read waits for the disk.
# expect: sync-submission
# busy: sync-submission, other-cpu
# packages: fio
prepare() { filled data 1g; }
program() {
    exec fio --name=a --filename=data --size=1g --time_based --runtime=4 --output=fio.log \
        --ioengine=libaio --iodepth=32 --rw=randread --bs=64k
}
