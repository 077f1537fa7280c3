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
    *pending = at.card->mig_mode;
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
