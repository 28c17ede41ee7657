# cause: The most of a loop device whose queue has four requests.
# expect: queue-requests
# vague: device
# runs: fathom
prepare() {
    looped 512m
    queue scheduler mq-deadline
    queue nr_requests 4
}
program() { fathom limit -t 20 "$(cat loop)"; }
clean() { unlooped; }
