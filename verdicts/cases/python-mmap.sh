# cause: A Python program reads a cold file through a memory mapping, at random.
# expect: page-fault
# busy: page-fault, own-cpu, other-cpu
# packages: python3
prepare() { filled data 1g; }
program() {
    exec /usr/bin/python3 -c '
import mmap, os, random, time
fd = os.open("data", os.O_RDONLY)
data = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
data.madvise(mmap.MADV_RANDOM)
end = time.monotonic() + 4
total = 0
while time.monotonic() < end:
    total += data[random.randrange(len(data))]'
}
