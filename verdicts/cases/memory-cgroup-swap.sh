# cause: A program reads 400 MiB of its own memory at random, of which its cgroup lets 64 MiB stay out of swap.
# expect: swapping, memory-limit
# vague: page-fault
# packages: gcc libc6-dev util-linux
prepare() {
    fallocate -l 1g swap
    chmod 600 swap
    mkswap -q swap >/dev/null
    swapon swap
    mkdir -p /sys/fs/cgroup/memory/fathom-verdicts
    echo 64m >/sys/fs/cgroup/memory/fathom-verdicts/memory.limit_in_bytes
    cat >reads.c <<'C'
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#define PAGES 102400L
int main(void) {
    char *memory = mmap(0, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    time_t end = time(0) + 7;
    for (long page = 0; page < PAGES; page++) memory[page * 4096] = 1;
    for (volatile char sum = 0; time(0) < end;) sum += memory[random() % PAGES * 4096];
}
C
    gcc -O1 -o reads reads.c
}
program() {
    echo $$ >/sys/fs/cgroup/memory/fathom-verdicts/cgroup.procs
    exec ./reads
}
clean() {
    sleep 0.5
    rmdir /sys/fs/cgroup/memory/fathom-verdicts || :
    swapoff swap
}
