# A target written by one fathom is refused to other writers under any name, but not to readers; two parts may be written.
# when: all
disk=$(disk 0) ng=$(passthrough 0)
pass="--ioengine=io_uring_cmd --cmd_type=nvme"
watched=0
tr '\0' '\21' </dev/zero | head -c 1048576 >wanted

# stays WANTED DEVICE: waits until the device begins with these bytes, as it does from then on.
stays() {
    set +x
    for try in $(seq 200); do
        blockdev --flushbufs "$2"
        cmp -s -n 1048576 "$1" "$2" && break
        usleep 50000
    done
    set -x
}

# Writes the same bytes over and over, so that the disk stays as it is after the first second.
writes() {
    fathom run --name=first --rw=write --bs=64k --size=1m --buffer_pattern=0x11 --time_based --runtime=50 \
        "$@" >first.out 2>&1 &
    first=$!
    stays wanted "$disk"
    check "the first writes" kill -0 $first
    before=$(sums)
}
ended() {
    kill -INT $first
    wait $first || true
}

writes --filename="$disk" --erase="$disk" --direct=1
refused write "$disk" "in use" --erase="$disk"
says err "such as a second fathom"
refused randtrim "$disk" "in use" --erase="$disk@LAB0"
refused write "$ng" "in use" --erase="$ng@LAB0" $pass
fathom run --name=read --rw=read --bs=64k --number_ios=20 --filename="$disk"
fathom run --name=read --rw=read --bs=64k --number_ios=20 --filename="$ng" $pass
check "the first goes on" kill -0 $first
ended

writes --filename="$ng" --erase="$ng@LAB0" $pass
refused write "$disk" "in use" --erase="$disk"
refused write "$ng" "in use" --erase="$ng" $pass
check "nobody mounts or formats it meanwhile" [ "$(mkfs.ext4 -q "$disk" 2>&1 | grep -c 'in use')" = 1 ]
check "no disk has changed" unchanged
check "the first goes on" kill -0 $first
ended

# Another program may hold a disk by its lock alone.
exec 6<"$disk"
flock -n 6
refused write "$disk" "is locked by another program" --erase="$disk"
exec 6<&-

printf 'label: gpt\n,16M\n,\n' | sfdisk -q "$disk"
fathom run --name=both --rw=write --bs=64k --size=1m --filename="${disk}p1:${disk}p2" --erase="${disk}p1" \
    --erase="${disk}p2"
fathom run --name=first --rw=write --bs=64k --size=1m --direct=1 --zero_buffers --time_based --runtime=50 \
    --filename="${disk}p1" --erase="${disk}p1" >first.out 2>&1 &
first=$!
stays /dev/zero "${disk}p1"
kill -0 $first
before=$(sums)
refused write "${disk}p2" "another part of the same disk" --erase="${disk}p2"
refused write "${disk}p1" "in use" --erase="${disk}p1"
refused write "$disk" "in use" --erase="$disk@LAB0"
refused write "$ng" "in use" --erase="$ng@LAB0" $pass
ended
fathom run --name=second --rw=write --bs=64k --size=1m --filename="${disk}p2" --erase="${disk}p2"

# Files in the same way; those in memory carry no mark of fathom's, so that --overwrite is needed.
fathom run --name=first --rw=write --bs=64k --size=1m --time_based --runtime=50 --filename=made >first.out 2>&1 &
first=$!
sleep 2
kill -0 $first
before=$(sums)
refused write made "is locked by another program" --overwrite=made
fathom run --name=read --rw=read --bs=64k --filename=made
ended
fathom run --name=again --rw=write --bs=64k --size=1m --filename=made --overwrite=made
