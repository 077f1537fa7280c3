/* Modules, streams, events, and the kernels of `fallow burn` by their names and contracts.
 *
 *   fallow_fill(place, quads, seed)              every word becomes the pattern of its number
 *   fallow_check(place, quads, seed, wrong)      counts the words that are not
 *   fallow_compare(one, other, quads, wrong)     counts the words that differ
 *   fallow_multiply(operands, result, tiles, steps)  the result depends on every operand word
 *
 * A launch runs at once. Words that a test let go bad on a card do so just before.
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum kernel { FILL = 1, CHECK, COMPARE, MULTIPLY, KERNELS };
static const char *const names[KERNELS] = {"", "fallow_fill", "fallow_check", "fallow_compare",
                                           "fallow_multiply"};
enum { TILE_BYTES = 4096, RESULT_WORDS = 128 };

struct module {
    char text[1];
};

EXPORT result cuModuleLoadData(struct module **module, const char *image)
{
    int card = -1;
    CALL(enter_card(__func__, &card));
    NEED(module);
    NEED(image);
    if (strstr(image, ".version") == NULL || strstr(image, ".target") == NULL) return INVALID_PTX;
    *module = malloc(strlen(image) + 1);
    if (*module == NULL) return OUT_OF_MEMORY;
    strcpy((*module)->text, image);
    return OK;
}

EXPORT result cuModuleGetFunction(uintptr_t *function, struct module *module, const char *name)
{
    int card = -1;
    CALL(enter_card(__func__, &card));
    NEED(function);
    NEED(module);
    NEED(name);
    char entry[128] = ".entry ";
    strncat(entry, name, sizeof entry - 9);
    strcat(entry, "(");
    if (strstr(module->text, entry) == NULL) return NOT_FOUND;
    for (int kernel = FILL; kernel < KERNELS; kernel++) {
        if (strcmp(names[kernel], name) != 0) continue;
        *function = (uintptr_t)kernel;
        return OK;
    }
    return NOT_FOUND;
}

static uint32_t pattern(uint32_t number, uint32_t seed)
{
    uint32_t word = number * 0x9E3779B1u + seed;
    word ^= word >> 15;
    word *= 0x85EBCA77u;
    return word ^ word >> 13;
}

/* A bad word of the card's memory: one bit is wrong, once. */
static void go_bad(int card, uint32_t *words, uint64_t count)
{
    uint64_t bad = atomic_exchange(&world->bad_words[card], 0);
    for (uint64_t i = 0; i < bad && i < count; i++) words[count - 1 - i] ^= 1u << (i % 32);
}

static result fill(void **given)
{
    uint32_t quads = *(uint32_t *)given[1], seed = *(uint32_t *)given[2];
    uint32_t *words = reach(*(pointer *)given[0], (uint64_t)quads * 16);
    if (words == NULL) return ILLEGAL_ADDRESS;
    for (uint64_t i = 0; i < (uint64_t)quads * 4; i++) words[i] = pattern((uint32_t)i, seed);
    return OK;
}

static result check(int card, void **given)
{
    uint32_t quads = *(uint32_t *)given[1], seed = *(uint32_t *)given[2];
    uint32_t *words = reach(*(pointer *)given[0], (uint64_t)quads * 16);
    uint64_t *wrong = reach(*(pointer *)given[3], sizeof *wrong);
    if (words == NULL || wrong == NULL) return ILLEGAL_ADDRESS;
    go_bad(card, words, (uint64_t)quads * 4);
    for (uint64_t i = 0; i < (uint64_t)quads * 4; i++)
        *wrong += words[i] != pattern((uint32_t)i, seed);
    return OK;
}

static result compare(void **given)
{
    uint32_t quads = *(uint32_t *)given[2];
    const uint32_t *one = reach(*(pointer *)given[0], (uint64_t)quads * 16);
    const uint32_t *other = reach(*(pointer *)given[1], (uint64_t)quads * 16);
    uint64_t *wrong = reach(*(pointer *)given[3], sizeof *wrong);
    if (one == NULL || other == NULL || wrong == NULL) return ILLEGAL_ADDRESS;
    for (uint64_t i = 0; i < (uint64_t)quads * 4; i++) *wrong += one[i] != other[i];
    return OK;
}

/* No product of matrices, but a result that any wrong operand word changes; it takes a while, as one would. */
static result multiply(int card, void **given, uint64_t threads)
{
    const struct timespec a_while = {0, 1000000};
    uint32_t tiles = *(uint32_t *)given[2], steps = *(uint32_t *)given[3];
    uint64_t count = (uint64_t)tiles * TILE_BYTES / 4;
    const uint32_t *operands = reach(*(pointer *)given[0], count * 4);
    uint32_t *into = reach(*(pointer *)given[1], threads * RESULT_WORDS * 4);
    if (operands == NULL || into == NULL) return ILLEGAL_ADDRESS;
    uint32_t sum = steps;
    for (uint64_t i = 0; i < count; i++) sum = (sum ^ operands[i]) * 16777619u;
    for (uint64_t i = 0; i < threads * RESULT_WORDS; i++) into[i] = pattern((uint32_t)i, sum);
    go_bad(card, into, threads * RESULT_WORDS);
    nanosleep(&a_while, NULL);
    return OK;
}

EXPORT result cuLaunchKernel(uintptr_t kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z,
                             unsigned shared, void *stream, void **given, void **extra)
{
    int card = -1;
    CALL(enter_card(__func__, &card));
    (void)shared;
    (void)stream;
    if (kernel < FILL || kernel >= KERNELS) return INVALID_HANDLE;
    uint64_t threads =
        (uint64_t)grid_x * grid_y * grid_z * block_x * block_y * block_z;
    if (given == NULL || extra != NULL || threads == 0) return INVALID_VALUE;
    switch ((enum kernel)kernel) {
    case FILL: return fill(given);
    case CHECK: return check(card, given);
    case COMPARE: return compare(given);
    default: return multiply(card, given, threads);
    }
}

EXPORT result cuStreamCreate(uintptr_t *stream, unsigned flags)
{
    (void)flags;
    int card = -1;
    CALL(enter_card(__func__, &card));
    NEED(stream);
    *stream = (uintptr_t)card + 1;
    return OK;
}

struct event {
    uint64_t at_us;
};

EXPORT result cuEventCreate(struct event **event, unsigned flags)
{
    (void)flags;
    int card = -1;
    CALL(enter_card(__func__, &card));
    NEED(event);
    *event = calloc(1, sizeof **event);
    return *event == NULL ? OUT_OF_MEMORY : OK;
}

EXPORT result cuEventRecord(struct event *event, uintptr_t stream)
{
    (void)stream;
    int card = -1;
    CALL(enter_card(__func__, &card));
    NEED(event);
    event->at_us = clock_us();
    return OK;
}

EXPORT result cuEventSynchronize(struct event *event)
{
    int card = -1;
    CALL(enter_card(__func__, &card));
    NEED(event);
    return OK;
}

EXPORT result cuEventElapsedTime_v2(float *ms, struct event *from, struct event *to)
{
    int card = -1;
    CALL(enter_card(__func__, &card));
    NEED(ms);
    NEED(from);
    NEED(to);
    *ms = (float)(to->at_us - from->at_us) / 1000.0f;
    return OK;
}
