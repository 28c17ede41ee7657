# cause: A program reads a timerfd that expires every 20 ms.
# expect: timer
# packages: gcc libc6-dev
prepare() {
    cat >timer.c <<'C'
#include <stdint.h>
#include <sys/timerfd.h>
#include <unistd.h>
int main(void) {
    struct itimerspec every = { { 0, 20000000 }, { 0, 20000000 } };
    int fd = timerfd_create(1, 0);
    timerfd_settime(fd, 0, &every, 0);
    uint64_t n;
    for (int i = 0; i < 300; i++) if (read(fd, &n, sizeof n) < 0) return 1;
}
C
    gcc -O1 -o timer timer.c
}
program() { exec ./timer; }
