# Polled reads reach an NVMe disk and come back without an interrupt.
# kernels: 7 6.1 6.12
reload nvme poll_queues=1
ctrl=$(controller 0)
set -- --filename="$(disk 0)" --rw=randread --bs=4k --direct=1 --iodepth=8 --number_ios=2000 --output-format=json
before=$(interrupts_of "$ctrl")
fathom run --name=polled "$@" --hipri=1 --record=polled >polled.json
polled=$(($(interrupts_of "$ctrl") - before))
fathom run --name=plain "$@" --record=plain >plain.json
plain=$(($(interrupts_of "$ctrl") - before - polled))

# Before it starts, fathom checks the disk's contents, by ordinary reads.
check "2000 polled reads bring no interrupts but for those few ($polled)" [ "$polled" -le 4 ]
check "others bring them ($plain)" [ "$plain" -ge 100 ]
is polled.json '.jobs[0].read.total_ios' 2000
is polled.json '.jobs[0].error' 0

# Since Linux 6.13, a ring can sleep before it polls.
hybrid() { fathom run --name=hybrid "$@" --hipri=1 --hybrid_iopoll=1 --record=hybrid; }
case $(uname -r) in
6.1.* | 6.12.*)
    expect 1 hybrid "$@"
    says err HYBRID_IOPOLL
    ;;
*)
    before=$(interrupts_of "$ctrl")
    hybrid "$@" >hybrid.json
    hybrid=$(($(interrupts_of "$ctrl") - before))
    check "nor does a sleep before polling ($hybrid)" [ "$hybrid" -le 4 ]
    is hybrid.json '.jobs[0].read.total_ios' 2000
    is hybrid/record.json '[.. | strings | select(. == "HYBRID_IOPOLL")] | length > 0' true
    ;;
esac
keep polled plain
