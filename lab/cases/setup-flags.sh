# Unsupported setup flags are dropped, the run continues, and the record lists the flags in effect and refused.
# kernels: 6.12 6.1 7
reload nvme poll_queues=1
case $(uname -r) in 6.1.*) refused=NO_SQARRAY granted= ;; *) refused= granted=' NO_SQARRAY' ;; esac

# flags NAME FLAGS OPTION…: a run that is granted these flags, beside those that only newer kernels have.
flags() {
    name=$1 wanted=$2
    shift 2
    fathom run --name="$name" --bs=4k --number_ios=100 --iodepth=8 --rw=randread --record="$name" "$@" >out
    is "$name/record.json" '[.jobs[0] | .dirs.read.counts.ios, .error, (.granted | .refused_flags, .setup_flags | join(" "))],
        any(.findings[]; .rule == "refused-flags") | tojson' \
        "$(printf '[100,null,"%s","%s%s"]\n%s' "$refused" "$wanted" "$granted" "$([ -n "$refused" ] && echo true || echo false)")"
    [ -z "$refused" ] || says out "rejected io_uring setup flags of job $name: $refused"
}

own="SUBMIT_ALL COOP_TASKRUN SINGLE_ISSUER DEFER_TASKRUN"
flags plain "$own" --filename="$(disk 0)" --direct=1
before=$(interrupts_of "$(controller 0)")
flags polled "IOPOLL $own" --filename="$(disk 0)" --direct=1 --hipri=1
flags both "IOPOLL SQE128 CQE32 $own" --filename="$(passthrough 0)" --ioengine=io_uring_cmd --hipri=1
interrupts=$(($(interrupts_of "$(controller 0)") - before))
check "both were polled ($interrupts interrupts)" [ $interrupts -le 8 ]
flags thread "SQPOLL SUBMIT_ALL SINGLE_ISSUER" --filename="$(disk 0)" --direct=1 --sqthread_poll=1
flags command "SQE128 CQE32 $own" --filename="$(passthrough 0)" --ioengine=io_uring_cmd
keep plain polled thread command both
