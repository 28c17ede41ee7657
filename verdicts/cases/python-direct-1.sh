# cause: A Python program reads 64 KiB at random places with O_DIRECT, one at a time.
# expect: queue-depth
# packages: python3
prepare() { filled data 256m; }
program() {
    exec /usr/bin/python3 -c '
import mmap, os, random, time
fd = os.open("data", os.O_RDONLY | os.O_DIRECT)
buffer = mmap.mmap(-1, 65536)
end = time.monotonic() + 6
while time.monotonic() < end:
    os.preadv(fd, [buffer], random.randrange(4096) * 65536)'
}
