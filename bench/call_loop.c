/* Sends a request to a running stdio MCP server and reads the answer, COUNT times, one at a time,
 * and prints the nanoseconds of each. The connection must be initialized already.
 *
 *   call_loop TO_SERVER FROM_SERVER FIRST_ID COUNT MEMBERS EXPECTED
 *
 * TO_SERVER and FROM_SERVER are inherited file descriptors of the server's pipes. MEMBERS is what follows the id in the request, e.g. `"method":"tools/list"`. Every answer must
 * carry the request's id and contain EXPECTED.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int to_server, from_server;
static char answer[1 << 20];

static void die(const char *what) {
    fprintf(stderr, "call_loop: %s: %.500s\n", what, answer);
    exit(1);
}

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void write_all(const char *text, size_t length) {
    while (length > 0) {
        ssize_t n = write(to_server, text, length);
        if (n <= 0) die("the server takes no more");
        text += n;
        length -= n;
    }
}

static void read_line(void) {
    size_t length = 0;
    do {
        ssize_t n = read(from_server, answer + length, sizeof answer - 1 - length);
        if (n <= 0) die("the server closed, or the answer is too long");
        length += n;
    } while (answer[length - 1] != '\n');
    answer[length] = 0;
}

int main(int argc, char **argv) {
    if (argc != 7) return 2;
    to_server = atoi(argv[1]);
    from_server = atoi(argv[2]);
    long id = atol(argv[3]), count = atol(argv[4]);
    const char *members = argv[5], *expected = argv[6];
    size_t room = strlen(members) + 64;
    char *request = malloc(room), member[32];
    long long *took = calloc(count, sizeof *took);
    for (long i = 0; i < count; i++, id++) {
        int length = snprintf(request, room, "{\"jsonrpc\":\"2.0\",\"id\":%ld,%s}\n", id, members);
        snprintf(member, sizeof member, "\"id\":%ld", id);
        long long begin = now();
        write_all(request, length);
        read_line();
        took[i] = now() - begin;
        if (!strstr(answer, member) || !strstr(answer, expected)) die("unexpected answer");
    }
    for (long i = 0; i < count; i++) printf("%lld\n", took[i]);
    return 0;
}
