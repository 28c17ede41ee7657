# cause: Four threads compute 1 ms each while they hold the same mutex: three of them wait for it.
# expect: lock
# vague: own-cpu
# packages: gcc libc6-dev
prepare() {
    cat >convoy.c <<'C'
#include <pthread.h>
#include <time.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static void *work(void *end) {
    while (now() < *(double *)end) {
        pthread_mutex_lock(&lock);
        for (double until = now() + 0.001; now() < until;) { }
        pthread_mutex_unlock(&lock);
    }
    return 0;
}
int main(void) {
    double end = now() + 5;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, &end);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
}
C
    gcc -O1 -pthread -o convoy convoy.c
}
program() { exec ./convoy; }
