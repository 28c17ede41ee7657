# cause: A Python program computes.
# expect: own-cpu
# busy: own-cpu, other-cpu
# packages: python3
program() {
    exec /usr/bin/python3 -c '
import time
end = time.monotonic() + 4
while time.monotonic() < end:
    sum(range(1000))'
}
