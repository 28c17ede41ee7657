# Writes keep to the write pointers of zones: on null_blk and on QEMU's zoned NVMe, no device rejects one, with several jobs,
# any queue depth, limits on open zones, capacities, conventional zones, and zones that are read-only or offline.
# machine: nvme=2 lba=4096,4096 disk=64,64 disks=zoned
# kernels: 6.12 6.1
# modules: null_blk
# boot: own
# limit: 600
# run NAME NODE KEYS…: fathom writes to the zones of NODE; no job has an error.
run() {
    name=$1 node=$2
    shift 2
    dmesg -c >/dev/null
    fathom run --output-format=json --filename="$node" --erase="$node@$identity" --direct=1 --zonemode=zbd --name="$name" "$@" \
        >"$name.json" || { cat "$name.json"; dmesg; return 1; }
    is "$name.json" '[.jobs[] | .error, .total_err // 0] | add' 0
    dmesg >messages
    check "$name: the device rejects nothing" [ "$(grep -c 'I/O error\|error, dev' messages)" = 0 ]
}

# written NODE: the bytes below all write pointers, as the kernel reports them; that of a full zone is at its end.
written() {
    sum=0
    for zone in $(blkzone report "$1" | grep SEQ_WRITE | sed 's/.*cap 0x\([0-9a-f]*\).*wptr 0x\([0-9a-f]*\).*/\1:\2/'); do
        capacity=$((0x${zone%:*})) pointer=$((0x${zone#*:}))
        sum=$((sum + (pointer < capacity ? pointer : capacity)))
    done
    echo $((sum * 512))
}

# What null_blk returns above a write pointer is not zeroes, so that fathom asks for more than the name.
identity=33554432
zoned() {
    name=$1
    shift
    null_blk "$name" size=32 zoned=1 zone_size=1 "$@"
}

total() {
    value "$1" '[.jobs[].write.io_bytes] | add'
}

node=$(zoned plain)
# What the proof relies on: a write elsewhere is an error.
expect 1 fathom run --name=elsewhere --filename="$node" --erase="$node@$identity" --direct=1 --rw=write --offset=512k --bs=4k \
    --number_ios=1
says err "failed: Input/output error"
check "nothing is written yet" [ "$(written "$node")" = 0 ]

for engine in psync libaio io_uring; do
    for depth in 1 16; do
        blkzone reset "$node"
        # Three jobs write less than there is, so that nothing is reset and all is below the pointers.
        run "$engine$depth" "$node" --ioengine=$engine --iodepth=$depth --rw=randwrite --bs=16k --numjobs=3 --io_size=4m
        check "$engine, queue depth $depth: all below the pointers" [ "$(written "$node")" = "$(total "$engine$depth.json")" ]
        run "again$engine$depth" "$node" --ioengine=$engine --iodepth=$depth --rw=write --bs=64k --numjobs=2 --size=8m \
            --offset_increment=8m --loops=3
        run "mixed$engine$depth" "$node" --ioengine=$engine --iodepth=$depth --rw=randrw --bsrange=4k-64k --numjobs=4 \
            --io_size=8m --max_open_zones=5 --job_max_open_zones=2
    done
done
run trims "$node" --ioengine=io_uring --iodepth=4 --rw=randtrim --bs=1m --number_ios=20
blkzone reset "$node"
run verified "$node" --ioengine=libaio --iodepth=8 --rw=randwrite --bs=4k --size=8m --verify=crc32c
is verified.json '.jobs[0].error' 0
run early "$node" --ioengine=psync --rw=randwrite --bs=64k --size=8z --io_size=32m --zone_reset_threshold=0.5 \
    --zone_reset_frequency=0.1

# Conventional zones, a capacity below the size of a zone, and limits of the device.
node=$(zoned limited zone_size=2 zone_capacity=1 zone_nr_conv=4 zone_max_open=3 zone_max_active=4)
run conventional "$node" --ioengine=libaio --iodepth=8 --rw=randwrite --bs=16k --numjobs=3 --io_size=16m
run conventionalseq "$node" --ioengine=io_uring --iodepth=8 --rw=write --bs=16k
check "sequential zones are written, too" [ "$(written "$node")" -gt 0 ]

# Zones that the device no longer writes.
node=$(zoned worn)
folder=/sys/kernel/config/nullb/labworn
if [ -e "$folder/zone_readonly" ]; then
    run before "$node" --ioengine=psync --rw=write --bs=64k
    echo $((1 << 11)) >"$folder/zone_readonly"
    echo $((5 << 11)) >"$folder/zone_offline"
    run worn "$node" --ioengine=libaio --iodepth=8 --rw=randrw --bs=16k --numjobs=2 --io_size=16m
    run wornseq "$node" --ioengine=psync --rw=write --bs=64k
fi

# QEMU's, of 4 MiB with 3 MiB each, of which 4 may be open and 6 active.
node=$(disk 0)
identity=LAB0
is_zoned=$(cat "/sys/block/${node#/dev/}/queue/zoned")
check "the namespace is zoned" [ "$is_zoned" = host-managed ]
for engine in libaio io_uring; do
    for depth in 1 8; do
        blkzone reset "$node"
        run "zns$engine$depth" "$node" --ioengine=$engine --iodepth=$depth --rw=randwrite --bs=16k --numjobs=3 --io_size=4m
        # With few open zones, some fill up and are reset.
        resets=$(value "zns$engine$depth.json" '[.fathom.jobs[].zone_resets] | add')
        all=$(($(written "$node") + resets * (3 << 20)))
        check "$engine, queue depth $depth: all below the pointers" [ "$all" = "$(total "zns$engine$depth.json")" ]
        run "znsmixed$engine$depth" "$node" --ioengine=$engine --iodepth=$depth --rw=randrw --bs=48k --numjobs=2 --io_size=24m
        run "znsseq$engine$depth" "$node" --ioengine=$engine --iodepth=$depth --rw=write --bs=128k
    done
done
# A block that does not divide the capacity: zones are finished.
run znsrest "$node" --ioengine=libaio --iodepth=4 --rw=randwrite --bs=80k --io_size=64m

# The same by passthrough commands: writes one at a time in each zone, appends any number.
block=$(disk 0)
ng=$(passthrough 0)
for mode in write zone_append; do
    for depth in 1 8; do
        blkzone reset "$block"
        run "ng$mode$depth" "$ng" --ioengine=io_uring_cmd --write_mode=$mode --iodepth=$depth --rw=randwrite --bs=16k --numjobs=3 \
            --io_size=4m
        resets=$(value "ng$mode$depth.json" '[.fathom.jobs[].zone_resets] | add')
        all=$(($(written "$block") + resets * (3 << 20)))
        check "$mode, queue depth $depth: all below the pointers" [ "$all" = "$(total "ng$mode$depth.json")" ]
        run "ngmixed$mode$depth" "$ng" --ioengine=io_uring_cmd --write_mode=$mode --iodepth=$depth --rw=randrw --bs=48k --numjobs=2 \
            --io_size=24m
    done
done
run ngrest "$ng" --ioengine=io_uring_cmd --iodepth=4 --rw=randwrite --bs=80k --io_size=64m
run ngtrims "$ng" --ioengine=io_uring_cmd --rw=randtrim --bs=4m --number_ios=4
for mode in write zone_append; do
    run "ngverified$mode" "$ng" --ioengine=io_uring_cmd --write_mode=$mode --iodepth=8 --rw=randwrite --bs=4k --size=8m --verify=crc32c
done
expect 1 fathom run --name=append --filename="$ng" --erase="$ng@$identity" --ioengine=io_uring_cmd --rw=write --write_mode=zone_append
says err "set zonemode=zbd"
