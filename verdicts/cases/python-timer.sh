# cause: A Python program does next to nothing every 20 ms.
# expect: timer
# packages: python3
program() {
    exec /usr/bin/python3 -c '
import time
for _ in range(200):
    time.sleep(0.02)'
}
