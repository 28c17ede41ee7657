# cause: A program maps, touches and unmaps memory: the kernel zeroes pages for it.
# expect: own-cpu
# busy: own-cpu, other-cpu
# packages: python3
program() {
    exec /usr/bin/python3 -c '
import mmap, time
end = time.monotonic() + 6
while time.monotonic() < end:
    memory = mmap.mmap(-1, 64 << 20)
    for at in range(0, 64 << 20, 4096):
        memory[at] = 1
    memory.close()'
}
