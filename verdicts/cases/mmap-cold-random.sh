# cause: A C program reads random bytes of a mapped cold file: one page fault after the other reads from disk.
# expect: page-fault
# busy: page-fault, own-cpu, other-cpu
# packages: gcc libc6-dev
prepare() {
    filled data 1g
    cat >faults.c <<'C'
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
int main(void) {
    char *data = mmap(0, 1 << 30, PROT_READ, MAP_SHARED, open("data", O_RDONLY), 0);
    madvise(data, 1 << 30, MADV_RANDOM);
    volatile char sum = 0;
    for (time_t end = time(0) + 6; time(0) < end;) sum += data[(long)(random() % 262144) * 4096];
}
C
    gcc -O1 -o faults faults.c
}
program() { exec ./faults; }
