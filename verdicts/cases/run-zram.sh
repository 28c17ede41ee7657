# cause: Reads of a zram device, which decompresses on the CPU of the reader.
# expect: own-cpu
# runs: fathom
prepare() {
    filled plain 256m
    zramctl -f -s 256m >zram
    cat plain >"$(cat zram)"
}
program() { run --filename="$(cat zram)" --ioengine=psync --direct=1; }
clean() {
    sleep 0.5
    zramctl -r "$(cat zram)"
}
