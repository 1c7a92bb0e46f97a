/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open machine, its host threads and its lock.
 *
 * Invariant: work of a host thread is visible to another thread only through a step that was handed
 * over. So a thread's step advances each time its clock is given away; later work is not covered by
 * that clock.
 */
#include "tests/double/double_machine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_OWN = 32 }; /* numbers of threads that did not choose one */

struct token {
    struct token *next;
    const void *address;
    struct double_clock clock;
};

static struct double_machine machine;
static struct token *tokens;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_open;
static bool is_by_environment;
static pid_t opened_in;
static pid_t this_process;
static uint32_t n_opened;
static bool own_numbers[DOUBLE_MAX_THREADS]; /* numbers of threads that are alive */
static pthread_key_t at_thread_end;

/* Of the calling thread; valid for one machine. */
static _Thread_local struct {
    uint32_t opened;
    uint32_t number;
} me;

void *double_machine_alloc(size_t len)
{
    void *memory = calloc(1, len > 0 ? len : 1);
    if (!memory) {
        (void)fputs("the double of CUDA: no memory\n", stderr);
        abort();
    }
    return memory;
}

struct double_machine *double_machine(void)
{
    return &machine;
}

static void lock_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void unlock_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* Asking the kernel at each call would take a third of a test's time. */
static void note_process(void)
{
    this_process = getpid();
    pthread_mutex_unlock(&lock);
}

pid_t double_machine_process(void)
{
    return this_process;
}

/* Run what can run; what was not given back by then is left over. */
static void report_leftovers(void)
{
    double_run_all();
    pthread_mutex_lock(&lock);
    double_memory_left_over();
    double_queue_left_over();
    double_event_left_over();
    double_graph_left_over();
    double_driver_left_over();
    pthread_mutex_unlock(&lock);
}

/*
 * The machine is not closed: other threads of the program may be inside, and end with the process.
 */
static void end_of_program(void)
{
    if (!is_open || !is_by_environment || opened_in != getpid())
        return;
    report_leftovers();
    if (double_report()[0] == '\0')
        return;
    (void)fprintf(stderr, "the double of CUDA found:\n%s", double_report());
    (void)fflush(NULL);
    _exit(86);
}

/* The value is the number and the machine in which it was taken. */
static void give_number_back(void *value)
{
    uintptr_t word = (uintptr_t)value;
    pthread_mutex_lock(&lock);
    if (word / DOUBLE_MAX_THREADS == n_opened)
        own_numbers[word % DOUBLE_MAX_THREADS] = false;
    pthread_mutex_unlock(&lock);
}

/*
 * A thread that gets the number of an ended thread begins as a new one; it is right that it comes
 * after that thread.
 */
static uint32_t take_number(void)
{
    uint32_t number = FIRST_OWN;
    while (number < DOUBLE_MAX_THREADS - 1 && own_numbers[number])
        number++;
    own_numbers[number] = true;
    struct double_thread_state *thread = &machine.threads[number];
    thread->device = thread->chosen = thread->bound = 0;
    thread->last_error = cudaSuccess;
    thread->mode = cudaStreamCaptureModeGlobal;
    memset(thread->own_stream, 0, sizeof thread->own_stream);
    uintptr_t word = (uintptr_t)n_opened * DOUBLE_MAX_THREADS + number;
    (void)pthread_setspecific(at_thread_end, (const void *)word);
    return number;
}

static void choose_policy(const char *value, struct double_options *options)
{
    if (strncmp(value, "late", 4) == 0)
        options->policy = DOUBLE_LATE;
    else if (strncmp(value, "early", 5) == 0)
        options->policy = DOUBLE_EARLY;
    else if (strncmp(value, "random", 6) == 0)
        options->policy = DOUBLE_RANDOM;
}

static void read_environment(struct double_options *options)
{
    const char *text = getenv("MR_CUDA_DOUBLE");
    const char *at;
    if (!text)
        return;
    if ((at = strstr(text, "devices=")))
        options->n_devices = (uint32_t)strtoul(at + 8, NULL, 10);
    if ((at = strstr(text, "seed=")))
        options->seed = strtoull(at + 5, NULL, 10);
    options->no_registration = strstr(text, "registration=no") != NULL;
    if ((at = strstr(text, "policy=")))
        choose_policy(at + 7, options);
}

