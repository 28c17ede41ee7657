# Two disks below one switch that carries no more are limited by its link, and not where they read less than that.
# kernels: 7
# machine: nvme=2 disk=64 uplink=200
# when: all
# limited_by ARGUMENT…: what limits reads of both.
limited_by() {
    fathom run --name=job --filename="$(disk 0):$(disk 1)" --rw=read --bs=1m --direct=1 --ioengine=io_uring --iodepth=8 \
        --time_based --runtime=5 --no-record --eta=never "$@" >out 2>&1
    cat out
    sed -n '/Limited by/,/Ceilings/p' out | tr -d '\n' | tr -s ' ' >block
}
limited_by
says block "1. "
says block "(2 disks), 2.5 GT/s ×1 carried"
says block "2 disks share it."
limited_by --rate=100m
check "a link that is half used is not named" eval '! grep -q GT/s block'
