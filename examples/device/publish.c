/* Publishes one message to Millpond and waits until it is stored and synced: all that a device has to do.
 * usage: publish HOST PORT TOPIC TEXT      prints the message's id; exits 0 if stored, 1 if not, 2 on wrong usage */
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEADER = 9, HELLO = 0x01, PUBLISH = 0x10, PUBLISHED = 0x90, ERROR = 0xE0, CLOSING = 0xE1, CORRELATION = 1 };

static uint8_t out[2048], in[5 * 1024]; /* a hello and a publish; the largest answer, a code and its text */

static uint8_t *put(uint8_t *at, uint64_t value, int bytes) { /* a number, little-endian */
    while (bytes-- > 0) *at++ = (uint8_t)value, value >>= 8;
    return at;
}
static uint8_t *copy(uint8_t *at, const void *from, size_t bytes) { return (uint8_t *)memcpy(at, from, bytes) + bytes; }
static uint64_t get(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    while (bytes-- > 0) value = value << 8 | at[bytes];
    return value;
}
static int read_all(int s, uint8_t *to, size_t bytes) { /* a read may bring less than asked for */
    for (ssize_t n; bytes > 0; to += n, bytes -= (size_t)n)
        if ((n = recv(s, to, bytes, 0)) <= 0) return -1;
    return 0;
}
static int fail(const char *why) { return fprintf(stderr, "publish: %s\n", why), 1; }
static int refused(const uint8_t *at, size_t bytes) { /* a code, and a text behind its length */
    if (bytes < 6) return fail("an answer of unexpected form");
    return fprintf(stderr, "publish: error %u: %.*s\n", (unsigned)get(at, 2), (int)bytes - 6, (const char *)at + 6), 1;
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "usage: publish HOST PORT TOPIC TEXT\n"), 2;
    size_t topic = strlen(argv[3]), body = strlen(argv[4]);
    if (topic > 512 || body > 1024) return fail("a topic has at most 512 bytes, a text here 1024");

    uint8_t *p = out, *frame, *message;
    p = put(p, HEADER - 4 + 4 + 2 + 4, 4);                    /* length of what follows */
    p = put(put(p, HELLO, 1), 0, 4);                          /* kind, correlation */
    p = put(put(copy(p, "MLPD", 4), 1, 2), 0, 4);             /* magic, version, no client name */

    frame = p;                                                /* its length is known at the end */
    p = put(put(p + 4, PUBLISH, 1), CORRELATION, 4);
    p = copy(put(p, 7, 1), "default", 7);                     /* namespace */
    p = put(put(p, 0, 1), 0, 1);                              /* level durable, no producer session */
    p = copy(put(put(p, 1, 4), topic, 2), argv[3], topic);    /* one run: its topic */
    p = put(put(put(p, 4, 1), 0, 8), 0, 1);                   /* priority 4, no delay, TTL of the policy */
    p = put(p, 8 + 1 + body, 4);                              /* the block: one message */
    message = put(put(p, 0, 4), 1 + body, 4);                 /* checksum left to the broker, size */
    p = copy(put(message, 0, 1), argv[4], body);              /* flags, body */
    put(frame, (uint64_t)(p - frame - 4), 4);

    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    if (getaddrinfo(argv[1], argv[2], &hints, &found) != 0) return fail("no such host or port");
    int s = -1;
    for (struct addrinfo *a = found; a != NULL && s < 0; a = a->ai_next)
        if ((s = socket(a->ai_family, SOCK_STREAM, 0)) >= 0 && connect(s, a->ai_addr, a->ai_addrlen) != 0) close(s), s = -1;
    freeaddrinfo(found);
    if (s < 0) return fail("the broker cannot be reached");
    for (const uint8_t *from = out; from < p;) {
        ssize_t n = send(s, from, (size_t)(p - from), MSG_NOSIGNAL);
        if (n <= 0) return fail("the connection broke while sending");
        from += n;
    }

    for (;;) { /* frame after frame, until the answer */
        if (read_all(s, in, HEADER) != 0) return fail("the connection broke before the answer: it may be stored or not");
        uint64_t length = get(in, 4), kind = in[4], correlation = get(in + 5, 4);
        if (length < HEADER - 4 || length - (HEADER - 4) > sizeof in) return fail("an answer of unexpected size");
        size_t payload = (size_t)length - (HEADER - 4);
        if (read_all(s, in, payload) != 0) return fail("the connection broke inside of the answer");
        if (kind == CLOSING || (kind == ERROR && correlation == CORRELATION)) return refused(in, payload);
        if (kind != PUBLISHED || correlation != CORRELATION) continue;
        if (payload > 9 && in[8] != 0) return refused(in + 9, payload - 9); /* behind rows, count, outcome */
        if (payload < 26) return fail("an answer of unexpected form");
        printf("%llu.%u.%llu\n", (unsigned long long)get(in + 9, 8), in[17], (unsigned long long)get(in + 18, 8));
        return close(s) == 0 ? 0 : 1;
    }
}
