# cause: Four threads append 512 bytes at a time to a log of their own, opened with O_DSYNC.
# expect: flush
# packages: python3
program() {
    exec /usr/bin/python3 -c '
import os, threading, time
end = time.monotonic() + 6
def append(n):
    fd = os.open(f"log{n}", os.O_WRONLY | os.O_CREAT | os.O_DSYNC, 0o600)
    while time.monotonic() < end:
        os.write(fd, bytes(512))
threads = [threading.Thread(target=append, args=(n,)) for n in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]'
}
