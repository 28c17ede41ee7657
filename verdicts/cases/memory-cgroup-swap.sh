# cause: A program touches 200 MiB of its own memory at random, of which its cgroup lets 64 MiB stay out of swap.
# expect: swapping, memory-limit
# vague: page-fault
# packages: python3 util-linux
prepare() {
    fallocate -l 512m swap
    chmod 600 swap
    mkswap -q swap >/dev/null
    swapon swap
    mkdir -p /sys/fs/cgroup/memory/fathom-verdicts
    echo 64m >/sys/fs/cgroup/memory/fathom-verdicts/memory.limit_in_bytes
}
program() {
    echo $$ >/sys/fs/cgroup/memory/fathom-verdicts/cgroup.procs
    exec /usr/bin/python3 -c '
import mmap, os, random, time
size = 200 << 20
memory = mmap.mmap(-1, size)
for at in range(0, size, 4096):
    memory[at:at + 8] = os.urandom(8)
end = time.monotonic() + 5
while time.monotonic() < end:
    memory[random.randrange(size)] = 1'
}
clean() {
    sleep 0.5
    rmdir /sys/fs/cgroup/memory/fathom-verdicts || :
    swapoff swap
}
