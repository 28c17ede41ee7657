# cause: 4 KiB writes, each followed by fsync.
# expect: flush
# busy: flush, other-cpu
# packages: fio
prepare() { filled data 256m; }
program() {
    exec fio --name=a --filename=data --size=256m --time_based --runtime=4 --output=fio.log \
        --ioengine=psync --rw=randwrite --bs=4k --fsync=1
}
