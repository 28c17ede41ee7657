# /dev/ng* reads and writes whole disks, with blocks of many sizes, up to the last logical block.
# kernels: 6.1 7
tr '\0' '\245' </dev/zero | head -c 1048576 >wanted
head -c 1048576 /dev/zero >>wanted
for number in 0 3; do
    disk=$(disk $number)
    ng=$(passthrough $number)
    bytes=$(blockdev --getsize64 "$disk")
    lba=$(blockdev --getss "$disk")

    for bs in "$lba" 16384 131072; do
        fathom run --name=write --filename="$ng" --erase="$ng@LAB$number" --ioengine=io_uring_cmd --cmd_type=nvme --rw=write \
            --bs="$bs" --size=1m --buffer_pattern=0xa5 --output-format=json >write.json
        is write.json '.jobs[0].write.io_bytes' 1048576
        is write.json '.jobs[0].error' 0
        blockdev --flushbufs "$disk"
        check "blocks of $bs bytes arrive where they should, and nothing beyond" cmp -n 2097152 wanted "$disk"
        blkdiscard -f "$disk"
    done

    # The last logical block, and not one more.
    fathom run --name=last --filename="$ng" --erase="$ng@LAB$number" --ioengine=io_uring_cmd --cmd_type=nvme --rw=write \
        --bs="$lba" --offset=$((bytes - lba)) --size="$lba" --buffer_pattern=0x5a --output-format=json >last.json
    is last.json '.jobs[0].write.total_ios' 1
    is last.json '.jobs[0].error' 0
    blockdev --flushbufs "$disk"
    check "the last block was written" [ "$(tail -c "$lba" "$disk" | tr -d 'Z' | wc -c)" = 0 ]
    check "the one before was not" [ "$(tail -c $((2 * lba)) "$disk" | head -c "$lba" | tr -d '\0' | wc -c)" = 0 ]
    fathom run --name=read --filename="$ng" --ioengine=io_uring_cmd --cmd_type=nvme --rw=read --bs="$lba" \
        --offset=$((bytes - 16 * lba)) --output-format=json --record=read-$number >read.json
    is read.json '.jobs[0].read.total_ios' 16
    is read.json '.jobs[0].error' 0
    is read-$number/record.json '.jobs[0].granted | .fixed_buffers and .registered_files' true
    keep read-$number

    # Without registered buffers it is the same.
    fathom run --name=read --filename="$ng" --ioengine=io_uring_cmd --cmd_type=nvme --rw=randread --bs=16k \
        --fixedbufs=0 --registerfiles=0 --iodepth=8 --size=1m --output-format=json >read.json
    is read.json '.jobs[0].read.total_ios' 64
    is read.json '.jobs[0].error' 0
done
before=$(disk_sum 3)
expect 1 fathom run --name=small --filename="$ng" --erase="$ng@LAB$number" --ioengine=io_uring_cmd --cmd_type=nvme --rw=write \
    --bs=512 --number_ios=1
says err 4096
check "nothing was written with blocks smaller than the disk's" [ "$(disk_sum 3)" = "$before" ]
