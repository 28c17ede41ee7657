# Sampling works under kernel lockdown (confidentiality).
# boot: own
# kernels: 6.1 7
# when: all
mount -t securityfs none /sys/kernel/security || true
echo confidentiality >/sys/kernel/security/lockdown
check "the kernel is locked down" grep -q -F "[confidentiality]" /sys/kernel/security/lockdown
check "which holds" grep -q lockdown /sys/kernel/security/lsm
fathom stacks -F 999 -- fathom run --name=job --filename="$(disk 0)" --rw=randread --bs=4k --direct=1 --iodepth=8 \
    --time_based --runtime=2 --no-record --sampling=off --output=job >page 2>err
cat page err
says page "assigned to a layer"
says page "block layer"
