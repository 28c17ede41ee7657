# cause: A thread waits for an event that never comes, while the main thread waits for the thread.
# expect: idle
# vague: timer
# packages: python3
# watch: 5s
program() {
    starts /usr/bin/python3 -c '
import threading
event = threading.Event()
thread = threading.Thread(target=event.wait)
thread.start()
thread.join()'
    sleep 1
    head -1 background.pids
}
clean() { ends; }
