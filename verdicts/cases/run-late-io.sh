# cause: Another program begins to use the disk in the middle of the run.
# expect: drop, other-io
# vague: device
# packages: fio
# runs: fathom
prepare() {
    filled data 512m
    filled others 512m
    starts sh -c 'sleep 6; exec fio --name=other --filename=others --rw=randread --bs=256k --direct=1 --ioengine=libaio \
        --iodepth=64 --time_based --runtime=600'
}
program() { run --ioengine=psync --direct=1 --runtime=11; }
clean() { ends; }
