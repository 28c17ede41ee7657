# cause: Reads of a file on tmpfs.
# expect: in-memory, own-cpu
# runs: fathom
prepare() { head -c 128m /dev/urandom >/dev/shm/fathom-verdicts; }
program() { run --filename=/dev/shm/fathom-verdicts --ioengine=psync; }
clean() { rm -f /dev/shm/fathom-verdicts; }
