# cause: Eight processes write to one file of ext4, all of it allocated, and wait for its lock.
# expect: kernel-lock
# busy: kernel-lock, other-cpu
# vague: own-cpu
# packages: fio
prepare() { filled data 256m; }
program() {
    exec fio --name=a --filename=data --size=256m --time_based --runtime=4 --output=fio.log \
        --ioengine=psync --rw=randwrite --bs=4k --numjobs=8 --group_reporting
}
