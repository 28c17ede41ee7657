# cause: The most of a loop device to which BFQ passes one read at a time (strict_guarantees).
# expect: io-scheduler
# vague: device
# runs: fathom
prepare() {
    looped 512m
    queue scheduler bfq
    echo 1 >"/sys/block/$(basename "$(cat loop)")/queue/iosched/strict_guarantees"
}
program() { fathom limit -t 20 "$(cat loop)"; }
clean() { unlooped; }
