# cause: Writes to memory, each with a SHA-512 checksum that the load generator computes.
# expect: load-generator
# busy: load-generator, other-cpu
# vague: in-memory, own-cpu
# runs: fathom
prepare() { head -c 128m /dev/zero >/dev/shm/fathom-verdicts; }
program() {
    run --filename=/dev/shm/fathom-verdicts --overwrite=/dev/shm/fathom-verdicts --rw=write --bs=64k --size=128m \
        --ioengine=psync --verify=sha512 --do_verify=0
}
clean() { rm -f /dev/shm/fathom-verdicts; }
