# A disk that moves as much as this machine's CPUs copy is limited by memory, and not where it reads less than that.
# kernels: 7
# machine: nvme=1 disk=64
# when: all
# limited_by OPTION…: what limits reads with these options.
limited_by() {
    fathom run --name=job --filename="$(disk 0)" --rw=read --bs=1m --direct=1 --ioengine=io_uring --iodepth=8 --time_based \
        --runtime=5 --no-record --eta=never "$@" >out 2>&1
    cat out
    sed -n '/Limited by/,/Ceilings/p' out | tr -d '\n' | tr -s ' ' >block
}
# A search measures the copy.
fathom limit --bs=1m --rw=read -t 10 "$(disk 0)" >out 2>&1
cat out
limited_by
says block "1. "
says block "that a copy by all CPUs moves"
limited_by --rate=100m
check "memory that is not full is not named" eval '! grep -q "a copy by all CPUs" block'
