/* What happened lately: the sample buffers of a card and of its processes. */
#include "core.h"

#include <string.h>

/* The driver keeps some 14 s of five samples a second, and asks for a little more room. */
enum { STEADY_SAMPLES = 70, PERIOD_US = 200000, ROOM = 72, GPU_UTILIZATION = 1 };

struct history {
    unsigned count;
    struct sample sample[MAX_SAMPLES];
};

/* Samples fall on a grid, so that asking twice within a period brings nothing new. */
static void steady(uint32_t value, struct history *history)
{
    uint64_t newest = clock_us();
    newest -= newest % PERIOD_US;
    history->count = STEADY_SAMPLES;
    for (unsigned i = 0; i < STEADY_SAMPLES; i++) {
        history->sample[i].time_us = newest - (uint64_t)(STEADY_SAMPLES - 1 - i) * PERIOD_US;
        history->sample[i].value = value;
    }
}

static nvmlReturn_t recorded(const struct card *card, struct history *history, bool *is_recorded)
{
    struct {
        uint32_t process_sample_count, explicit_samples, sample_count, reserved;
        struct process_sample process_sample[MAX_PROCESSES];
        struct sample sample[MAX_SAMPLES];
    } copy;
    _Static_assert(sizeof copy == offsetof(struct card, metrics) -
                                      offsetof(struct card, process_sample_count),
                   "the copy has the shape of that part of the card");
    TRY(read_copy(card, &copy, &card->process_sample_count, sizeof copy));
    *is_recorded = copy.explicit_samples != 0;
    history->count = copy.sample_count < MAX_SAMPLES ? copy.sample_count : MAX_SAMPLES;
    memcpy(history->sample, copy.sample, sizeof copy.sample);
    return NVML_SUCCESS;
}

static nvmlReturn_t history_of(const struct card *card, struct history *history)
{
    bool is_recorded = false;
    history->count = 0;
    TRY(recorded(card, history, &is_recorded));
    if (!is_recorded) steady(card->utilization, history);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, unsigned type,
                                         unsigned long long last_seen, unsigned *value_type,
                                         unsigned *count, nvmlSample_t *samples)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(value_type);
    REQUIRE(count);
    if (type != GPU_UTILIZATION) return NVML_ERROR_INVALID_ARGUMENT;
    if (is_split(&at)) return NVML_ERROR_NOT_SUPPORTED;
    struct history history;
    TRY(history_of(at.card, &history));
    *value_type = VALUE_TYPE_UNSIGNED_INT;
    if (samples == NULL) {
        *count = history.count > ROOM ? history.count : ROOM;
        return NVML_SUCCESS;
    }
    if (*count == 0) return NVML_ERROR_INVALID_ARGUMENT;
    unsigned written = 0;
    for (unsigned i = 0; i < history.count && written < *count; i++) {
        if (history.sample[i].time_us <= last_seen) continue;
        samples[written].timeStamp = history.sample[i].time_us;
        samples[written].sampleValue.ullVal = 0;
        samples[written].sampleValue.uiVal = history.sample[i].value;
        written++;
    }
    if (written == 0) return NVML_ERROR_NOT_FOUND; /* the count stays as it was */
    *count = written;
    return NVML_SUCCESS;
}

struct active {
    unsigned count;
    struct process_sample item[MAX_PROCESSES];
};

/* The room asked for is that of the driver's buffer, however few processes there are. */
static nvmlReturn_t active_since(const struct target *at, uint64_t last_seen, unsigned *room,
                                 bool nowhere, struct active *active)
{
    if (is_split(at)) return NVML_ERROR_NOT_SUPPORTED;
    if (nowhere || *room < ROOM) {
        *room = ROOM;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    struct {
        uint32_t count, reserved[3];
        struct process_sample item[MAX_PROCESSES];
    } copy;
    TRY(read_copy(at->card, &copy, &at->card->process_sample_count, sizeof copy));
    active->count = 0;
    for (uint32_t i = 0; i < copy.count && i < MAX_PROCESSES; i++)
        if (copy.item[i].time_us > last_seen) active->item[active->count++] = copy.item[i];
    if (active->count == 0) return NVML_ERROR_NOT_FOUND;
    *room = active->count;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                                    nvmlProcessUtilizationSample_t *into,
                                                    unsigned *count, unsigned long long last_seen)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(count);
    struct active active;
    TRY(active_since(&at, last_seen, count, into == NULL, &active));
    for (unsigned i = 0; i < active.count; i++) {
        const struct process_sample *from = &active.item[i];
        into[i] = (nvmlProcessUtilizationSample_t){from->pid,    from->time_us, from->sm,
                                                   from->memory, from->encoder, from->decoder};
    }
    return NVML_SUCCESS;
}
