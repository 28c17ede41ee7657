# The CPU to which a disk's interrupts go is named where decryption in them takes all of its time, and not where others decrypt.
# machine: nvme=1 lba=512 disk=64 disks=virtio
# kernels: 7
# modules: virtio_blk dm_crypt
# when: all
disk=$(disk 0)
# Completions stay on that CPU, whoever submitted.
echo 0 >"/sys/block/${disk#/dev/}/queue/rq_affinity"
# limited_by OPTION…: what limits reads that are decrypted with these options of dm-crypt.
limited_by() {
    echo "0 131072 crypt aes-cbc-plain64 00112233445566778899aabbccddeeff 0 $disk 0 $# $*" | dmsetup create labcrypt
    dmsetup mknodes
    fathom run --name=job --filename=/dev/mapper/labcrypt --rw=randread --bs=64k --direct=1 --ioengine=psync --numjobs=8 \
        --group_reporting --time_based --runtime=5 --no-record --eta=never >out 2>&1
    cat out
    dmsetup remove labcrypt
    sed -n '/Limited by/,/Ceilings/p' out | tr -d '\n' | tr -s ' ' >block
}
limited_by no_read_workqueue
says block "1. "
says block "handled 100% of the"
says block "interrupts/s of ${disk#/dev/}"
limited_by
says block "(labcrypt) itself took"
check "a CPU that leaves it to kernel threads is not named" eval '! grep -q interrupts/s block'
