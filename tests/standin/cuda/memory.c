/* Memory of a card: real pages where somebody writes, and never more than the card has left. */
#define _GNU_SOURCE
#include "cuda.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_BLOCKS = 4096, GRAIN = 2 << 20 };

struct block {
    pointer at;
    uint64_t bytes;
    uint64_t taken;
    int card;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block blocks[MOST_BLOCKS];

EXPORT result cuMemGetInfo_v2(size_t *available, size_t *total)
{
    int card = -1;
    CALL(enter_card(__func__, &card));
    NEED(available);
    NEED(total);
    *available = free_of(card);
    *total = world->card[card].memory_total - world->card[card].memory_reserved;
    return OK;
}

static result take(int card, uint64_t bytes, pointer *at)
{
    uint64_t taken = (bytes + GRAIN - 1) / GRAIN * GRAIN;
    if (taken > free_of(card)) return OUT_OF_MEMORY;
    struct block *place = NULL;
    for (int i = 0; i < MOST_BLOCKS && place == NULL; i++)
        if (blocks[i].at == 0) place = &blocks[i];
    void *pages = mmap(NULL, taken, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == NULL || pages == MAP_FAILED) return OUT_OF_MEMORY;
    *place = (struct block){(pointer)(uintptr_t)pages, bytes, taken, card};
    atomic_fetch_add(&ourselves()->memory[card], taken);
    *at = place->at;
    return OK;
}

EXPORT result cuMemAlloc_v2(pointer *at, size_t bytes)
{
    int card = -1;
    CALL(enter_card(__func__, &card));
    NEED(at);
    if (bytes == 0) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    result answer = take(card, bytes, at);
    pthread_mutex_unlock(&lock);
    return answer;
}

static void drop(struct block *block)
{
    munmap((void *)(uintptr_t)block->at, block->taken);
    atomic_fetch_sub(&ourselves()->memory[block->card], block->taken);
    block->at = 0;
}

EXPORT result cuMemFree_v2(pointer at)
{
    int card = -1;
    CALL(enter_card(__func__, &card));
    if (at == 0) return OK;
    result answer = INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST_BLOCKS; i++) {
        if (blocks[i].at != at) continue;
        drop(&blocks[i]);
        answer = OK;
        break;
    }
    pthread_mutex_unlock(&lock);
    return answer;
}

/* Memory that is mapped nowhere: the handle is the block's own address. The card is named in the request, whose
 * layout is that of CUmemAllocationProp: kind, handle types, kind of place, number of the card. */
struct wanted {
    int kind;
    int handles;
    int place;
    int device;
};

EXPORT result cuMemCreate(uint64_t *handle, size_t bytes, const struct wanted *wanted, uint64_t flags)
{
    int card = -1;
    CALL(enter_card(__func__, &card));
    NEED(handle);
    NEED(wanted);
    if (flags != 0 || bytes == 0 || bytes % GRAIN != 0) return INVALID_VALUE;
    if (wanted->kind != 1 || wanted->place != 1) return INVALID_VALUE;
    pointer at = 0;
    pthread_mutex_lock(&lock);
    result answer = take(card, bytes, &at);
    pthread_mutex_unlock(&lock);
    if (answer == OK) *handle = at;
    return answer;
}

EXPORT result cuMemRelease(uint64_t handle)
{
    return handle == 0 ? INVALID_VALUE : cuMemFree_v2(handle);
}

void *reach(pointer at, uint64_t bytes)
{
    void *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST_BLOCKS && found == NULL; i++) {
        const struct block *block = &blocks[i];
        if (block->at != 0 && at >= block->at && at - block->at <= block->bytes &&
            bytes <= block->bytes - (at - block->at))
            found = (void *)(uintptr_t)at;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

EXPORT result cuMemcpyHtoD_v2(pointer to, const void *from, size_t bytes)
{
    int card = -1;
    CALL(enter_card(__func__, &card));
    NEED(from);
    void *place = reach(to, bytes);
    if (place == NULL) return INVALID_VALUE;
    memcpy(place, from, bytes);
    return OK;
}

EXPORT result cuMemcpyDtoH_v2(void *to, pointer from, size_t bytes)
{
    int card = -1;
    CALL(enter_card(__func__, &card));
    NEED(to);
    const void *place = reach(from, bytes);
    if (place == NULL) return INVALID_VALUE;
    memcpy(to, place, bytes);
    return OK;
}

EXPORT result cuMemsetD32_v2(pointer to, unsigned value, size_t count)
{
    int card = -1;
    CALL(enter_card(__func__, &card));
    uint32_t *place = reach(to, count * 4);
    if (place == NULL) return INVALID_VALUE;
    for (size_t i = 0; i < count; i++) place[i] = value;
    return OK;
}
