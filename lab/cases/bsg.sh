# SCSI commands on a ring reach a disk by its bsg device, and no disk in use; kernels without them say so.
# modules: sd_mod
# kernels: 7 6.1
# when: all
scsi_disk bsg
bsg=/dev/bsg/$generic
# As in fio, colons of a file name are escaped.
name=$(echo "$bsg" | sed 's/:/\\:/g')

# run EXIT KEY…: a job of SCSI commands on a ring.
run() {
    code=$1
    shift
    erase=$(confirmed "$bsg" --ioengine=io_uring_cmd --cmd_type=bsg)
    expect "$code" fathom run --name=job --ioengine=io_uring_cmd --cmd_type=bsg --iodepth=8 --bs=4k --size=1m \
        --filename="$name" --erase="$erase" --output-format=json "$@"
    blockdev --flushbufs "$disk"
}
# ones FROM BYTES: bytes that are not zero.
ones() { tail -c +$(($1 + 1)) "$disk" | head -c "$2" | tr -d '\0' | wc -c; }
# succeeds KEY…
succeeds() { run 0 "$@"; is out '.jobs[0].error' 0; }

if uname -r | grep -q '^6'; then
    run 1 --rw=read
    is out '.jobs[0].error' 95
    says err "takes no SCSI commands on a ring"
    exit 0
fi
tr '\0' '\245' </dev/zero | head -c 1048576 >wanted
head -c 1048576 /dev/zero >>wanted
succeeds --rw=randwrite --buffer_pattern=0xa5
is out '.jobs[0].write.total_ios' 256
check "blocks arrive, and nothing beyond" cmp -n 2097152 wanted "$disk"
succeeds --rw=randread --readfua=1
is out '.jobs[0].read.total_ios' 256
is out '.jobs[0].read.io_bytes' 1048576
succeeds --rw=trimwrite --buffer_pattern=0x01
is out '.jobs[0].trim.total_ios' 256
is out '.jobs[0].write.total_ios' 256
tr '\0' '\1' </dev/zero | head -c 1048576 >trimmed
check "trimwrite leaves what it wrote" cmp -n 1048576 trimmed "$disk"
succeeds --rw=trim
check "trims are UNMAP" [ "$(ones 0 1048576)" = 0 ]
succeeds --rw=write --writefua=1 --fsync=1 --fixedbufs=0 --registerfiles=0 --buffer_pattern=0xa5
is out '.jobs[0].sync.total_ios' 256
check "blocks arrive from buffers that are not registered" cmp -n 2097152 wanted "$disk"
succeeds --rw=write --write_mode=verify --buffer_pattern=0x01
check "VERIFY changes nothing" cmp -n 2097152 wanted "$disk"

# A medium error on block 0x1234, and those after it.
echo 2 >/sys/bus/pseudo/drivers/scsi_debug/opts
run 1 --rw=read --offset=2m
is out '.jobs[0].error' 5
says err "sense key MEDIUM ERROR (3h)"
echo 0 >/sys/bus/pseudo/drivers/scsi_debug/opts

dd if=/dev/zero of="$disk" bs=1M count=16 conv=fsync
mkfs.ext4 -q -F -O ^has_journal -E lazy_itable_init=0 "$disk"
expect 1 fathom run --name=job --ioengine=io_uring_cmd --cmd_type=bsg --filename="$name" --rw=write --bs=4k --size=64k
says err "--erase"
mount -t ext4 "$disk" /mnt
sync
before=$(md5sum <"$disk")
run 1 --rw=write
says err "$disk is mounted at /mnt"
check "the disk is unchanged" [ "$(md5sum <"$disk")" = "$before" ]
