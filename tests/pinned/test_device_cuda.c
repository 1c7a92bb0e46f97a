/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device on the double of the runtime: which GPU a name means and why there is none, what
 * stays unchanged for the calling thread, page-locking in pieces, and the messages of failures.
 */
#include "pinned/device.h"
#include "pinned/slot.h"

#include "tests/double/cuda_double.h"
#include "tests/pinned/plain_columns.h"
#include "tests/support/assert_words.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SLOT = 8192, N_SLOTS = 5 };

static const struct mr_device_ops *const ops = &mr_device_cuda;

static void begin(uint32_t n_devices)
{
    unsetenv("LOCAL_RANK");
    double_open(&(struct double_options){.n_devices = n_devices});
}

static void expect_clean(void)
{
    if (double_close() != 0)
        fail_msg("%s", double_report());
}

static void expect_error(const mr_error *error, mr_status status, const char *words)
{
    if (error->status != (int32_t)status || !strstr(error->text, words))
        fail_msg("%s: '%s' lacks '%s'", mr_status_name((mr_status)error->status), error->text,
                 words);
}

static struct mr_device_handle *open_id(int32_t id)
{
    struct mr_device_handle *handle;
    mr_error error;
    assert_ok(ops->open(id, &handle, &error), &error);
    return handle;
}

static void expect_no_handle(int32_t id, const char *words)
{
    struct mr_device_handle *handle = NULL;
    mr_error error;
    assert_int_equal(ops->open(id, &handle, &error), MR_ERR_NO_DEVICE);
    expect_error(&error, MR_ERR_NO_DEVICE, words);
    assert_null(handle);
}

/* ---- which device ---- */

static void no_driver_and_an_old_one_are_told_apart(void **state)
{
    (void)state;
    uint32_t n = 7;
    mr_error error;
    double_open(&(struct double_options){.driver_version = -1});
    assert_int_equal(ops->count(&n, &error), MR_ERR_NO_DEVICE);
    assert_int_equal(n, 7);
    expect_error(&error, MR_ERR_NO_DEVICE, "no NVIDIA driver");
    expect_no_handle(0, "no NVIDIA driver");
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    expect_clean();
    double_open(&(struct double_options){.driver_version = 11080});
    assert_int_equal(ops->count(&n, &error), MR_ERR_NO_DEVICE);
    expect_error(&error, MR_ERR_NO_DEVICE,
                 "the NVIDIA driver supports CUDA 11.8, this program needs 1");
    expect_clean();
}

static void no_device_names_what_hides_them(void **state)
{
    (void)state;
    uint32_t n;
    mr_error error;
    double_open(&(struct double_options){.no_device = true});
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    assert_int_equal(ops->count(&n, &error), MR_ERR_NO_DEVICE);
    expect_error(&error, MR_ERR_NO_DEVICE, "(CUDA_VISIBLE_DEVICES=-1)");
    unsetenv("CUDA_VISIBLE_DEVICES");
    assert_int_equal(ops->count(&n, &error), MR_ERR_NO_DEVICE);
    expect_error(&error, MR_ERR_NO_DEVICE, "no CUDA device (CUDA_VISIBLE_DEVICES is not set)");
    expect_clean();
}

static void an_ordinal_out_of_range_names_how_many_there_are(void **state)
{
    (void)state;
    begin(2);
    expect_no_handle(2, "device 'cuda:2' does not exist; 2 visible");
    expect_no_handle(-2, "does not exist");
    expect_clean();
}

