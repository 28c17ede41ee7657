# cause: dd copies zeros to nowhere: it fills memory.
# expect: own-cpu
# busy: own-cpu, other-cpu
program() { for_s 4 dd if=/dev/zero of=/dev/null bs=1M status=none; }
