# Reads and `fathom limit` are permitted on any disk, in use or not, and do not modify it.
# modules: dm_mod raid1 loop
first=$(disk 0) second=$(disk 1) ng=$(passthrough 0)
watched="0 1"

# written: sectors that the kernel wrote to both disks, and discarded.
written() {
    awk '{ sum += $7 + $14 } END { print sum }' "/sys/block/${first#/dev/}/stat" "/sys/block/${second#/dev/}/stat"
}
# reads PATH…: all of them are read, with the disks as they were.
reads() {
    before=$(sums) sectors=$(written)
    for path in "$@"; do
        case $path in
        /dev/ng*) pass="--ioengine=io_uring_cmd --cmd_type=nvme" ;;
        *) pass= ;;
        esac
        fathom run --name=read --rw=randread --bs=4k --number_ios=50 --filename="$path" $pass
    done
    check "reads of $* change nothing" unchanged
    check "and the kernel wrote nothing ($sectors)" [ "$(written)" = "$sectors" ]
}

printf 'label: gpt\n,16M\n,\n' | sfdisk -q "$first"
mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=0 "${first}p1"
mount -t ext4 "${first}p1" /mnt
mkswap "${first}p2"
swapon "${first}p2"
sync
ln -s "$first" link
reads "$first" "${first}p1" "${first}p2" link "$ng"
before=$(sums) sectors=$(written)
# In an emulated machine, time may run out before both have a verdict.
status=0
fathom limit --duration=10 "$first" "${first}p1" >limit.txt || status=$?
check "it ends with 0 or 1 ($status)" [ $status -le 1 ]
check "limit changes nothing" unchanged
check "and the kernel wrote nothing ($sectors)" [ "$(written)" = "$sectors" ]
swapoff "${first}p2"
umount /mnt
wipefs -q -a "$first"
blockdev --rereadpt "$first"

blockdev --setro "$first"
reads "$first" "$ng"
blockdev --setrw "$first"
mdadm --create /dev/md/lab --run --level=1 --assume-clean --raid-devices=2 --metadata=1.2 "$first" "$second"
mdadm --wait-clean /dev/md/lab || true
echo "0 32768 linear /dev/md/lab 0" | dmsetup create lab-upper
dmsetup mknodes
reads "$first" "$second" "$ng" /dev/md/lab /dev/mapper/lab-upper