static void local_is_the_only_one_or_that_of_the_rank(void **state)
{
    (void)state;
    static const char *const wrong[] = {"3", "", "-1", "1x", " 1", "99999999999999999999"};
    begin(1);
    setenv("LOCAL_RANK", "5", 1);
    struct mr_device_handle *handle = open_id(MR_DEVICE_LOCAL);
    assert_int_equal(handle->device.id, 0);
    ops->close(handle);
    expect_clean();
    begin(3);
    expect_no_handle(MR_DEVICE_LOCAL, "LOCAL_RANK is not set");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("LOCAL_RANK", wrong[i], 1);
        expect_no_handle(MR_DEVICE_LOCAL, "LOCAL_RANK is ");
    }
    setenv("LOCAL_RANK", "2", 1);
    handle = open_id(MR_DEVICE_LOCAL);
    assert_int_equal(handle->device.id, 2);
    ops->close(handle);
    unsetenv("LOCAL_RANK");
    expect_clean();
}

/* ---- what stays unchanged for the caller ---- */

struct rig {
    struct mr_device_handle *handle;
    void *memory;
    void *event;
    uint8_t *host;
};

static struct rig make_rig(int32_t id)
{
    struct rig rig = {.handle = open_id(id), .host = aligned_alloc(4096, SLOT * N_SLOTS)};
    mr_error error;
    assert_non_null(rig.host);
    assert_int_equal(ops->pin(rig.handle, rig.host, SLOT, N_SLOTS, &error), MR_OK);
    assert_int_equal(ops->alloc(rig.handle, SLOT, &rig.memory, &error), MR_OK);
    assert_int_equal(ops->event_create(rig.handle, &rig.event, &error), MR_OK);
    return rig;
}

static void end_rig(struct rig *rig)
{
    ops->event_destroy(rig->handle, rig->event);
    ops->free(rig->handle, rig->memory);
    ops->unpin(rig->handle);
    ops->close(rig->handle);
    free(rig->host);
}

static void call_all(struct rig *rig)
{
    mr_error error;
    int64_t ns;
    assert_int_equal(ops->copy_in(rig->handle, rig->memory, rig->host, SLOT, &error), MR_OK);
    assert_int_equal(ops->record(rig->handle, rig->event, rig->handle->copy_stream, &error), MR_OK);
    assert_int_equal(ops->sync(rig->handle, rig->event, &error), MR_OK);
    assert_int_equal(ops->elapsed(rig->handle, rig->event, rig->event, &ns, &error), MR_OK);
    assert_int_equal(ns, 0);
    assert_int_equal(ops->record(rig->handle, rig->event, NULL, &error), MR_OK);
    assert_int_equal(ops->wait(rig->handle, NULL, rig->event, &error), MR_OK);
    assert_int_equal(ops->check_capture(rig->handle, NULL, &error), MR_OK);
    assert_int_equal(ops->sync(rig->handle, rig->event, &error), MR_OK);
    (void)ops->numa_node(rig->handle);
}

static void a_callers_device_mode_and_last_error_stay(void **state)
{
    (void)state;
    static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal,
                                                       cudaStreamCaptureModeThreadLocal};
    begin(2);
    for (int own = 0; own < 2; own++) {
        enum cudaStreamCaptureMode mode = modes[own];
        int device;
        assert_int_equal(cudaSetDevice(own), cudaSuccess);
        (void)cudaThreadExchangeStreamCaptureMode(&mode);
        for (int pending = 0; pending < 2; pending++) {
            cudaError_t before = pending ? cudaSetDevice(99) : cudaSuccess;
            struct rig rig = make_rig(1);
            call_all(&rig);
            end_rig(&rig);
            assert_int_equal(cudaGetDevice(&device), cudaSuccess);
            assert_int_equal(device, own);
            assert_int_equal(cudaPeekAtLastError(), before);
            (void)cudaGetLastError();
        }
        (void)cudaThreadExchangeStreamCaptureMode(&mode);
        assert_int_equal(mode, modes[own]);
    }
    expect_clean();
}

static void enter_sets_the_device_of_the_calling_thread(void **state)
{
    (void)state;
    mr_error error;
    int device;
    begin(2);
    struct mr_device_handle *handle = open_id(1);
    assert_int_equal(ops->enter(handle, &error), MR_OK);
    assert_int_equal(cudaGetDevice(&device), cudaSuccess);
    assert_int_equal(device, 1);
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    assert_int_equal(mode, cudaStreamCaptureModeRelaxed);
    ops->close(handle);
    expect_clean();
}

