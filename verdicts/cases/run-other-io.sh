# cause: One read at a time while another program keeps 64 on the disk.
# expect: other-io
# vague: device
# packages: fio
# runs: fathom
prepare() {
    filled data 512m
    filled others 512m
    starts fio --name=other --filename=others --rw=randread --bs=64k --direct=1 --ioengine=libaio --iodepth=64 \
        --time_based --runtime=600
}
program() { run --ioengine=psync --direct=1; }
clean() { ends; }
