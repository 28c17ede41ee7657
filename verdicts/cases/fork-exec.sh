# cause: A shell starts a trivial program again and again: process creation takes CPU time.
# expect: own-cpu
# busy: own-cpu, other-cpu
# vague: child
# packages: bash
program() { for_s 6 bash -c 'while :; do /bin/true; done'; }