/* Calls about device 1 by a thread that never chose a device, such as a destructor's. */
struct visit {
    struct rig *rig;
    cudaStream_t stream;
    int context; /* the thread's context, and its device, afterwards */
    int device;
};

static void *visit(void *arg)
{
    struct visit *v = arg;
    struct rig made = make_rig(1);
    int32_t id = -1;
    call_all(v->rig);
    assert_int_equal(ops->record(v->rig->handle, v->rig->event, v->stream, NULL), MR_OK);
    assert_int_equal(ops->wait(v->rig->handle, v->stream, v->rig->event, NULL), MR_OK);
    assert_int_equal(ops->check_capture(v->rig->handle, v->stream, NULL), MR_OK);
    assert_int_equal(ops->stream_device(v->rig->handle, v->stream, &id, NULL), MR_OK);
    assert_int_equal(id, 1);
    end_rig(&made);
    v->context = double_thread_context();
    (void)cudaGetDevice(&v->device);
    return NULL;
}

static void a_fresh_thread_leaves_no_context_behind(void **state)
{
    (void)state;
    begin(2);
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    struct rig rig = make_rig(1);
    struct visit v = {.rig = &rig, .context = 7, .device = 7};
    pthread_t thread;
    assert_int_equal(cudaStreamCreateWithFlags(&v.stream, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(pthread_create(&thread, NULL, visit, &v), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(double_has_context(0));
    assert_int_equal(v.context, -1);
    assert_int_equal(v.device, 0);
    assert_int_equal(double_thread_context(), 1);
    assert_int_equal(cudaStreamDestroy(v.stream), cudaSuccess);
    end_rig(&rig);
    expect_clean();
}

/* If the driver's functions cannot be found, everything else works. */
static void without_the_drivers_functions_calls_work(void **state)
{
    (void)state;
    begin(1);
    double_fail_from("cudaGetDriverEntryPoint", 1, cudaErrorNotSupported);
    struct rig rig = make_rig(0);
    call_all(&rig);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    double_fail_never();
    end_rig(&rig);
    expect_clean();
}

/* ---- streams ---- */

static void a_stream_of_another_device_is_the_callers_mistake(void **state)
{
    (void)state;
    mr_error error;
    cudaStream_t other;
    begin(2);
    struct rig rig = make_rig(0);
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    assert_int_equal(cudaStreamCreate(&other), cudaSuccess);
    assert_int_equal(ops->record(rig.handle, rig.event, other, &error), MR_ERR_INVALID);
    expect_error(&error, MR_ERR_INVALID, "the stream is not one of cuda:0: cudaEventRecord: ");
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    assert_int_equal(ops->wait(rig.handle, other, rig.event, &error), MR_OK);
    assert_int_equal(cudaStreamDestroy(other), cudaSuccess);
    end_rig(&rig);
    expect_clean();
}

static void a_streams_device_is_found_and_nothing_changes(void **state)
{
    (void)state;
    mr_error error;
    int32_t id = -1;
    int current;
    begin(2);
    struct rig rig = make_rig(1);
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    assert_int_equal(ops->stream_device(NULL, NULL, &id, &error), MR_OK);
    assert_int_equal(id, 0);
    assert_int_equal(ops->stream_device(NULL, rig.handle->copy_stream, &id, &error), MR_OK);
    assert_int_equal(id, CUDART_VERSION >= 12080); /* before CUDA 12.8: the current one */
    double_fail_at("cudaStreamGetDevice", 1, cudaErrorNotSupported);
    assert_int_equal(ops->stream_device(NULL, rig.handle->copy_stream, &id, &error), MR_OK);
    assert_int_equal(id, 0);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    assert_int_equal(cudaGetDevice(&current), cudaSuccess);
    assert_int_equal(current, 0);
    double_fail_never();
    end_rig(&rig);
    expect_clean();
}

static void captures_are_noticed_and_stay_valid(void **state)
{
    (void)state;
    mr_error error;
    begin(1);
    struct rig rig = make_rig(0);
    cudaStream_t stream;
    cudaGraph_t graph;
    assert_int_equal(cudaStreamCreate(&stream), cudaSuccess);
    assert_int_equal(ops->check_capture(rig.handle, stream, &error), MR_OK);
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    assert_int_equal(ops->check_capture(rig.handle, stream, &error), MR_ERR_STATE);
    expect_error(&error, MR_ERR_STATE, "cuda:0: the stream is in a capture");
    assert_int_equal(ops->check_capture(rig.handle, NULL, &error), MR_ERR_STATE);
    expect_error(&error, MR_ERR_STATE, "the default stream cannot be used");
    assert_int_equal(ops->check_capture(rig.handle, rig.handle->copy_stream, &error), MR_OK);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    /* this capture forbids such calls to the thread, but the library relaxes that */
    struct rig during = make_rig(0);
    end_rig(&during);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
    assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
    end_rig(&rig);
    expect_clean();
}

/* The default priority needs no query for the range; the greatest does. */
static void copy_stream_has_the_default_priority_on_request(void **state)
{
    (void)state;
    struct mr_device_handle *handle;
    mr_error error;
    begin(1);
    double_fail_from("cudaDeviceGetStreamPriorityRange", 1, cudaErrorUnknown);
    setenv("MR_CUDA_PRIORITY", "default", 1);
    handle = open_id(0);
    assert_non_null(handle->copy_stream);
    ops->close(handle);
    unsetenv("MR_CUDA_PRIORITY");
    assert_int_equal(ops->open(0, &handle, &error), MR_ERR_DEVICE);
    expect_error(&error, MR_ERR_DEVICE, "cudaDeviceGetStreamPriorityRange");
    double_fail_never();
    expect_clean();
}

/* ---- page-locking ---- */

static void pin_with_limit(uint64_t limit, mr_status expected, uint64_t n_pieces, mr_error *error)
{
    uint8_t *host = aligned_alloc(4096, SLOT * N_SLOTS);
    assert_non_null(host);
    unsetenv("LOCAL_RANK");
    double_open(&(struct double_options){.registration_bytes = limit});
    struct mr_device_handle *handle = open_id(0);
    assert_int_equal(ops->pin(handle, host, SLOT, N_SLOTS, error), expected);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    if (expected == MR_OK)
        ops->unpin(handle);
    assert_int_equal(double_calls("cudaHostUnregister"), n_pieces);
    ops->close(handle);
    assert_int_equal(double_calls("cudaHostUnregister"), n_pieces);
    expect_clean();
    free(host);
}

static void slots_are_pinned_whole_or_in_pieces_of_slots(void **state)
{
    (void)state;
    mr_error error;
    pin_with_limit(0, MR_OK, 1, &error);
    pin_with_limit(SLOT * N_SLOTS - 1, MR_OK, 2, &error);
    pin_with_limit(SLOT * 2 + 4096, MR_OK, 3, &error); /* in pieces: 2 slots, then 3 as 1 and 2 */
    pin_with_limit(SLOT, MR_OK, N_SLOTS, &error);
}

static void a_slot_that_cannot_be_pinned_is_named(void **state)
{
    (void)state;
    mr_error error;
    pin_with_limit(SLOT - 1, MR_ERR_UNSUPPORTED, 0, &error);
    expect_error(&error, MR_ERR_UNSUPPORTED,
                 "cuda:0: cudaHostRegister of 8192 bytes at 0 of the slots' 40960 bytes: ");
    expect_error(&error, MR_ERR_UNSUPPORTED, "(cudaErrorMemoryAllocation)");
}

/* A refusal is about the memory. After any other error nothing can be copied either. */
static void a_refusal_is_told_apart_from_a_failure(void **state)
{
    (void)state;
    static const struct {
        cudaError_t code;
        mr_status status;
    } answers[] = {{cudaErrorNotSupported, MR_ERR_UNSUPPORTED},
                   {cudaErrorNotPermitted, MR_ERR_UNSUPPORTED},
                   {cudaErrorOperatingSystem, MR_ERR_UNSUPPORTED},
                   {cudaErrorHostMemoryAlreadyRegistered, MR_ERR_UNSUPPORTED},
                   {cudaErrorUnknown, MR_ERR_DEVICE},
                   {cudaErrorIllegalAddress, MR_ERR_DEVICE}};
    mr_error error;
    uint8_t *host = aligned_alloc(4096, SLOT * N_SLOTS);
    assert_non_null(host);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        begin(1);
        struct mr_device_handle *handle = open_id(0);
        double_fail_from("cudaHostRegister", 1, answers[i].code);
        assert_int_equal(ops->pin(handle, host, SLOT, N_SLOTS, &error), answers[i].status);
        expect_error(&error, answers[i].status, cudaGetErrorName(answers[i].code));
        assert_int_equal(ops->pin(handle, host, SLOT, N_SLOTS, NULL), answers[i].status);
        ops->close(handle);
        (void)double_close();
    }
    free(host);
}

/*
 * As on a system with larger pages: a slot of less than whole pages would share a page with the
 * next.
 */
static void pieces_share_no_page(void **state)
{
    (void)state;
    enum { PAGE = 65536 };
    struct mr_slot_layout layout;
    struct mr_slot_shape shape = {.n_slots = 4,
                                  .n_workers = 1,
                                  .batch_size = 3,
                                  .columns = PLAIN_COLUMNS(5000, 8),
                                  .page_bytes = PAGE};
    mr_error error;
    assert_int_equal(mr_slot_layout_init(&layout, &shape, &error), MR_OK);
    uint8_t *slab = aligned_alloc(PAGE, (layout.slab_bytes + PAGE - 1) / PAGE * PAGE);
    assert_non_null(slab);
    double_open(
        &(struct double_options){.page_bytes = PAGE, .registration_bytes = layout.data_bytes});
    struct mr_device_handle *handle = open_id(0);
    assert_ok(ops->pin(handle, slab + layout.data_off, layout.data_bytes, layout.n_slots, &error),
              &error);
    ops->close(handle);
    expect_clean();
    free(slab);
}

static void pieces_are_given_back_when_a_later_one_fails(void **state)
{
    (void)state;
    mr_error error;
    uint8_t *host = aligned_alloc(4096, SLOT * N_SLOTS);
    double_open(&(struct double_options){.registration_bytes = SLOT * 2});
    struct mr_device_handle *handle = open_id(0);
    /* Calls: the whole, slots 0 and 1, slots 2 to 4, slot 2; all later ones fail. */
    double_fail_from("cudaHostRegister", 5, cudaErrorNotPermitted);
    assert_int_equal(ops->pin(handle, host, SLOT, N_SLOTS, &error), MR_ERR_UNSUPPORTED);
    expect_error(&error, MR_ERR_UNSUPPORTED, "cudaHostRegister of 8192 bytes at 24576 of");
    assert_int_equal(double_calls("cudaHostUnregister"), 2);
    double_fail_never();
    assert_int_equal(ops->pin(handle, host, SLOT, N_SLOTS, &error), MR_OK);
    ops->close(handle);
    expect_clean();
    free(host);
}

/* ---- failures ---- */

static void missing_memory_is_reported_with_its_size(void **state)
{
    (void)state;
    mr_error error;
    void *memory = NULL;
    double_open(&(struct double_options){.device_bytes = 1 << 20});
    struct mr_device_handle *handle = open_id(0);
    assert_int_equal(ops->alloc(handle, 1 << 21, &memory, &error), MR_ERR_NO_MEMORY);
    expect_error(&error, MR_ERR_NO_MEMORY, "cuda:0: cudaMalloc of 2097152 bytes: ");
    assert_null(memory);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    ops->close(handle);
    expect_clean();
}

/* Each call made while opening fails once: the function is named, and nothing is left behind. */
static void each_failure_while_opening_is_reported(void **state)
{
    (void)state;
    uint32_t n_failed = 0;
    for (uint64_t nth = 1; nth < 100; nth++) {
        begin(2);
        struct mr_device_handle *handle = NULL;
        mr_error error = {0};
        double_fail_at(NULL, nth, cudaErrorUnknown);
        mr_status status = ops->open(1, &handle, &error);
        if (double_n_failed() == 0) {
            ops->close(handle);
            expect_clean();
            break;
        }
        n_failed++;
        if (status != MR_OK)
            expect_error(&error, status, "(cudaErrorUnknown)");
        if (status != MR_OK)
            expect_error(&error, status, double_failed_in());
        assert_int_equal(handle != NULL, status == MR_OK);
        if (handle)
            ops->close(handle);
        assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
        expect_clean();
    }
    assert_in_range(n_failed, 5, 98);
}

/* After a fault on the device every call reports it, and everything is still given back. */
static void a_broken_device_is_named_by_every_call(void **state)
{
    (void)state;
    mr_error error;
    begin(1);
    struct rig rig = make_rig(0);
    double_break_device(0, cudaErrorIllegalAddress);
    assert_int_equal(ops->copy_in(rig.handle, rig.memory, rig.host, SLOT, &error), MR_ERR_DEVICE);
    expect_error(&error, MR_ERR_DEVICE, "(cudaErrorIllegalAddress)");
    assert_int_equal(ops->record(rig.handle, rig.event, rig.handle->copy_stream, &error),
                     MR_ERR_DEVICE);
    assert_int_equal(ops->sync(rig.handle, rig.event, &error), MR_ERR_DEVICE);
    assert_int_equal(ops->check_capture(rig.handle, NULL, &error), MR_ERR_DEVICE);
    double_mark();
    end_rig(&rig);
    assert_int_equal(double_calls("cudaFree"), 1);
    assert_int_equal(double_calls("cudaEventDestroy"), 1);
    assert_int_equal(double_calls("cudaHostUnregister"), 1);
    assert_int_equal(double_calls("cudaStreamDestroy"), 1);
    (void)double_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* first, because they are found once per process */
        cmocka_unit_test(without_the_drivers_functions_calls_work),
        cmocka_unit_test(no_driver_and_an_old_one_are_told_apart),
        cmocka_unit_test(no_device_names_what_hides_them),
        cmocka_unit_test(an_ordinal_out_of_range_names_how_many_there_are),
        cmocka_unit_test(local_is_the_only_one_or_that_of_the_rank),
        cmocka_unit_test(a_callers_device_mode_and_last_error_stay),
        cmocka_unit_test(enter_sets_the_device_of_the_calling_thread),
        cmocka_unit_test(a_fresh_thread_leaves_no_context_behind),
        cmocka_unit_test(a_stream_of_another_device_is_the_callers_mistake),
        cmocka_unit_test(a_streams_device_is_found_and_nothing_changes),
        cmocka_unit_test(captures_are_noticed_and_stay_valid),
        cmocka_unit_test(copy_stream_has_the_default_priority_on_request),
        cmocka_unit_test(slots_are_pinned_whole_or_in_pieces_of_slots),
        cmocka_unit_test(a_slot_that_cannot_be_pinned_is_named),
        cmocka_unit_test(a_refusal_is_told_apart_from_a_failure),
        cmocka_unit_test(pieces_share_no_page),
        cmocka_unit_test(pieces_are_given_back_when_a_later_one_fails),
        cmocka_unit_test(missing_memory_is_reported_with_its_size),
        cmocka_unit_test(each_failure_while_opening_is_reported),
        cmocka_unit_test(a_broken_device_is_named_by_every_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
