# Swap, and what dm, md or loop devices are stacked on, is not written; nor is a file behind a loop device.
# modules: dm_mod raid0 loop
first=$(disk 0) second=$(disk 1) ng=$(passthrough 0)
pass="--ioengine=io_uring_cmd --cmd_type=nvme"
watched="0 1"

# in_use TEXT: the first disk is refused by its names, whatever is permitted.
in_use() {
    before=$(sums)
    refused write "$first" "$1" --erase="$first@LAB0"
    refused trim "$first" "$1" --erase="$first@LAB0"
    refused write "$ng" "$1" --erase="$ng@LAB0" $pass
}

mkswap "$first"
swapon "$first"
in_use "$first is swap space"
swapoff "$first"

echo "0 65536 linear $first 0" | dmsetup create lab-under
dmsetup mknodes
echo "0 32768 linear /dev/mapper/lab-under 0" | dmsetup create lab-upper
dmsetup mknodes
under=/dev/$(dmsetup info -c --noheadings -o blkdevname lab-under)
in_use "(lab-under) is stacked on $first"
refused write "$under" "(lab-upper) is stacked on $under" --erase="$under@33554432"
refused write /dev/mapper/lab-under "is stacked on" --erase=/dev/mapper/lab-under@33554432
mkswap /dev/mapper/lab-upper
swapon /dev/mapper/lab-upper
before=$(sums)
refused write /dev/mapper/lab-upper "is swap space" --erase=/dev/mapper/lab-upper@16777216
swapoff /dev/mapper/lab-upper
dmsetup remove lab-upper
dmsetup remove lab-under
wipefs -q -a "$first"

mdadm --create /dev/md/lab --run --level=0 --raid-devices=2 "$first" "$second"
md=$(readlink -f /dev/md/lab)
in_use "${md#/dev/} is stacked on $first"
refused write "$second" "is stacked on $second" --erase="$second@LAB1"
fathom run --name=array --rw=write --bs=64k --size=1m --filename="$md" --erase="$(confirmed "$md")"
before=$(sums)
mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=0 "$md"
mount -t ext4 "$md" /mnt
sync
in_use "is stacked on"
refused write "$md" "$md is mounted at /mnt" --erase="$md@$(blockdev --getsize64 "$md")"

# A file on it, behind a loop device, mounted in turn; by its other names too.
truncate -s 8M /mnt/image
ln /mnt/image /mnt/second
ln -s /mnt/image link
mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=0 /mnt/image
loop=$(losetup -f)
losetup "$loop" /mnt/image
mkdir /tmp/inner
mount -t ext4 "$loop" /tmp/inner
sync
before=$(sums)
for path in /mnt/image /mnt/second link; do
    refused write "$path" "the backing file of $loop" --overwrite="$path"
done
says err "$loop is mounted at /tmp/inner"
refused write "$loop" "is mounted" --erase="$loop@8388608"
# Not mounted, and shown by a second loop device.
umount /tmp/inner
twin=$(losetup -f)
losetup "$twin" /mnt/image
before=$(sums)
refused write "$loop" "is the backing file of $twin" --erase="$loop@8388608"
losetup -d "$twin"
losetup -d "$loop"
umount /mnt
mdadm --stop "$md"
blkdiscard -f "$first"

loop=$(losetup -f)
losetup "$loop" "$first"
in_use "$loop is backed by $first"
losetup -d "$loop"
fathom run --name=free --rw=write --bs=64k --size=1m --filename="$first" --erase="$first"