static void set_defaults(struct double_options *options)
{
    if (options->n_devices == 0)
        options->n_devices = 1;
    if (options->n_devices > DOUBLE_MAX_DEVICES)
        options->n_devices = DOUBLE_MAX_DEVICES;
    if (options->driver_version == 0)
        options->driver_version = CUDART_VERSION;
    if (options->device_bytes == 0)
        options->device_bytes = UINT64_C(16) << 30;
    if (options->h2d_mb_per_s == 0)
        options->h2d_mb_per_s = 50000;
    if (options->d2h_mb_per_s == 0)
        options->d2h_mb_per_s = 50000;
    if (options->kernel_ns == 0)
        options->kernel_ns = 10000;
    if (options->call_ns == 0)
        options->call_ns = 1000;
    if (options->page_bytes == 0)
        options->page_bytes = 4096;
}

static void open_machine(const struct double_options *options)
{
    static bool prepared;
    if (!prepared) {
        (void)pthread_key_create(&at_thread_end, give_number_back);
        pthread_atfork(lock_before_fork, unlock_after_fork, note_process);
        (void)atexit(end_of_program);
        prepared = true;
    }
    memset(&machine, 0, sizeof machine);
    machine.options = *options;
    set_defaults(&machine.options);
    machine.random = machine.options.seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    pthread_cond_init(&machine.changed, NULL);
    double_report_reset();
    double_call_reset();
    memset(own_numbers, 0, sizeof own_numbers);
    n_opened++;
    opened_in = this_process = getpid();
    is_open = true;
}

/* The lock is held. */
static void close_machine(void)
{
    double_queue_reset();
    double_event_reset();
    double_capture_reset();
    double_graph_reset();
    double_memory_reset();
    double_timeline_reset();
    for (uint32_t i = 0; i < DOUBLE_MAX_THREADS; i++)
        double_clock_fini(&machine.threads[i].clock);
    while (tokens) {
        struct token *next = tokens->next;
        double_clock_fini(&tokens->clock);
        free(tokens);
        tokens = next;
    }
    pthread_cond_destroy(&machine.changed);
    is_open = false;
}

void double_machine_lock(void)
{
    pthread_mutex_lock(&lock);
    if (is_open)
        return;
    struct double_options options = {.policy = DOUBLE_EARLY};
    read_environment(&options);
    open_machine(&options);
    is_by_environment = true;
}

void double_machine_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void double_machine_sleep(void)
{
    pthread_cond_wait(&machine.changed, &lock);
}

void double_machine_wake(void)
{
    pthread_cond_broadcast(&machine.changed);
}

void double_open(const struct double_options *options)
{
    pthread_mutex_lock(&lock);
    if (is_open)
        close_machine();
    is_by_environment = false;
    open_machine(options);
    pthread_mutex_unlock(&lock);
}

uint32_t double_close(void)
{
    pthread_mutex_lock(&lock);
    if (!is_open) {
        pthread_mutex_unlock(&lock);
        return 0;
    }
    pthread_mutex_unlock(&lock);
    report_leftovers();
    pthread_mutex_lock(&lock);
    close_machine();
    pthread_mutex_unlock(&lock);
    return double_report_count();
}

uint32_t double_machine_component(void)
{
    return machine.n_components++;
}

static struct double_thread_state *thread_at(uint32_t number)
{
    struct double_thread_state *thread = &machine.threads[number];
    if (thread->known)
        return thread;
    thread->known = true;
    thread->component = double_machine_component();
    (void)snprintf(thread->name, sizeof thread->name, "host thread %u", (unsigned)number);
    double_clock_set(&thread->clock, thread->component, 1);
    return thread;
}

uint32_t double_machine_thread_number(void)
{
    if (me.opened != n_opened) {
        me.opened = n_opened;
        me.number = take_number();
    }
    return me.number;
}

struct double_thread_state *double_machine_thread(void)
{
    return thread_at(double_machine_thread_number());
}

