# cause: A file of 200 MiB is read again and again in a cgroup of 64 MiB: the cache never holds it.
# expect: cache-limit, queue-depth
# vague: device
# packages: python3
prepare() {
    filled data 200m
    mkdir -p /sys/fs/cgroup/memory/fathom-verdicts
    echo 64m >/sys/fs/cgroup/memory/fathom-verdicts/memory.limit_in_bytes
}
program() {
    echo $$ >/sys/fs/cgroup/memory/fathom-verdicts/cgroup.procs
    for_s 6 bash -c 'exec /usr/bin/python3 -c "
import os, random
fd = os.open(\"data\", os.O_RDONLY)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
while True:
    os.pread(fd, 65536, random.randrange(3200) * 65536)"'
}
clean() { sleep 0.5; rmdir /sys/fs/cgroup/memory/fathom-verdicts; }
