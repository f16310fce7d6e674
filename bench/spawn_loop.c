/* Starts a program and waits for it, COUNT times, and prints the nanoseconds of each.
 *
 *   spawn_loop bare|pipes COUNT PROGRAM [ARGUMENT...]
 *
 * bare:  posix_spawn and waitpid, nothing else: the least that running a program costs.
 * pipes: stdin from the null device, both outputs read to their end: the least that a server
 *        which returns them can do.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void die(const char *what, int error) {
    fprintf(stderr, "spawn_loop: %s: %s\n", what, strerror(error));
    exit(1);
}

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static pid_t start(char **argv, const posix_spawn_file_actions_t *actions) {
    pid_t pid;
    int error = posix_spawnp(&pid, argv[0], actions, NULL, argv, environ);
    if (error) die(argv[0], error);
    return pid;
}

static void drain(int out, int err) {
    char buffer[65536];
    struct pollfd fds[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
    for (int open_fds = 2; open_fds > 0;) {
        poll(fds, 2, -1);
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd < 0 || !fds[i].revents) continue;
            if (read(fds[i].fd, buffer, sizeof buffer) <= 0) {
                close(fds[i].fd);
                fds[i].fd = -1;
                open_fds--;
            }
        }
    }
}

static pid_t start_with_pipes(char **argv) {
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) die("pipe2", 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    pid_t pid = start(argv, &actions);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(err[1]);
    drain(out[0], err[0]);
    return pid;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int pipes = strcmp(argv[1], "pipes") == 0;
    long count = atol(argv[2]);
    long long *took = calloc(count, sizeof *took);
    for (long i = 0; i < count; i++) {
        int status;
        long long begin = now();
        pid_t pid = pipes ? start_with_pipes(argv + 3) : start(argv + 3, NULL);
        waitpid(pid, &status, 0);
        took[i] = now() - begin;
        if (status != 0) die("the program failed", 0);
    }
    for (long i = 0; i < count; i++) printf("%lld\n", took[i]);
    return 0;
}
