# Writes acknowledged by a flush survive a power cut on disks that lose all others.
# boot: own
disk=$(disk 0) unflushed=$(disk 1) grown=$(disk 2) journaled=$(disk 3)

# flushed FOLDER: MiB of a run that are surely flushed: one thread writes, and flushes after each.
flushed() {
    writes=$(tail -n 1 "$1/samples.ndjson" | jq '.jobs[0].dirs.write.ios')
    echo $(((writes - 1) / 16))
}
# filled FILE MIB BYTE: so much of it has that value.
filled() { [ "$(head -c "$(($2 << 20))" "$1" | tr -d "$3" | wc -c)" = 0 ]; }

if [ "$LAB_STAGE" = 0 ]; then
    fathom run --name=first --filename="$disk" --erase="$disk" --rw=write --bs=64k --size=8m --direct=1 \
        --iodepth=8 --buffer_pattern=0x11 --end_fsync=1
    mkfs.ext4 -q "$grown"
    mount -t ext4 "$grown" /mnt
    fathom run --name=unflushed --filename="$unflushed" --erase="$unflushed" --rw=write --bs=64k --size=8m \
        --direct=1 --buffer_pattern=0x33
    # The power goes in the middle of these three.
    fathom run --name=journaled --filename="$journaled" --erase="$journaled" --rw=randwrite --bs=4k --size=4m --direct=1 \
        --iodepth=8 --fsync=16 --verify=crc32c --time_based --runtime=100 --rate_iops=200 --journal=/mnt/j \
        >/dev/null 2>&1 &
    set -- --rw=write --bs=64k --ioengine=psync --rate_iops=100
    fathom run --name=disk "$@" --record=disk --filename="$disk" --erase="$disk@LAB0" --offset=8m --direct=1 \
        --fsync=16 --buffer_pattern=0x22 >/dev/null 2>&1 &
    fathom run --name=file "$@" --record=file --filename=/mnt/file --size=200m --fallocate=none \
        --fdatasync=16 --buffer_pattern=0x44 >/dev/null 2>&1 &
    sleep 5
    remember on_disk=$(flushed disk)
    remember in_file=$(flushed file)
    remember then="$journaled"
    kill -0 $! # It is not over yet.
    host powercut
fi
check "this is after the cut" [ "$LAB_STAGE" = 1 ]
. /run/known
check "much was flushed ($on_disk, $in_file)" [ "$on_disk" -gt 5 -a "$in_file" -gt 5 ]
check "what was flushed at the end is there" filled "$disk" 8 '\21'
tail -c +8388609 "$disk" | head -c 50331648 >then
check "what was flushed in mid-run is there" filled then "$on_disk" '"'
check "a disk that was not flushed has lost what was written" filled "$unflushed" 8 '\0'
mount -t ext4 "$grown" /mnt
expect 0 fathom verify /mnt/j --target="$then=$journaled" --json
is out ".jobs[0].blocks.as_acknowledged > 100" true
check "a file that was flushed in mid-run is there" filled /mnt/file "$in_file" D
