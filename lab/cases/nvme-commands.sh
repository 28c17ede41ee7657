# NVMe commands other than reads and writes: deallocations with one range and several, Write Zeroes, Verify, FUA.
# kernels: 6.1 7
disk=$(disk 0)
ng=$(passthrough 0)
cmd="--filename=$ng --ioengine=io_uring_cmd --cmd_type=nvme --output-format=json"
run() {
    fathom run --name=job $cmd --erase="$ng@LAB0" "$@" >run.json
    is run.json '.jobs[0].error' 0
    blockdev --flushbufs "$disk"
}
ones() { head -c 1048576 "$disk" | tr -d '\0' | wc -c; }

run --rw=write --bs=64k --size=2m --buffer_pattern=0xa5
check "the disk holds data" [ "$(ones)" = 1048576 ]

before=$(disk_sum 0)
expect 1 fathom run --name=job $cmd --rw=trim --bs=4k --size=1m
says err --erase
check "nothing is deallocated without permission" [ "$(disk_sum 0)" = "$before" ]

run --rw=randtrim --bs=4k --size=512k --iodepth=8
is run.json '.jobs[0].trim.total_ios' 128
is run.json '.jobs[0].trim.io_bytes' 524288
check "one range each: half of the data is gone" [ "$(ones)" = 524288 ]
run --rw=trim --bs=4k --offset=512k --size=512k --num_range=8 --iodepth=4
is run.json '.jobs[0].trim.total_ios' 16
is run.json '.jobs[0].trim.io_bytes' 524288
check "eight ranges each: the other half, too" [ "$(ones)" = 0 ]
check "and nothing beyond" [ "$(tail -c +1048577 "$disk" | head -c 1048576 | tr -d '\0' | wc -c)" = 1048576 ]

run --rw=write --bs=4k --size=1m --buffer_pattern=0xa5 --writefua=1
check "writes with FUA arrive" [ "$(ones)" = 1048576 ]
run --rw=write --bs=4k --size=1m --write_mode=verify
check "Verify changes nothing" [ "$(ones)" = 1048576 ]
run --rw=randwrite --bs=4k --size=1m --write_mode=verify/50:zeroes/50 --iodepth=8
is run.json '.jobs[0].write.total_ios' 256
left=$(ones)
check "some blocks are zeroes" [ "$left" -lt 786432 ]
check "others are not" [ "$left" -gt 262144 ]
run --rw=write --bs=4k --size=1m --write_mode=zeroes --deac=1
check "Write Zeroes clears all" [ "$(ones)" = 0 ]
run --rw=read --bs=4k --size=1m --readfua=1
is run.json '.jobs[0].read.total_ios' 256

run --rw=randtrimwrite --bs=4k --size=1m --buffer_pattern=0x5a --iodepth=8
is run.json '.jobs[0].trim.total_ios' 256
is run.json '.jobs[0].write.total_ios' 256
check "each write follows its trim" [ "$(ones)" = 1048576 ]
