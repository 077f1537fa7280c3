/* The layout of a world file: what the stand-in libraries map and the tests write. layout.py reads it from here.
 *
 * Plain numbers are single aligned words that may change at any moment; strings, lists, metrics and instances of a
 * card are written and read under the lock of the file.
 */
#ifndef STANDIN_WORLD_H
#define STANDIN_WORLD_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    MAX_CARDS = 64,
    MAX_INSTANCES = 8,
    MAX_PROCESSES = 64,
    MAX_SAMPLES = 128,
    MAX_FAULTS = 512,
    MAX_COUNTERS = 65536,
    MAX_STUCK = 1024,
    MAX_METRICS = 256,
    MAX_CUDA = 64,
    NAME_SIZE = 96,
    FUNCTION_SIZE = 72
};

typedef _Atomic uint32_t word;
typedef _Atomic uint64_t wide;

struct process {
    uint64_t memory; /* all bits set: a figure that the driver does not know */
    uint32_t pid;
    uint32_t reserved;
};

struct process_list {
    uint32_t count;
    uint32_t reserved;
    struct process item[MAX_PROCESSES];
};

struct process_sample {
    uint64_t time_us;
    uint32_t pid;
    uint32_t sm;
    uint32_t memory;
    uint32_t encoder;
    uint32_t decoder;
    uint32_t reserved;
};

struct sample {
    uint64_t time_us;
    uint32_t value;
    uint32_t reserved;
};

struct metrics {
    uint32_t supported;
    uint32_t reserved;
    uint8_t known[MAX_METRICS];
    double value[MAX_METRICS];
};

struct instance {
    uint32_t present;
    uint32_t gpu_instance;
    uint64_t memory_total;
    uint64_t memory_reserved;
    uint64_t memory_used;
    char uuid[NAME_SIZE];
    char name[NAME_SIZE];
    struct process_list compute;
    struct metrics metrics;
};

struct card {
    word minor;
    word utilization;
    word memory_utilization;
    word power_mw;
    word power_limit_mw;
    word temperature_c;
    word clock_mhz[4];
    word performance_state;
    word pcie_tx_kbps;
    word pcie_rx_kbps;
    word mig_capable;
    word mig_mode;
    word mig_slots;
    word capability_major;
    word capability_minor;
    wide memory_total;
    wide memory_reserved;
    wide memory_used;
    wide throttle_reasons;
    char uuid[NAME_SIZE];
    char name[NAME_SIZE];
    struct process_list compute;
    struct process_list graphics;
    struct process_list mps;
    uint32_t process_sample_count;
    uint32_t explicit_samples;
    uint32_t sample_count;
    uint32_t reserved;
    struct process_sample process_sample[MAX_PROCESSES];
    struct sample sample[MAX_SAMPLES];
    struct metrics metrics;
    struct instance instance[MAX_INSTANCES];
};

/* An entry counts while `token` is not 0; it is written last and cleared first. */
struct fault {
    wide token;
    wide delay_us;
    int32_t card;
    uint32_t error;
    uint32_t never;
    uint32_t reserved;
    char function[FUNCTION_SIZE];
};

/* A process that has called cuInit in the stand-in libcuda: what it holds of each card. It
 * counts while `pid` with that birth lives; `state` is that of the checkpoint calls. */
struct cuda_process {
    word pid;
    word state;
    wide birth;
    word contexts[MAX_CARDS];
    wide memory[MAX_CARDS];
};

struct world {
    word cards;
    word cuda_version;
    wide next_token;
    char driver_version[80];
    word link_level[MAX_CARDS][MAX_CARDS];
    word link_status[MAX_CARDS][MAX_CARDS];
    struct fault fault[MAX_FAULTS];
    wide calls[MAX_COUNTERS]; /* of each function, in the place that the hash of its name gives */
    wide stuck[MAX_STUCK]; /* process id in the high half, thread id in the low */
    struct card card[MAX_CARDS];
    struct cuda_process cuda[MAX_CUDA];
    wide bad_words[MAX_CARDS]; /* how many words of that card's memory go bad at its next kernel */
};

#endif
