# cause: A shell script that sleeps 0.2 s at a time.
# expect: timer
# vague: child
program() { exec sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do sleep 0.2; done'; }
