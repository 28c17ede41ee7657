# A mounted disk is not written: not by its partitions, its other names or from another namespace.
disk=$(disk 0) ng=$(passthrough 0) other=$(disk 1)
pass="--ioengine=io_uring_cmd --cmd_type=nvme"
printf 'label: gpt\n,16M\n,\n' | sfdisk -q "$disk"
mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=0 "${disk}p1"
mkdir -p "/mnt/a b"
mount -t ext4 "${disk}p1" "/mnt/a b"
echo kept >"/mnt/a b/file"
sync
watched="0 1" before=$(sums)

# refused_as TEXT PATH…: by these names, and by the one that bypasses the block layer.
refused_as() {
    text=$1
    shift
    for path in "$@"; do
        refused write "$path" "$text" --erase="$disk@LAB0" --erase="${disk}p1@LAB0"
    done
    refused write "$ng" "$text" --erase="$ng@LAB0" $pass
}

ln -s "$disk" link-disk
ln -s "${disk}p1" link-part
mknod alias b $(tr : ' ' <"/sys/class/block/${disk#/dev/}p1/dev")
refused_as "${disk}p1 is mounted at /mnt/a b" "$disk" "${disk}p1" link-disk link-part alias
refused randtrim "${disk}p1" "is mounted" --erase="${disk}p1@LAB0"
# The neighbour is someone else's only when it is used too.
fathom run --name=second --rw=write --bs=64k --size=1m --filename="${disk}p2" --erase="${disk}p2"
check "what is mounted is whole" [ "$(cat "/mnt/a b/file")" = kept ]
before=$(sums)

# Unmounted here, but not there, where none of our paths leads.
unshare --mount --propagation private sh -c ': >there; exec sleep 600' &
holder=$!
while [ ! -e there ]; do usleep 10000; done
umount "/mnt/a b"
refused_as "in another mount namespace" "$disk" "${disk}p1"
kill $holder
wait $holder || true

# Unmounted lazily, with a file still open: no list of mounts has it, but the kernel knows.
mount -t ext4 "${disk}p1" "/mnt/a b"
exec 5<"/mnt/a b/file"
umount -l "/mnt/a b"
sync
before=$(sums)
refused_as "in use" "$disk" "${disk}p1"
exec 5<&-

# File systems over several disks are mounted by the name of one.
big=$(disk 2)
mkfs.btrfs -q -f --mixed -d single -m single "$big" "$other"
mount -t btrfs -o device="$big",device="$other" "$big" /mnt
sync
watched="0 1 2" before=$(sums)
refused write "$big" "$big is mounted at /mnt" --erase="$big@LAB2"
refused write "$other" "in use" --erase="$other@LAB1"
refused write "$(passthrough 1)" "in use" --erase="$(passthrough 1)@LAB1" $pass
umount /mnt
mkfs.ext4 -q -F -O journal_dev "$other"
mkfs.ext4 -q -F -J device="$other" -E lazy_itable_init=0 "${disk}p2"
mount -t ext4 "${disk}p2" /mnt
sync
watched="0 1" before=$(sums)
refused write "$other" "in use" --erase="$other@LAB1"
umount /mnt

# Once nobody uses it any more, it is written.
fathom run --name=free --rw=write --bs=64k --size=1m --filename="$disk" --erase="$disk@LAB0"
