# cause: find walks a cold tree of 40,000 files on a file system of its own: one small read of the disk after the other.
# expect: queue-depth, device
# vague: readahead, own-cpu
# packages: findutils e2fsprogs python3
prepare() {
    truncate -s 1g image
    mkfs.ext4 -q -F -N 100000 image
    mkdir tree
    mount -o loop,noatime image tree
    /usr/bin/python3 -c '
import os
for d in range(400):
    os.mkdir(f"tree/{d}")
    for f in range(100):
        os.close(os.open(f"tree/{d}/{f}", os.O_WRONLY | os.O_CREAT))'
    umount tree
    mount -o loop,noatime,ro image tree
    cold image
}
program() { exec find tree -type f -size +1k; }
clean() { umount tree 2>/dev/null || :; }
