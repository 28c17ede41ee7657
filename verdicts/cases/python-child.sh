# cause: A Python program waits for a child that computes.
# expect: own-cpu
# busy: own-cpu, other-cpu
# vague: child
# packages: python3
program() {
    exec /usr/bin/python3 -c '
import subprocess
subprocess.run(["perl", "-e", "alarm 4; 1 while 1"])'
}
