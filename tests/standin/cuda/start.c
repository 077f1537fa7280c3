/* Beginning CUDA: the world, the visible cards, contexts, and the device nodes that real CUDA opens. */
#define _GNU_SOURCE
#include "cuda.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_OPENS = 3, LATER_OPENS = 2, CONTEXT_OPENS = 12, LOST_IN_NVML = 15 };
enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76, WARP_SIZE = 10, MEMORY_BY_HANDLE = 102 };

static struct cuda_process *self;
static int visible[MAX_CARDS];
static int visible_count;
static bool started;
static _Thread_local int current = -1;

struct cuda_process *ourselves(void) { return self; }

/* A lost card is lost to both libraries; NVML's number for it means nothing here. */
static result met(const char *function, int card)
{
    result answer = (result)meet_faults(function, card);
    return answer == LOST_IN_NVML ? UNKNOWN : answer;
}

/* While somebody has locked us, no call of ours goes on. */
static void wait_while_locked(void)
{
    const struct timespec nap = {0, 500000};
    while (self != NULL && self->state != CUDA_RUNNING) nanosleep(&nap, NULL);
}

result enter(const char *function)
{
    if (!started) return NOT_INITIALIZED;
    wait_while_locked();
    count_call(function);
    return met(function, -1);
}

result enter_card(const char *function, int *card)
{
    if (!started) return NOT_INITIALIZED;
    wait_while_locked();
    count_call(function);
    if (*card < 0) *card = current;
    if (*card < 0 || self->contexts[*card] == 0) return INVALID_CONTEXT;
    return met(function, *card);
}

static void open_nodes(int card, int times)
{
    const char *folder = getenv("FALLOW_DEVICES");
    if (folder == NULL || *folder == '\0') return;
    char path[4096];
    snprintf(path, sizeof path, "%s/nvidia%u", folder, (unsigned)world->card[card].minor);
    for (int i = 0; i < times; i++) (void)!open(path, O_RDWR | O_CLOEXEC); /* kept for good */
}

static int find_card(const char *word, size_t length)
{
    char *end;
    long index = strtol(word, &end, 10);
    if (length > 0 && end == word + length) return index < (long)world->cards ? (int)index : -1;
    for (uint32_t i = 0; length > 4 && i < world->cards; i++)
        if (strncmp(world->card[i].uuid, word, length) == 0) return (int)i;
    return -1;
}

static void find_visible(void)
{
    const char *at = getenv("CUDA_VISIBLE_DEVICES");
    visible_count = 0;
    if (at == NULL) {
        for (uint32_t i = 0; i < world->cards; i++) visible[visible_count++] = (int)i;
        return;
    }
    while (*at != '\0' && visible_count < MAX_CARDS) {
        size_t length = strcspn(at, ",");
        int card = find_card(at, length);
        if (card < 0) return;
        for (int i = 0; i < visible_count; i++)
            if (visible[i] == card) { visible_count = 0; return; }
        visible[visible_count++] = card;
        at += length + (at[length] == ',');
    }
}

static bool take_a_place(void)
{
    uint32_t me = (uint32_t)getpid();
    for (int i = 0; i < MAX_CUDA; i++) {
        struct cuda_process *place = &world->cuda[i];
        uint32_t there = place->pid;
        if (there != 0 && there != me && birth_of(there) == place->birth) continue;
        if (!atomic_compare_exchange_strong(&place->pid, &there, me)) continue;
        for (int card = 0; card < MAX_CARDS; card++) place->contexts[card] = 0;
        for (int card = 0; card < MAX_CARDS; card++) place->memory[card] = 0;
        place->state = CUDA_RUNNING;
        place->birth = birth_of(me);
        self = place;
        return true;
    }
    return false;
}

EXPORT result cuInit(unsigned flags)
{
    if (flags != 0) return INVALID_VALUE;
    if (started) return OK;
    if (world == NULL && !map_world()) return NO_DEVICE;
    count_call("cuInit");
    CALL(met("cuInit", -1));
    find_visible();
    if (visible_count == 0) return NO_DEVICE;
    for (int i = 0; i < visible_count; i++) open_nodes(visible[i], FIRST_OPENS);
    const struct timespec pause = {0, 3000000};
    nanosleep(&pause, NULL);
    for (int i = 0; i < visible_count; i++) open_nodes(visible[i], LATER_OPENS);
    if (!take_a_place()) return OUT_OF_MEMORY;
    started = true;
    return OK;
}

EXPORT result cuDriverGetVersion(int *version)
{
    NEED(version);
    if (world == NULL && !map_world()) return NO_DEVICE;
    *version = (int)world->cuda_version;
    return OK;
}

static int card_of_device(int device)
{
    return device >= 0 && device < visible_count ? visible[device] : -1;
}

EXPORT result cuDeviceGet(int *device, int ordinal)
{
    CALL(enter(__func__));
    NEED(device);
    if (card_of_device(ordinal) < 0) return INVALID_DEVICE;
    *device = ordinal;
    return OK;
}

EXPORT result cuDeviceGetAttribute(int *value, int attribute, int device)
{
    CALL(enter(__func__));
    NEED(value);
    int card = card_of_device(device);
    if (card < 0) return INVALID_DEVICE;
    const struct card *about = &world->card[card];
    switch (attribute) {
    case MULTIPROCESSORS: *value = 132; return OK;
    case MAJOR: *value = (int)about->capability_major; return OK;
    case MINOR: *value = (int)about->capability_minor; return OK;
    case WARP_SIZE: *value = 32; return OK;
    case MEMORY_BY_HANDLE: *value = 1; return OK;
    default: return INVALID_VALUE;
    }
}

/* A context is the number of its card and one. */
EXPORT result cuDevicePrimaryCtxRetain(uintptr_t *context, int device)
{
    CALL(enter(__func__));
    NEED(context);
    int card = card_of_device(device);
    if (card < 0) return INVALID_DEVICE;
    CALL(met(__func__, card));
    if (self->contexts[card]++ == 0) open_nodes(card, CONTEXT_OPENS);
    *context = (uintptr_t)card + 1;
    return OK;
}

EXPORT result cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags)
{
    (void)flags;
    CALL(enter(__func__));
    return card_of_device(device) < 0 ? INVALID_DEVICE : OK;
}

EXPORT result cuCtxSetCurrent(uintptr_t context)
{
    CALL(enter(__func__));
    int card = (int)context - 1;
    if (context != 0 && (card >= MAX_CARDS || self->contexts[card] == 0)) return INVALID_CONTEXT;
    current = card;
    return OK;
}

EXPORT result cuCtxSynchronize(void)
{
    int card = -1;
    return enter_card(__func__, &card);
}
