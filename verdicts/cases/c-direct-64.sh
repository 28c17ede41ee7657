# cause: 64 threads read 4 KiB each at random places with O_DIRECT: the disk is at its limit.
# expect: device
# busy: device, other-cpu
# packages: gcc libc6-dev
prepare() {
    filled data 1g
    cat >reads.c <<'C'
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static int fd;
static time_t end;
static void *reads(void *seed) {
    unsigned state = (unsigned)(long)seed;
    void *buffer;
    if (posix_memalign(&buffer, 4096, 4096)) return 0;
    while (time(0) < end)
        if (pread(fd, buffer, 4096, (off_t)(rand_r(&state) % 262144) * 4096) < 0) return 0;
    return 0;
}
int main(void) {
    fd = open("data", O_RDONLY | O_DIRECT);
    end = time(0) + 7;
    pthread_t threads[64];
    for (long i = 0; i < 64; i++) pthread_create(&threads[i], 0, reads, (void *)(i + 1));
    for (int i = 0; i < 64; i++) pthread_join(threads[i], 0);
}
C
    gcc -O1 -pthread -o reads reads.c
}
program() { exec ./reads; }
