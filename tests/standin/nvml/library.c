/* Start and end of the library, device handles, and calls that are about no card. */
#define _GNU_SOURCE
#include "nvml.h"

#include <string.h>
#include <unistd.h>

enum { PER_CARD = MAX_INSTANCES + 1 };

/* A handle is the address of a byte in here: it can be checked without trusting it. */
static char handles[MAX_CARDS * PER_CARD];
static _Atomic int references;
static _Atomic pid_t owner; /* a forked child has to start the library itself, as with the real one */

static nvmlReturn_t start(void)
{
    if (owner != getpid()) references = 0;
    /* The world may be another one by now, though a shutdown failed in the one before. */
    if (!map_world() && references == 0) return NVML_ERROR_DRIVER_NOT_LOADED;
    count_call("nvmlInit");
    TRY(meet_faults("nvmlInit", -1));
    owner = getpid();
    references++;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlInit_v2(void) { return start(); }
EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags) { return flags == 0 ? start() : NVML_ERROR_INVALID_ARGUMENT; }

EXPORT nvmlReturn_t nvmlShutdown(void)
{
    TRY(enter_system(__func__));
    references--;
    return NVML_SUCCESS;
}

nvmlReturn_t enter(const char *function)
{
    if (references == 0 || owner != getpid()) return NVML_ERROR_UNINITIALIZED;
    count_call(function);
    return NVML_SUCCESS;
}

nvmlReturn_t enter_system(const char *function)
{
    TRY(enter(function));
    return (nvmlReturn_t)meet_faults(function, -1);
}

nvmlDevice_t handle_of(int card, int slot) { return (nvmlDevice_t)(void *)&handles[card * PER_CARD + slot + 1]; }

nvmlReturn_t find_device(nvmlDevice_t device, struct target *at)
{
    uintptr_t place = (uintptr_t)device - (uintptr_t)handles;
    if (place >= sizeof handles) return NVML_ERROR_INVALID_ARGUMENT;
    at->index = (int)place / PER_CARD;
    at->card = &world->card[at->index];
    int slot = (int)place % PER_CARD - 1;
    at->instance = slot < 0 ? NULL : &at->card->instance[slot];
    return (uint32_t)at->index < world->cards ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t enter_device(const char *function, nvmlDevice_t device, enum scope scope, struct target *at)
{
    TRY(enter(function));
    TRY(find_device(device, at));
    TRY(meet_faults(function, at->index));
    if (at->instance != NULL && scope == WHOLE_CARD) return NVML_ERROR_NOT_SUPPORTED;
    lock_world();
    at->locked = true;
    bool is_gone = at->instance != NULL && !(at->card->mig_mode && at->instance->present);
    return is_gone ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

void leave(struct target *at)
{
    if (at->locked) unlock_world();
}

nvmlReturn_t answer_string(const char *text, char *buffer, unsigned length)
{
    REQUIRE(buffer);
    size_t needed = strlen(text) + 1;
    if (length < needed) return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(buffer, text, needed);
    return NVML_SUCCESS;
}

/* Answers without the library having been started, as the real one does. */
EXPORT const char *nvmlErrorString(unsigned code)
{
    switch (code) {
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    default: return "Unknown Error";
    }
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    TRY(enter_system(__func__));
    return answer_string(world->driver_version, version, length);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    TRY(enter_system(__func__));
    REQUIRE(version);
    *version = (int)world->cuda_version;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    TRY(enter_system(__func__));
    REQUIRE(count);
    *count = world->cards;
    return NVML_SUCCESS;
}

/* A lookup is a call on the card that it finds: a lost card is lost here already. */
EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    TRY(enter(__func__));
    REQUIRE(device);
    if (index >= world->cards) return NVML_ERROR_INVALID_ARGUMENT;
    TRY(meet_faults(__func__, (int)index));
    *device = handle_of((int)index, -1);
    return NVML_SUCCESS;
}
