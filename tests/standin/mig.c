/* Cards split into instances. */
#include "core.h"

enum { USUAL_SLOTS = 7 };

/* While a card is split, the driver gives no utilization for it nor for its instances. */
bool is_split(const struct target *target)
{
    return target->instance >= 0 || target->card->mig_mode != 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(current);
    REQUIRE(pending);
    if (!at.card->mig_capable) return NVML_ERROR_NOT_SUPPORTED;
    *current = at.card->mig_mode;
    *pending = at.card->mig_pending;
    return NVML_SUCCESS;
}

static unsigned slots(const struct card *card)
{
    if (!card->mig_mode) return 0;
    return card->mig_slots > USUAL_SLOTS ? card->mig_slots : USUAL_SLOTS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(count);
    if (!at.card->mig_capable) return NVML_ERROR_NOT_SUPPORTED;
    *count = slots(at.card);
    return NVML_SUCCESS;
}

/* Makes the target the instance in that slot, if one is there. */
static nvmlReturn_t find_slot(struct target *at, unsigned index)
{
    if (at->instance >= 0 || !at->card->mig_capable) return NVML_ERROR_NOT_SUPPORTED;
    if (!at->card->mig_mode) return NVML_ERROR_NOT_FOUND;
    if (index >= slots(at->card)) return NVML_ERROR_INVALID_ARGUMENT;
    struct target wanted = *at;
    wanted.instance = (int)index;
    struct instance found;
    nvmlReturn_t got = read_instance(&wanted, &found);
    if (got == NVML_SUCCESS) *at = wanted;
    return got == NVML_ERROR_INVALID_ARGUMENT ? NVML_ERROR_NOT_FOUND : got;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index,
                                                        nvmlDevice_t *instance)
{
    struct target at;
    TRY(enter_lookup(__func__));
    REQUIRE(instance);
    if (!handle_target(device, &at)) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t answer = find_slot(&at, index);
    TRY(meet_faults(at.world, __func__, at.index, at.instance));
    if (answer == NVML_SUCCESS) *instance = handle_of(at.index, at.instance);
    return answer;
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is_instance)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(is_instance);
    *is_instance = at.instance >= 0;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t instance,
                                                                 nvmlDevice_t *device)
{
    ENTER(instance, CARD_OR_INSTANCE);
    REQUIRE(device);
    if (at.instance < 0) return NVML_ERROR_INVALID_ARGUMENT;
    *device = handle_of(at.index, -1);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(id);
    if (at.instance < 0) return NVML_ERROR_INVALID_ARGUMENT;
    struct instance instance;
    TRY(read_instance(&at, &instance));
    *id = instance.gpu_instance;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *id)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(id);
    if (at.instance < 0) return NVML_ERROR_INVALID_ARGUMENT;
    struct instance instance;
    TRY(read_instance(&at, &instance));
    *id = instance.compute_instance;
    return NVML_SUCCESS;
}

static nvmlReturn_t attributes(const struct target *at, nvmlDeviceAttributes_t *into)
{
    REQUIRE(into);
    if (at->instance < 0) return NVML_ERROR_NOT_SUPPORTED;
    struct instance from;
    TRY(read_instance(at, &from));
    *into = (nvmlDeviceAttributes_t){
        from.multiprocessors, from.copy_engines, from.decoders,       from.encoders, from.jpegs,
        from.ofas,            from.gpu_slices,   from.compute_slices, from.memory_total >> 20,
    };
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *into)
{
    ENTER(device, CARD_OR_INSTANCE);
    return attributes(&at, into);
}

EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *into)
{
    ENTER(device, CARD_OR_INSTANCE);
    return attributes(&at, into);
}
