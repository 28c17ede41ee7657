# A file behind a loop device is not written through an overlay either.
# modules: loop overlay
disk=$(disk 0)
mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=0 "$disk"
mount -t ext4 "$disk" /mnt
mkdir /mnt/upper /mnt/work /mnt/lower /mnt/merged
truncate -s 8M /mnt/upper/image
mount -t overlay -o lowerdir=/mnt/lower,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/merged
loop=$(losetup -f)
losetup "$loop" /mnt/upper/image
sync
watched=0 before=$(sums)
refused write /mnt/merged/image "may be the backing file of $loop" --overwrite=/mnt/merged/image
losetup -d "$loop"
losetup "$loop" /mnt/merged/image
sync
before=$(sums)
refused write /mnt/upper/image "may be the backing file of $loop" --overwrite=/mnt/upper/image
