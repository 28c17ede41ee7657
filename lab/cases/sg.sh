# SCSI commands reach a SCSI disk, by its block device and its generic device, and no disk in use.
# modules: sd_mod sg
# kernels: 6.12
# when: all
scsi_disk scsi_generic
generic=/dev/$generic

# run PATH KEY…: a job of SCSI commands, without errors.
run() {
    path=$1
    shift
    fathom run --name=job --ioengine=sg --output-format=json --filename="$path" \
        --erase="$(confirmed "$path" --ioengine=sg)" "$@" >run.json
    is run.json '.jobs[0].error' 0
    blockdev --flushbufs "$disk"
}
# ones FROM BYTES: bytes that are not zero.
ones() { tail -c +$(($1 + 1)) "$disk" | head -c "$2" | tr -d '\0' | wc -c; }

tr '\0' '\245' </dev/zero | head -c 1048576 >wanted
head -c 1048576 /dev/zero >>wanted
for path in "$disk" "$generic"; do
    bs=512
    [ "$path" = "$disk" ] || bs=65536
    run "$path" --rw=write --bs=$bs --size=1m --buffer_pattern=0xa5 --writefua=1 --end_fsync=1
    is run.json '.jobs[0].write.io_bytes' 1048576
    check "blocks of $bs bytes through $path arrive, and nothing beyond" cmp -n 2097152 wanted "$disk"
    run "$path" --rw=randread --bs=$bs --size=1m --readfua=1
    is run.json '.jobs[0].read.io_bytes' 1048576
    run "$path" --rw=trim --bs=64k --size=1m
    check "trims are UNMAP" [ "$(ones 0 1048576)" = 0 ]
done

run "$disk" --rw=write --bs=4k --size=64k --buffer_pattern=0x01
for mode in verify_bytchk_00 verify_bytchk_01 verify_bytchk_11; do
    run "$disk" --rw=write --bs=2k --size=64k --buffer_pattern=0x01 --sg_write_mode=$mode
    is run.json '.jobs[0].write.total_ios' 32
done
check "VERIFY changes nothing" [ "$(ones 0 65536)" = 65536 ]
for mode in verify_bytchk_01 verify_bytchk_11; do
    expect 1 fathom run --name=job --ioengine=sg --filename="$generic" --rw=write --bs=1k \
        --erase="$(confirmed "$generic" --ioengine=sg)" --offset=65024 --size=1k --buffer_pattern=0x01 --sg_write_mode=$mode --output-format=json
    is out '.jobs[0].error' 5
    says err "sense key MISCOMPARE (Eh)"
done
run "$generic" --rw=write --bs=512 --size=4k --offset=4k --sg_write_mode=write_same_ndob
check "WRITE SAME without data writes zeroes" [ "$(ones 4096 4096)" = 0 ]
check "and nothing else" [ "$(ones 0 65536)" = 61440 ]
run "$disk" --rw=write --bs=1m --size=8m --offset=4m --buffer_pattern=0x01 --sg_write_mode=write_same
check "WRITE SAME repeats one block" [ "$(ones 4194304 8388608)" = 8388608 ]
check "and stops at the end of its blocks" [ "$(ones 12582912 4194304)" = 0 ]
fathom run --name=job --ioengine=sg --filename="$disk" --rw=read --bs=4k --size=64k --hipri=1 >out 2>err
says out "completions were not polled"

# Commands to a partition would address the whole disk; those to a disk in use are refused by both of its names.
dd if=/dev/zero of="$disk" bs=1M count=16 conv=fsync
printf ',8M\n' | sfdisk -q "$disk"
for try in $(seq 200); do [ -b "${disk}1" ] && break; usleep 20000; done
mkfs.ext4 -q -F -O ^has_journal -E lazy_itable_init=0 "${disk}1"
mount -t ext4 "${disk}1" /mnt
sync
before=$(md5sum <"$disk")
for path in "$disk" "$generic"; do
    expect 1 fathom run --name=job --ioengine=sg --filename="$path" --erase="$path" --rw=write --bs=4k --size=64k
    says err "${disk}1 is mounted at /mnt"
done
expect 1 fathom run --name=job --ioengine=sg --filename="${disk}1" --erase="${disk}1" --rw=write --bs=4k --size=64k
says err "needs a SCSI disk, whole"
check "the disk is unchanged" [ "$(md5sum <"$disk")" = "$before" ]