/* Trusted threads share the clock of the first of them. */
static struct double_thread_state *clock_owner(uint32_t number)
{
    return thread_at(machine.options.threads == DOUBLE_THREADS_TRUSTED ? 0 : number);
}

struct double_clock *double_machine_clock(uint32_t *component_out)
{
    struct double_thread_state *owner = clock_owner(double_machine_thread_number());
    if (component_out)
        *component_out = owner->component;
    return &owner->clock;
}

struct double_epoch double_machine_epoch(const char *what)
{
    uint32_t component;
    const struct double_clock *clock = double_machine_clock(&component);
    return (struct double_epoch){component, double_clock_get(clock, component), what,
                                 double_machine_thread()->name, true};
}

static void next_step(struct double_thread_state *owner)
{
    double_clock_set(&owner->clock, owner->component,
                     double_clock_get(&owner->clock, owner->component) + 1);
}

void double_machine_next_step(void)
{
    next_step(clock_owner(double_machine_thread_number()));
}

/* splitmix64 */
uint64_t double_machine_random(uint64_t below)
{
    uint64_t x = machine.random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (x ^ (x >> 31)) % below;
}

void double_machine_break(int device, cudaError_t error)
{
    if (machine.devices[device].broken != cudaSuccess)
        return;
    machine.devices[device].broken = error;
    double_schedule_abandon(device);
    double_machine_wake();
}

bool double_machine_is_broken(void)
{
    for (uint32_t i = 0; i < machine.options.n_devices; i++)
        if (machine.devices[i].broken != cudaSuccess)
            return true;
    return false;
}

void double_break_device(int device, cudaError_t error)
{
    double_machine_lock();
    double_machine_break(device, error);
    double_machine_unlock();
}

void double_as_thread(uint32_t i)
{
    double_machine_lock();
    me.opened = n_opened;
    me.number = i < FIRST_OWN ? i : FIRST_OWN - 1;
    double_machine_unlock();
}

uint32_t double_thread(void)
{
    double_machine_lock();
    uint32_t number = double_machine_thread_number();
    double_machine_unlock();
    return number;
}

void double_handoff(uint32_t from, uint32_t to)
{
    double_machine_lock();
    struct double_thread_state *giver = clock_owner(from % DOUBLE_MAX_THREADS);
    struct double_thread_state *taker = clock_owner(to % DOUBLE_MAX_THREADS);
    if (giver != taker) {
        double_clock_join(&taker->clock, &giver->clock);
        next_step(giver);
    }
    struct double_thread_state *late = thread_at(to % DOUBLE_MAX_THREADS);
    uint64_t now_ns = thread_at(from % DOUBLE_MAX_THREADS)->now_ns;
    if (late->now_ns < now_ns)
        late->now_ns = now_ns;
    double_machine_unlock();
}

static struct token *find_token(const void *address)
{
    for (struct token *token = tokens; token; token = token->next)
        if (token->address == address)
            return token;
    struct token *token = double_machine_alloc(sizeof *token);
    token->address = address;
    token->next = tokens;
    tokens = token;
    return token;
}

void double_release(const void *address)
{
    double_machine_lock();
    double_clock_join(&find_token(address)->clock, double_machine_clock(NULL));
    double_machine_next_step();
    double_machine_unlock();
}

void double_acquire(const void *address)
{
    double_machine_lock();
    double_clock_join(double_machine_clock(NULL), &find_token(address)->clock);
    double_machine_unlock();
}

void double_host_work(const char *name, uint64_t ns)
{
    double_machine_lock();
    struct double_thread_state *thread = double_machine_thread();
    uint64_t begin_ns = thread->now_ns;
    thread->now_ns += ns;
    if (name)
        double_timeline_host(name, begin_ns, thread->now_ns);
    double_machine_unlock();
}

uint64_t double_now_ns(void)
{
    double_machine_lock();
    uint64_t now_ns = double_machine_thread()->now_ns;
    double_machine_unlock();
    return now_ns;
}

void double_open_gate(uint32_t gate)
{
    double_machine_lock();
    machine.gates[gate % 64] = true;
    double_schedule_pump();
    double_machine_wake();
    double_machine_unlock();
}
