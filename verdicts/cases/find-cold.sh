# cause: find reads the attributes of 60,000 files of a cold file system: one small read of the disk after the other, as each inode has a block of its own, and the CPU time between them: whichever takes longer.
# expect: queue-depth, device, own-cpu
# busy: queue-depth, device, own-cpu, other-cpu
# packages: findutils e2fsprogs python3
prepare() {
    truncate -s 1g image
    mkfs.ext4 -q -F -N 65000 -I 4096 image
    mkdir tree
    mount -o loop,noatime image tree
    /usr/bin/python3 -c '
import os
for d in range(300):
    os.mkdir(f"tree/{d}")
    for f in range(200):
        os.close(os.open(f"tree/{d}/{f}", os.O_WRONLY | os.O_CREAT))'
    umount tree
    mount -o loop,noatime,ro,inode_readahead_blks=1 image tree
    cold image
}
program() { for_s 8 find tree -type f -size +1k; }
clean() { umount tree 2>/dev/null || :; }
