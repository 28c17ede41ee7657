# cause: It sleeps for 4 s.
# expect: timer
program() { exec sleep 4; }
