/* GPU performance monitoring: two samples, and the metrics of the time between them. */
#include "core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct nvmlGpmSample_st {
    uint64_t taken_us; /* 0: nothing read into it yet */
    struct metrics metrics;
};

enum { GPM_VERSION = 1, MOST_METRICS = 600, LAST_METRIC = 209 };

EXPORT nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
    ENTER(device, CARD_OR_INSTANCE);
    REQUIRE(support);
    if (support->version != GPM_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    struct metrics metrics;
    TRY(read_copy(at.card, &metrics, &at.card->metrics, sizeof metrics));
    support->isSupportedDevice = metrics.supported != 0;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    ENTER_SYSTEM();
    REQUIRE(sample);
    *sample = calloc(1, sizeof **sample);
    return *sample != NULL ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

static void fill(nvmlGpmSample_t sample, const struct metrics *metrics)
{
    sample->metrics = *metrics;
    sample->taken_us = clock_us();
}

EXPORT nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(sample);
    struct metrics metrics;
    TRY(read_copy(at.card, &metrics, &at.card->metrics, sizeof metrics));
    if (!metrics.supported) return NVML_ERROR_NOT_SUPPORTED;
    fill(sample, &metrics);
    return NVML_SUCCESS;
}

/* Which instance is told by the number, not by the handle: that one is the card's. */
EXPORT nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned gpu_instance,
                                        nvmlGpmSample_t sample)
{
    ENTER(device, WHOLE_CARD);
    REQUIRE(sample);
    struct metrics metrics;
    TRY(read_copy(at.card, &metrics, &at.card->metrics, sizeof metrics));
    if (!metrics.supported) return NVML_ERROR_NOT_SUPPORTED;
    for (at.instance = 0; at.instance < MAX_INSTANCES; at.instance++) {
        struct instance instance;
        nvmlReturn_t got = read_instance(&at, &instance);
        if (got == NVML_ERROR_INVALID_ARGUMENT) continue; /* a hole */
        TRY(got);
        if (instance.gpu_instance != gpu_instance) continue;
        if (!instance.metrics.supported) return NVML_ERROR_NOT_SUPPORTED;
        fill(sample, &instance.metrics);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

static void answer_metric(nvmlGpmMetric_t *metric, nvmlGpmSample_t first, nvmlGpmSample_t second)
{
    unsigned id = metric->metricId;
    if (id < 1 || id > LAST_METRIC) {
        metric->nvmlReturn = NVML_ERROR_INVALID_ARGUMENT;
        return;
    }
    if (second->taken_us == 0) {
        metric->nvmlReturn = NVML_ERROR_UNINITIALIZED;
        metric->value = 0;
    } else if (!second->metrics.known[id]) {
        metric->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        metric->value = NAN;
    } else {
        metric->nvmlReturn = NVML_SUCCESS;
        metric->value = second->taken_us < first->taken_us ? NAN : second->metrics.value[id];
    }
}

/* The world holds rates, so the second sample alone says what the time between was like. */
EXPORT nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get)
{
    ENTER_SYSTEM();
    REQUIRE(get);
    if (get->version != GPM_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlGpmSample_t first = get->sample1, second = get->sample2;
    REQUIRE(first);
    REQUIRE(second);
    if (first == second || get->numMetrics < 1 || get->numMetrics > MOST_METRICS)
        return NVML_ERROR_INVALID_ARGUMENT;
    if ((first->taken_us == 0) != (second->taken_us == 0)) return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < get->numMetrics; i++) answer_metric(&get->metrics[i], first, second);
    return NVML_SUCCESS;
}
