# SCSI commands from rings reach a SCSI disk, and no disk in use; a kernel without them says so.
# modules: sd_mod
# kernels: 6.1 7
modprobe scsi_debug dev_size_mb=16 lbpu=1 delay=0
for try in $(seq 200); do
    model=$(grep -l scsi_debug /sys/block/sd*/device/model 2>/dev/null || true)
    [ -n "$model" ] && [ -d "${model%model}bsg" ] && break
    usleep 20000
done
disk=$(echo "$model" | cut -d/ -f4)
address=$(ls "/sys/block/$disk/device/bsg")
ring=/dev/bsg/$address
disk=/dev/$disk
for try in $(seq 200); do [ -b "$disk" ] && [ -c "$ring" ] && break; usleep 20000; done
name=$(echo "$ring" | sed 's/:/\\:/g')
set -- fathom run --name=job --ioengine=io_uring_cmd --cmd_type=bsg --output-format=json --filename="$name"

if [ "$(uname -r | cut -d. -f1)" -lt 7 ]; then
    expect 1 "$@" --rw=read --bs=4k --size=64k
    says err "takes no SCSI commands from rings; use ioengine=sg"
else
    # run KEY…: a job without errors.
    run() {
        fathom run --name=job --ioengine=io_uring_cmd --cmd_type=bsg --output-format=json --filename="$name" \
            --erase="$ring" --iodepth=32 "$@" >run.json
        is run.json '.jobs[0].error' 0
        blockdev --flushbufs "$disk"
    }
    # ones FROM BYTES: bytes that are not zero.
    ones() { tail -c +$(($1 + 1)) "$disk" | head -c "$2" | tr -d '\0' | wc -c; }

    run --rw=randwrite --bs=4k --size=1m --buffer_pattern=0xa5 --writefua=1 --fsync=16 --end_fsync=1
    is run.json '.jobs[0].write.total_ios' 256
    check "every block arrives" [ "$(ones 0 1048576)" = 1048576 ]
    check "and nothing beyond" [ "$(ones 1048576 15728640)" = 0 ]
    run --rw=randread --bs=4k --size=1m --readfua=1
    is run.json '.jobs[0].read.io_bytes' 1048576
    run --rw=write --bs=64k --size=1m --write_mode=verify
    check "VERIFY changes nothing" [ "$(ones 0 1048576)" = 1048576 ]
    run --rw=trim --bs=64k --size=512k
    check "trims are UNMAP" [ "$(ones 0 524288)" = 0 ]
    check "of these blocks only" [ "$(ones 524288 524288)" = 524288 ]
    run --rw=trimwrite --bs=4k --size=256k
    is run.json '.jobs[0] | .trim.total_ios == 64 and .write.total_ios == 64' true

    # scsi_debug returns a medium error for blocks 0x1234 and following.
    echo 2 >/sys/bus/pseudo/drivers/scsi_debug/opts
    expect 1 "$@" --rw=read --bs=4k --offset=2384896 --size=64k
    is out '.jobs[0].error' 5
    says err "sense key MEDIUM ERROR (3h)"
    echo 0 >/sys/bus/pseudo/drivers/scsi_debug/opts
fi

mkfs.ext4 -q -F -O ^has_journal -E lazy_itable_init=0 "$disk"
mount -t ext4 "$disk" /mnt
sync
before=$(md5sum <"$disk")
expect 1 "$@" --erase="$ring" --rw=write --bs=4k --size=64k
says err "$disk is mounted at /mnt"
check "the disk is unchanged" [ "$(md5sum <"$disk")" = "$before" ]
