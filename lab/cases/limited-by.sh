# Where the kernel holds I/Os back is named: in a layer of device mapper, at one of its disks, or for a cgroup's share (io.cost).
# kernels: 7
# modules: dm_mod
# when: all
node=$(disk 2) number=$(cat "/sys/block/${node#/dev/}/dev")
# limited_by FIRST TARGET ARGUMENT…: what limits four threads that read it.
limited_by() {
    first=$1 target=$2
    shift 2
    fathom watch -i 500ms --no-record -- sh -c "$first exec \"\$@\"" within fathom run --name=job --filename="$target" \
        --rw=randread --bs=4k --direct=1 --ioengine=psync --numjobs=4 --time_based --runtime=3 --no-record \
        --sampling=off --eta=never "$@" >out 2>&1
    sed -n '/Limited by/,$p' out | tr -d '\n' | tr -s ' ' >block
    cat block
}

modprobe dm_delay
echo "0 65536 delay $node 0 100" | dmsetup create labdelay
dmsetup mknodes
limited_by "" /dev/mapper/labdelay
says block "(labdelay) itself took"
dmsetup remove labdelay
echo "0 65536 linear $node 0" | dmsetup create labdelay
dmsetup mknodes
limited_by "" /dev/mapper/labdelay
check "a layer that takes no time is not named" eval '! grep -q "itself took" block'
dmsetup remove labdelay

# One of two disks gets all I/Os, or half of them.
one=$(null_blk one irqmode=2 completion_nsec=2000000) two=$(null_blk two irqmode=2 completion_nsec=2000000)
{
    echo "0 16384 linear $one 0"
    echo "16384 16384 linear $two 0"
} | dmsetup create labpair
dmsetup mknodes
limited_by "" /dev/mapper/labpair --size=8m
says block "${one#/dev/} was"
says block "it got 100% of the I/Os"
limited_by "" /dev/mapper/labpair --size=16m
check "disks with the same load are not named" eval '! grep -q "of the I/Os" block'
dmsetup remove labpair

if [ -e /sys/fs/cgroup/io.cost.model ]; then
    echo +io >/sys/fs/cgroup/cgroup.subtree_control
    mkdir /sys/fs/cgroup/labcost
    echo "$number ctrl=user model=linear rbps=100000000 rseqiops=50 rrandiops=50 wbps=100000000 wseqiops=50 wrandiops=50" \
        >/sys/fs/cgroup/io.cost.model
    echo "$number enable=1 ctrl=user rpct=0 rlat=1000000 wpct=0 wlat=1000000 min=100.00 max=100.00" \
        >/sys/fs/cgroup/io.cost.qos
    enter="echo \$\$ >/sys/fs/cgroup/labcost/cgroup.procs;"
    limited_by "$enter" "$node"
    says block "waited for its cgroup's share of ${node#/dev/} (io.cost)"
    echo "$number enable=0" >/sys/fs/cgroup/io.cost.qos
    limited_by "$enter" "$node"
    check "without io.cost it is not named" eval '! grep -q "io.cost" block'
    rmdir /sys/fs/cgroup/labcost
else
    echo "a kernel without io.cost"
fi
