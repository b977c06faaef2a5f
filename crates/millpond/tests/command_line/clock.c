/* The system's clock of a process, set forward or back by the number of seconds in the file that CLOCK_JUMP names.
   Loaded before the C library (LD_PRELOAD). The clocks that only grow are left alone. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    const char *path = getenv("CLOCK_JUMP");
    if (failed || clock != CLOCK_REALTIME || !path)
        return (int)failed;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    char text[32] = {0};
    if (file >= 0) {
        if (read(file, text, sizeof text - 1) > 0)
            now->tv_sec += strtol(text, NULL, 10);
        close(file);
    }
    return 0;
}
