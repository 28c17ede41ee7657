# cause: Reads of a file that is in memory: it copies bytes.
# expect: own-cpu, in-memory
# busy: own-cpu, in-memory, other-cpu
# packages: fio
prepare() { filled data 256m; }
program() {
    exec fio --name=a --filename=data --size=256m --time_based --runtime=4 --output=fio.log \
        --ioengine=psync --rw=randread --bs=4k --pre_read=1
}
