# cause: xz compresses with two threads.
# expect: own-cpu
# busy: own-cpu, other-cpu
# packages: xz-utils
prepare() { filled data 128m; cat data >/dev/null; }
# xz reports progress on SIGALRM, so for_s does not end it.
program() { exec xz -1 -T2 --block-size=1MiB -kc data >/dev/null; }
