# cause: Random reads of a cold file through a memory mapping: page faults, one at a time.
# expect: page-fault
# busy: page-fault, own-cpu, other-cpu
# packages: fio
prepare() { filled data 1g; }
program() {
    exec fio --name=a --filename=data --size=1g --time_based --runtime=4 --output=fio.log \
        --ioengine=mmap --rw=randread --bs=4k
}
