# A disk with a file system, a partition table, swap, an array's member or unknown data is not erased by name alone.
# when: all
disk=$(disk 0) big=$(disk 2) ng=$(passthrough 0)
pass="--ioengine=io_uring_cmd --cmd_type=nvme"

# holds NUMBER PATH WHAT: the name alone is not enough; the printed flag is.
holds() {
    watched=$1 before=$(sums)
    for rw in write trim; do
        refused $rw "$2" "$3" --erase="$2"
        says err "add --erase=$2@LAB$1"
    done
}
# other NUMBER PATH: nor is another disk's number, or a size, whatever is on the disk.
other() {
    refused write "$2" "--erase=$2@LAB$1" --erase="$2@LAB3"
    refused write "$2" "--erase=$2@LAB$1" --erase="$2@67108864"
}
# erased PATH: the flag that was printed permits it.
erased() {
    expect 1 fathom run --name=erased --rw=write --bs=64k --filename="$1" --erase="$1"
    fathom run --name=erased --rw=write --bs=64k --size=64k --filename="$1" "$(sed 's/.* add //' err)"
    check "it was erased" [ "$(sums)" != "$before" ]
}

mkfs.ext4 -q -O ^has_journal "$disk"
holds 0 "$disk" ext4
other 0 "$disk"
refused write "$ng" ext4 --erase="$ng" $pass
erased "$disk"
mkfs.btrfs -q -f --mixed "$disk"
holds 0 "$disk" btrfs
mkswap "$disk"
holds 0 "$disk" swap
erased "$disk"
blkdiscard -f "$disk"
mdadm --create /dev/md/lab --run --level=1 --raid-devices=2 --metadata=1.0 "$disk" missing
mdadm --stop /dev/md/lab
holds 0 "$disk" RAID
blkdiscard -f "$disk"
for at in 0 $(($(blockdev --getsize64 "$disk") - 512)); do
    printf 'x' | dd of="$disk" bs=1 seek="$at" conv=notrunc,fsync
    holds 0 "$disk" "data that fathom did not write, at byte $at"
    blkdiscard -f "$disk"
done
for bs in 512 4k 64k; do
    fathom run --name=again --rw=randwrite --bs=$bs --filename="$disk" --erase="$disk"
done
mkfs.xfs -q "$big"
holds 2 "$big" XFS
other 2 "$big"
erased "$big"

# A partition table, what is in the partitions, and what remains when the kernel forgets them.
printf 'label: gpt\n,16M\n,\n' | sfdisk -q "$disk"
watched=0 before=$(sums)
refused write "$disk" "GPT" --erase="$disk"
says err "partitions (${disk#/dev/}p1 ${disk#/dev/}p2)"
refused write "$ng" "GPT" --erase="$ng" $pass
mkfs.ext4 -q -O ^has_journal "${disk}p1"
holds 0 "${disk}p1" ext4
other 0 "${disk}p1"
refused write "${disk}p1" "add --erase=${disk}p1" --erase="$disk@LAB0"
# What was written to the whole disk is not recognized on a partition, where other offsets hold.
fathom run --name=second --rw=write --bs=64k --size=64k --filename="${disk}p2" --erase="${disk}p2@LAB0"
dd if=/dev/zero of="$disk" bs=512 count=34
blockdev --rereadpt "$disk"
check "the kernel knows no partitions" [ ! -e "${disk}p1" ]
before=$(sums)
refused write "$disk" "backup GPT" --erase="$disk"
erased "$disk"
