# cause: Eight processes write to one file in memory and wait for its lock.
# expect: kernel-lock
# busy: kernel-lock, other-cpu
# vague: own-cpu
# packages: fio
program() {
    exec fio --name=a --filename=/dev/shm/verdicts-data --size=256m --time_based --runtime=4 --output=fio.log \
        --ioengine=psync --rw=randwrite --bs=64k --numjobs=8 --group_reporting
}
clean() { rm -f /dev/shm/verdicts-data; }
