# Nearly all kernel samples are assigned to a layer; the I/O scheduler's grows from none to mq-deadline to bfq.
# kernels: 7 6.1
# when: all
# modules: bfq
# Nothing but the kernel's own code: an emulated disk answers too late on a busy host.
disk=$(null_blk fast queue_mode=2 submit_queues=1 irqmode=0)
queue=/sys/block/${disk#/dev/}/queue/scheduler
# sampled NAME ARGUMENT…: samples random reads, of which at least 95% must have a layer.
sampled() {
    page=$1
    shift
    # A busy host leaves little time to be sampled: then more of it.
    for try in 1 2 3; do
        fathom stacks -F 999 -- fathom run --name=job --filename="$disk" --rw=randread --bs=4k --iodepth=16 \
            --time_based --runtime=$((2 * try)) --no-record --sampling=off --output=job "$@" >"$page"
        known=$(awk '/assigned to a layer/ { print $3 * 10 }' "$page")
        samples=$(awk '/assigned to a layer/ { n = $1 } END { print n + 0 }' "$page")
        [ "$samples" -lt 200 ] || break
    done
    cat "$page"
    check "$page: of $samples samples $known ‰ have a layer" [ "$samples" -ge 100 -a "${known%.*}" -ge 950 ]
}
# In tenths of a percent.
scheduler_of() { awk '/^ *I\/O scheduler / { share = $3 * 10 } END { print int(share) }' "$1"; }

for scheduler in none mq-deadline bfq; do
    echo $scheduler >"$queue"
    sampled $scheduler --direct=1
done
none=$(scheduler_of none) deadline=$(scheduler_of mq-deadline) bfq=$(scheduler_of bfq)
check "without a scheduler there is none ($none ‰)" [ "$none" -le 15 ]
check "mq-deadline is seen ($deadline ‰)" [ "$deadline" -gt $((2 * none)) -a "$deadline" -ge 5 ]
check "bfq takes more ($bfq ‰)" [ "$bfq" -gt "$deadline" ]

echo none >"$queue"
sampled buffered
sampled async --direct=1 --force_async=1
