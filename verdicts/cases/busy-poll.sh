# cause: A program polls a socket without waiting: it computes, although nothing ever arrives.
# expect: own-cpu
# busy: own-cpu, other-cpu
# packages: python3
program() {
    exec /usr/bin/python3 -c '
import select, socket, time
a, b = socket.socketpair()
end = time.monotonic() + 6
while time.monotonic() < end:
    select.select([a], [], [], 0)'
}
