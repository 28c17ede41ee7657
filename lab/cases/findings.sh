# A run names a clock source that needs system calls, and a machine that was busy before.
# kernels: 7
# boot: own
# modules: dm_mod
# when: all
# A run whose findings are in out.json.
judge() { fathom run --name=job --rw=read --ioengine=null --size=1m --output-format=json >out.json; }

clock=/sys/devices/system/clocksource/clocksource0
slow=0
for source in $(cat $clock/available_clocksource); do
    echo "$source" >$clock/current_clocksource
    case $source in
    tsc* | kvm-clock | hyperv*) wanted=false ;;
    *) wanted=true slow=$((slow + 1)) ;;
    esac
    judge
    is out.json '.fathom.findings | any(.rule == "slow-clock")' $wanted
done
check "some clock sources need system calls" [ $slow -gt 0 ]

# Readers that wait in the kernel are load, and cost nothing.
echo "0 8192 linear $(disk 0) 0" | dmsetup create labstill
dmsetup mknodes
dmsetup suspend --noflush --nolockfs labstill
for reader in $(seq 60); do
    dd if=/dev/mapper/labstill of=/dev/null bs=4k count=1 2>/dev/null &
done
busy() { awk '{ exit !($1 >= 3) }' /proc/loadavg; }
for try in $(seq 300); do
    busy && break
    usleep 100000
done
check "the load average is 1.5 per CPU" busy
judge
is out.json '[.fathom.findings[] | select(.rule == "busy-machine") | .severity] | join(" ")' warning
dmsetup resume labstill
wait
