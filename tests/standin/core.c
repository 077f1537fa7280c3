/* Start and end of the library, the mapped world, device handles, consistent reads. */
#define _GNU_SOURCE
#include "core.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PER_CARD = MAX_INSTANCES + 1, PER_LIFE = MAX_CARDS * PER_CARD, LIVES = 64 };

/* A handle is the address of a byte in here: it can be checked without trusting it. */
static char handles[LIVES * PER_LIFE];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct world *) mapped;
static _Atomic bool writable;
static dev_t mapped_device;
static ino_t mapped_inode;
static _Atomic int references;
static _Atomic pid_t owner;
static _Atomic int life;

struct world *current_world(void) { return mapped; }

bool world_writable(void) { return writable; }

/* A forked child has to start the library itself, as with the real one. */
bool library_ready(void) { return references > 0 && owner == getpid(); }

uint64_t clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static bool plausible(const struct world *world)
{
    return world->magic == WORLD_MAGIC && world->version == WORLD_VERSION &&
           world->size == sizeof(struct world) && world->cards >= 1 && world->cards <= MAX_CARDS;
}

/* An earlier world stays mapped: a thread may still be inside a call that reads it. */
static bool map_world(void)
{
    const char *path = getenv("FALLOW_STANDIN_WORLD");
    if (path == NULL || *path == '\0') return false;
    bool write = true;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) {
        write = false;
        file = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (file < 0) return false;
    struct stat about;
    bool good = fstat(file, &about) == 0 && about.st_size == (off_t)sizeof(struct world);
    bool same = good && mapped != NULL && about.st_dev == mapped_device &&
                about.st_ino == mapped_inode && write == writable;
    if (good && !same) {
        int access = write ? PROT_READ | PROT_WRITE : PROT_READ;
        void *place = mmap(NULL, sizeof(struct world), access, MAP_SHARED, file, 0);
        good = place != MAP_FAILED;
        if (good) {
            writable = write;
            mapped = place;
            mapped_device = about.st_dev;
            mapped_inode = about.st_ino;
        }
    }
    close(file);
    return good && plausible(mapped);
}

static nvmlReturn_t start(void)
{
    pthread_mutex_lock(&lock);
    if (references > 0 && owner != getpid()) {
        references = 0;
        life = (life + 1) % LIVES;
    }
    bool usable = references > 0 || map_world();
    pthread_mutex_unlock(&lock);
    if (!usable) return NVML_ERROR_DRIVER_NOT_LOADED;

    struct world *world = mapped;
    count_call(world, "nvmlInit");
    TRY(meet_faults(world, "nvmlInit", -1, -1));
    uint32_t error = world->init_error;
    if (error != NVML_SUCCESS) return (nvmlReturn_t)error;

    pthread_mutex_lock(&lock);
    owner = getpid();
    references++;
    pthread_mutex_unlock(&lock);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlInit_v2(void) { return start(); }
EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return start();
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
    ENTER_SYSTEM();
    pthread_mutex_lock(&lock);
    bool was_ready = library_ready();
    if (was_ready) references--;
    pthread_mutex_unlock(&lock);
    return was_ready ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

nvmlDevice_t handle_of(int card, int instance)
{
    return (nvmlDevice_t)(void *)&handles[life * PER_LIFE + card * PER_CARD + instance + 1];
}

bool handle_target(nvmlDevice_t device, struct target *target)
{
    uintptr_t first = (uintptr_t)handles + (uintptr_t)life * PER_LIFE;
    uintptr_t place = (uintptr_t)device - first;
    if ((uintptr_t)device < first || place >= PER_LIFE) return false;
    target->world = mapped;
    target->index = (int)place / PER_CARD;
    target->instance = (int)place % PER_CARD - 1;
    target->card = &target->world->card[target->index];
    return (uint32_t)target->index < target->world->cards;
}

nvmlReturn_t enter_lookup(const char *function)
{
    if (!library_ready()) return NVML_ERROR_UNINITIALIZED;
    count_call(mapped, function);
    return NVML_SUCCESS;
}

nvmlReturn_t enter_system(const char *function)
{
    TRY(enter_lookup(function));
    return meet_faults(mapped, function, -1, -1);
}

nvmlReturn_t enter_device(const char *function, nvmlDevice_t device, enum scope scope,
                          struct target *target)
{
    TRY(enter_lookup(function));
    if (!handle_target(device, target)) return NVML_ERROR_INVALID_ARGUMENT;
    TRY(meet_faults(target->world, function, target->index, target->instance));
    if (target->instance >= 0 && scope == WHOLE_CARD) return NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

/* A writer is inside while the sequence is odd; what was copied then is copied again. */
nvmlReturn_t read_copy(const struct card *card, void *into, const void *from, size_t size)
{
    const struct timespec pause = {0, 50000};
    const uint64_t give_up = clock_us() + 2000000;
    do {
        uint32_t before = atomic_load_explicit(&card->sequence, memory_order_acquire);
        if ((before & 1u) == 0) {
            memcpy(into, from, size);
            atomic_thread_fence(memory_order_acquire);
            if (atomic_load_explicit(&card->sequence, memory_order_relaxed) == before)
                return NVML_SUCCESS;
        }
        nanosleep(&pause, NULL);
    } while (clock_us() < give_up);
    return NVML_ERROR_UNKNOWN;
}

nvmlReturn_t read_instance(const struct target *target, struct instance *into)
{
    const struct instance *from = &target->card->instance[target->instance];
    TRY(read_copy(target->card, into, from, sizeof *into));
    return target->card->mig_mode && into->present ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t answer_string(const char *text, char *buffer, unsigned length)
{
    REQUIRE(buffer);
    size_t needed = strlen(text) + 1;
    if (length < needed) return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(buffer, text, needed);
    return NVML_SUCCESS;
}
