# cause: Many small files are created, each with fsync: flushes, or the CPU time of creating them, whichever takes longer.
# expect: flush, own-cpu
# busy: flush, own-cpu, other-cpu
# packages: python3
program() {
    exec /usr/bin/python3 -c '
import os, time
os.mkdir("files")
end, n = time.monotonic() + 6, 0
while time.monotonic() < end:
    fd = os.open(f"files/{n}", os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(fd, bytes(4096))
    os.fsync(fd)
    os.close(fd)
    n += 1'
}
