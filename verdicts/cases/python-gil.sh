# cause: Four threads of Python compute: only one of them can at a time.
# expect: lock
# busy: lock, other-cpu
# vague: own-cpu
# packages: python3
program() {
    exec /usr/bin/python3 -c '
import threading, time
end = time.monotonic() + 4
def work():
    while time.monotonic() < end:
        sum(range(1000))
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]'
}
