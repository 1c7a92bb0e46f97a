/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exact order of the copier's calls on scripted devices: which stream waits for which event,
 * and at most two copies per device. scripted_device.h explains the words.
 */
#include "tests/pinned/copier_rig.h"
#include "tests/pinned/scripted_device.h"
#include "tests/support/assert_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void end(struct copier_rig *rig)
{
    copier_rig_fini(rig);
    assert_int_equal(scripted_n_taken(), 0);
}

/* Begin with images and labels on one scripted device. */
static void begin_one(struct copier_rig *rig, bool floats)
{
    scripted_reset();
    copier_rig_init(rig, 4, floats);
    copier_rig_place(rig, &scripted_table, 0, 1);
}

static void a_finished_batch_makes_these_calls_and_no_other(void **state)
{
    (void)state;
    struct scripted_stream s = {.name = 's'}, t = {.name = 't'};
    struct copier_rig rig;
    begin_one(&rig, true);
    copier_rig_do_create(&rig);
    scripted_expect("enter0 copy_in0 record0:A@c sync0:A pin0");
    copier_rig_do_issue(&rig, 0, 4);
    scripted_expect("record0:B@c copy_in0 copy_in0 record0:C@c finish0 record0:D@c");
    assert_int_equal(mr_copier_use(rig.copier, 0, 0, &s, true, NULL), MR_OK);
    scripted_expect("check0@s record0:E@s record0:F@s wait0:D@s");
    copier_rig_do_use(&rig, 0, 0, &t);
    scripted_expect("check0@t record0:G@t wait0:D@t");
    copier_rig_do_use(&rig, 0, 0, &s);
    scripted_expect("check0@s wait0:D@s");
    assert_int_equal(copier_rig_do_await(&rig, 0).was_ready, -1);
    scripted_expect("sync0:D elapsed0:B-C");
    copier_rig_do_release(&rig, 0);
    scripted_expect("check0@s check0@t record0:E@s record0:G@t");
    copier_rig_do_issue(&rig, 0, 3);
    scripted_expect("wait0:E@c wait0:G@c record0:B@c copy_in0 copy_in0 record0:C@c finish0 "
                    "record0:H@c");
    assert_int_equal(copier_rig_do_await(&rig, 0).was_ready, 1);
    /* Zero may be an interval that was cut off, so it is also measured the other way round. */
    scripted_expect("sync0:H elapsed0:B-C elapsed0:D-F elapsed0:F-D");
    copier_rig_do_issue(&rig, 0, 2); /* no stream used the batch before */
    scripted_expect("record0:B@c copy_in0 copy_in0 record0:C@c finish0 record0:D@c");
    (void)copier_rig_do_await(&rig, 0);
    scripted_clear();
    mr_copier_destroy(rig.copier);
    rig.copier = NULL;
    scripted_expect("sync0:H sync0:D record0:A@c sync0:A unpin0"); /* and no sync for buffer 1 */
    end(&rig);
}

static void without_finishing_images_are_copied_into_place(void **state)
{
    (void)state;
    struct copier_rig rig;
    begin_one(&rig, false);
    copier_rig_do_create(&rig);
    scripted_expect("enter0 pin0");
    copier_rig_do_issue(&rig, 1, 4);
    scripted_expect("record0:A@c copy_in0 copy_in0 record0:B@c record0:C@c");
    (void)copier_rig_do_await(&rig, 1);
    scripted_clear();
    copier_rig_do_issue(&rig, 0, 0); /* an empty batch: only its small block and the events */
    scripted_expect("record0:D@c copy_in0 record0:E@c record0:F@c");
    (void)copier_rig_do_await(&rig, 0);
    end(&rig);
}

static void an_empty_batch_is_not_finished(void **state)
{
    (void)state;
    struct copier_rig rig;
    begin_one(&rig, true);
    copier_rig_do_create(&rig);
    scripted_clear();
    copier_rig_do_issue(&rig, 0, 0);
    scripted_expect("record0:B@c copy_in0 record0:C@c record0:D@c");
    (void)copier_rig_do_await(&rig, 0);
    end(&rig);
}

static void begin_two_ends(struct copier_rig *rig)
{
    scripted_reset();
    copier_rig_init(rig, 4, true);
    copier_rig_place(rig, &scripted_table, 0, 1);
    copier_rig_place_labels(rig, &scripted_table, 1);
    copier_rig_do_create(rig);
    scripted_clear();
}

static void images_and_labels_wait_for_each_others_streams(void **state)
{
    (void)state;
    struct scripted_stream s = {.name = 's', .device = 1}, t = {.name = 't', .device = 0};
    struct copier_rig rig;
    begin_two_ends(&rig);
    copier_rig_do_issue(&rig, 0, 4);
    scripted_expect("record0:B@c copy_in0 copy_in0 record0:C@c finish0 record0:D@c "
                    "record1:E@c copy_in1 record1:F@c record1:G@c");
    copier_rig_do_use(&rig, 0, 0, &s); /* tried on the images' device first */
    scripted_expect("check0@s record0:H@s record1:I@s wait1:D@s wait1:G@s");
    copier_rig_do_use(&rig, 0, 0, &t);
    scripted_expect("check0@t record0:J@t wait0:D@t wait0:G@t");
    copier_rig_do_use(&rig, 0, 0, NULL); /* the images' default stream */
    scripted_expect("check0@0 record0:K@0 wait0:D@0 wait0:G@0");
    copier_rig_do_use_label(
        &rig, 0, NULL); /* the labels' default stream: another stream with the same handle */
    scripted_expect("check1@0 record1:L@0 wait1:D@0 wait1:G@0");
    copier_rig_do_use_label(&rig, 0, NULL);
    scripted_expect("check1@0 wait1:D@0 wait1:G@0");
    copier_rig_do_use_label(&rig, 0, &t); /* any other stream is the same stream */
    scripted_expect("check0@t wait0:D@t wait0:G@t");
    (void)copier_rig_do_await(&rig, 0);
    scripted_expect("sync0:D sync1:G elapsed0:B-C elapsed1:E-F");
    copier_rig_do_release(&rig, 0);
    scripted_expect(
        "check1@s check0@t check0@0 check1@0 record1:I@s record0:J@t record0:K@0 record1:L@0");
    copier_rig_do_issue(&rig, 0, 4);
    scripted_expect(
        "wait0:I@c wait0:J@c wait0:K@c wait0:L@c "
        "record0:B@c copy_in0 copy_in0 record0:C@c finish0 record0:M@c "
        "wait1:I@c wait1:J@c wait1:K@c wait1:L@c record1:E@c copy_in1 record1:F@c record1:N@c");
    (void)copier_rig_do_await(&rig, 0);
    end(&rig);
}

static void a_stream_of_a_third_device_is_refused(void **state)
{
    (void)state;
    struct scripted_stream s = {.name = 's', .device = 2};
    mr_error error = {0};
    struct copier_rig rig;
    begin_two_ends(&rig);
    copier_rig_do_issue(&rig, 0, 4);
    assert_error(mr_copier_use(rig.copier, 0, 0, &s, true, &error), MR_ERR_INVALID, &error,
                 "device 2");
    assert_int_equal(mr_copier_remember(rig.copier, 0, 0, &s, &error), MR_ERR_INVALID);
    scripted_clear();
    copier_rig_do_release(&rig, 0);
    scripted_expect("");
    (void)copier_rig_do_await(&rig, 0);
    end(&rig);
}

static void a_stream_that_arrives_at_labels_is_not_compared(void **state)
{
    (void)state;
    struct scripted_stream s = {.name = 's', .device = 1};
    struct copier_rig rig;
    begin_two_ends(&rig);
    copier_rig_do_issue(&rig, 0, 4);
    assert_int_equal(mr_copier_use(rig.copier, 0, 0, &s, true, NULL), MR_OK);
    (void)copier_rig_do_await(&rig, 0);
    copier_rig_do_release(&rig, 0);
    copier_rig_do_issue(&rig, 0, 4);
    assert_int_equal(copier_rig_do_await(&rig, 0).was_ready, -1);
    end(&rig);
}

static void a_batch_that_came_too_late_is_reported(void **state)
{
    (void)state;
    struct scripted_stream s = {.name = 's'};
    struct copier_rig rig;
    begin_one(&rig, false);
    copier_rig_do_create(&rig);
    for (int round = 0; round < 3; round++) {
        copier_rig_do_issue(&rig, 0, 4);
        scripted_set_elapsed(round ? -5 : 7);
        struct mr_copy_report report = copier_rig_do_await(&rig, 0);
        assert_int_equal(report.was_ready, round ? 0 : -1);
        assert_int_equal(report.ns, round ? 0 : 7);
        assert_int_equal(mr_copier_use(rig.copier, 0, 0, &s, true, NULL), MR_OK);
        copier_rig_do_release(&rig, 0);
    }
    end(&rig);
}

static void each_part_has_its_own_streams(void **state)
{
    (void)state;
    struct scripted_stream s = {.name = 's', .device = 0}, t = {.name = 't', .device = 1};
    struct copier_rig rig;
    scripted_reset();
    copier_rig_init(&rig, 4, false);
    copier_rig_place(&rig, &scripted_table, 0, 2);
    copier_rig_do_create(&rig);
    scripted_expect("enter0 enter1 pin0"); /* one registration serves both */
    copier_rig_do_issue(&rig, 0, 4);
    scripted_expect("record0:A@c copy_in0 copy_in0 record0:B@c record0:C@c "
                    "record1:D@c copy_in1 copy_in1 record1:E@c record1:F@c");
    copier_rig_do_use(&rig, 0, 0, &s);
    copier_rig_do_use(&rig, 0, 1, &t);
    scripted_expect("check0@s record0:G@s wait0:C@s check1@t record1:H@t wait1:F@t");
    (void)copier_rig_do_await(&rig, 0);
    copier_rig_do_release(&rig, 0);
    scripted_clear();
    copier_rig_do_issue(&rig, 0, 1); /* one part: nothing happens on the other device */
    scripted_expect("wait0:G@c record0:A@c copy_in0 copy_in0 record0:B@c record0:I@c");
    (void)copier_rig_do_await(&rig, 0);
    scripted_expect("sync0:I elapsed0:A-B");
    copier_rig_do_release(&rig, 0);
    scripted_expect("");
    copier_rig_do_issue(&rig, 0, 4); /* it still waits for its stream of two batches ago */
    scripted_expect("record0:A@c copy_in0 copy_in0 record0:B@c record0:C@c "
                    "wait1:H@c record1:D@c copy_in1 copy_in1 record1:E@c record1:F@c");
    (void)copier_rig_do_await(&rig, 0);
    /* only part 0 is compared */
    assert_int_equal(mr_copier_use(rig.copier, 0, 1, &t, true, NULL), MR_OK);
    scripted_clear();
    copier_rig_do_release(&rig, 0);
    copier_rig_do_issue(&rig, 0, 4);
    scripted_expect("check1@t record1:H@t record0:A@c copy_in0 copy_in0 record0:B@c record0:I@c "
                    "wait1:H@c record1:D@c copy_in1 copy_in1 record1:E@c record1:J@c");
    copier_rig_do_await(&rig, 0);
    scripted_clear();
    copier_rig_do_issue(&rig, 0, 4); /* all streams are forgotten */
    scripted_expect("record0:A@c copy_in0 copy_in0 record0:B@c record0:C@c "
                    "record1:D@c copy_in1 copy_in1 record1:E@c record1:F@c");
    copier_rig_do_await(&rig, 0);
    end(&rig);
}

static void labels_of_all_parts_on_the_host_are_copied_once_after_their_streams(void **state)
{
    (void)state;
    struct scripted_stream s = {.name = 's', .device = 0}, t = {.name = 't', .device = 1},
                           u = {.name = 'u', .device = 2};
    struct copier_rig rig;
    scripted_reset();
    copier_rig_init(&rig, 4, false);
    copier_rig_place(&rig, &scripted_table, 0, 2);
    copier_rig_place_labels(&rig, &mr_device_host, 0);
    copier_rig_do_create(&rig);
    scripted_clear();
    copier_rig_do_issue(&rig, 0, 4);
    scripted_expect("record0:A@c copy_in0 record0:B@c record0:C@c record1:D@c copy_in1 record1:E@c "
                    "record1:F@c");
    assert_ptr_equal(mr_copier_part(rig.copier, 0, 0).small,
                     mr_copier_part(rig.copier, 0, 1).small);
    copier_rig_do_use(&rig, 0, 0, &s);
    copier_rig_do_use(&rig, 0, 1, &t);
    scripted_expect("check0@s record0:G@s wait0:C@s check1@t record1:H@t wait1:F@t");
    /* nor the host's */
    assert_int_equal(mr_copier_use(rig.copier, 0, 0, &u, false, NULL), MR_ERR_INVALID);
    assert_int_equal(copier_rig_do_await(&rig, 0).bytes,
                     4 * rig.layout.sample_bytes + rig.layout.small_bytes);
    copier_rig_do_release(&rig, 0);
    scripted_clear();
    /* the host's memory is overwritten at once, so the streams must have ended before that */
    copier_rig_do_issue(&rig, 0, 4);
    scripted_expect("wait0:G@c record0:A@c copy_in0 record0:B@c record0:J@c "
                    "wait1:H@c record1:D@c copy_in1 record1:E@c record1:K@c sync0:G sync1:H");
    (void)copier_rig_do_await(&rig, 0);
    copier_rig_do_use(&rig, 0, 1, &t);
    copier_rig_do_release(&rig, 0);
    scripted_clear();
    /* a part that this batch lacks may still be reading the labels */
    copier_rig_do_issue(&rig, 0, 1);
    scripted_expect("record0:A@c copy_in0 record0:B@c record0:C@c sync1:H");
    copier_rig_do_await(&rig, 0);
    end(&rig);
}

static void images_on_the_host_and_labels_on_a_gpu_share_no_streams(void **state)
{
    (void)state;
    struct scripted_stream s = {.name = 's', .device = 0};
    struct copier_rig rig;
    scripted_reset();
    copier_rig_init(&rig, 4, false);
    copier_rig_place(&rig, &mr_device_host, 1, 1);
    copier_rig_place_labels(&rig, &scripted_table, 0);
    copier_rig_do_create(&rig);
    scripted_clear();
    copier_rig_do_issue(&rig, 0, 4);
    scripted_expect("record0:A@c copy_in0 record0:B@c record0:C@c");
    copier_rig_do_use(&rig, 0, 0, NULL); /* the host's stream: the host's copy has ended already */
    scripted_expect("");
    copier_rig_do_use_label(&rig, 0, NULL);
    scripted_expect("check0@0 record0:D@0 wait0:C@0");
    copier_rig_do_use(&rig, 0, 0, &s);
    scripted_expect("check0@s record0:E@s wait0:C@s");
    (void)copier_rig_do_await(&rig, 0);
    copier_rig_do_release(&rig, 0);
    scripted_clear();
    copier_rig_do_issue(&rig, 0, 4);
    scripted_expect(
        "wait0:D@c wait0:E@c record0:A@c copy_in0 record0:B@c record0:F@c sync0:D sync0:E");
    (void)copier_rig_do_await(&rig, 0);
    end(&rig);
}

static void a_capture_stays_valid_and_the_batch_lent(void **state)
{
    (void)state;
    struct scripted_stream s = {.name = 's'}, t = {.name = 't'},
                           u = {.name = 'u', .is_captured = true};
    mr_error error = {0};
    struct copier_rig rig;
    begin_one(&rig, false);
    copier_rig_do_create(&rig);
    copier_rig_do_issue(&rig, 0, 4);
    scripted_clear();
    assert_error(mr_copier_use(rig.copier, 0, 0, &u, true, &error), MR_ERR_STATE, &error,
                 "capture");
    assert_int_equal(mr_copier_remember(rig.copier, 0, 0, &u, NULL), MR_ERR_STATE);
    scripted_expect("check0@u check0@u");
    copier_rig_do_use(&rig, 0, 0, &s);
    copier_rig_do_use(&rig, 0, 0, &t);
    scripted_clear();
    t.is_captured = true;
    assert_int_equal(mr_copier_release(rig.copier, 0, &error), MR_ERR_STATE);
    scripted_expect("check0@s check0@t");
    t.is_captured = false;
    assert_int_equal(mr_copier_remember(rig.copier, 0, 0, &s, NULL),
                     MR_OK); /* already remembered */
    scripted_expect("check0@s");
    copier_rig_do_release(&rig, 0);
    (void)copier_rig_do_await(&rig, 0);
    end(&rig);
}

static void a_remembered_stream_is_waited_for_and_does_not_wait(void **state)
{
    (void)state;
    struct scripted_stream s = {.name = 's'};
    struct copier_rig rig;
    begin_one(&rig, false);
    copier_rig_do_create(&rig);
    copier_rig_do_issue(&rig, 0, 4);
    scripted_clear();
    assert_int_equal(mr_copier_remember(rig.copier, 0, 0, &s, NULL), MR_OK);
    scripted_expect("check0@s record0:D@s");
    copier_rig_do_use(&rig, 0, 0, &s); /* now it waits */
    scripted_expect("check0@s wait0:C@s");
    copier_rig_do_release(&rig, 0);
    (void)copier_rig_do_await(&rig, 0);
    scripted_clear();
    copier_rig_do_issue(&rig, 0, 4);
    scripted_expect("wait0:D@c record0:A@c copy_in0 copy_in0 record0:B@c record0:E@c");
    (void)copier_rig_do_await(&rig, 0);
    end(&rig);
}

static void destroy_waits_for_releases_that_no_copy_has_waited_for(void **state)
{
    (void)state;
    struct scripted_stream s = {.name = 's'};
    struct copier_rig rig;
    begin_one(&rig, false);
    copier_rig_do_create(&rig);
    copier_rig_do_issue(&rig, 1, 4);
    copier_rig_do_use(&rig, 1, 0, &s);
    (void)copier_rig_do_await(&rig, 1);
    copier_rig_do_release(&rig, 1);
    scripted_clear();
    mr_copier_destroy(rig.copier);
    rig.copier = NULL;
    scripted_expect("sync0:D sync0:C record0:E@c sync0:E unpin0");
    end(&rig);
}

static void destroy_does_not_wait_for_streams_of_an_unreleased_batch(void **state)
{
    (void)state;
    struct scripted_stream s = {.name = 's'};
    struct copier_rig rig;
    begin_one(&rig, false);
    copier_rig_do_create(&rig);
    for (uint32_t round = 0; round < 2; round++) {
        copier_rig_do_issue(&rig, 1, 4);
        copier_rig_do_use(&rig, 1, 0, &s);
        copier_rig_do_await(&rig, 1);
        if (round == 0)
            copier_rig_do_release(&rig, 1);
    }
    scripted_clear();
    mr_copier_destroy(rig.copier);
    rig.copier = NULL;
    scripted_expect("sync0:E sync0:C record0:F@c sync0:F unpin0");
    end(&rig);
}

static void ranges_and_the_node_are_those_of_the_first_images(void **state)
{
    (void)state;
    struct copier_rig rig;
    scripted_reset();
    copier_rig_init(&rig, 4, false);
    copier_rig_place(&rig, &scripted_table, 2, 1);
    copier_rig_place_labels(&rig, &scripted_table, 1);
    rig.placement.image[0] = 1; /* the other way round */
    rig.placement.label[0] = 0;
    copier_rig_do_create(&rig);
    scripted_clear();
    mr_copier_range_push(rig.copier, "issue");
    mr_copier_range_pop(rig.copier);
    scripted_expect("push:issue pop");
    assert_int_equal(mr_copier_numa_node(rig.copier), 11);
    end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_finished_batch_makes_these_calls_and_no_other),
        cmocka_unit_test(without_finishing_images_are_copied_into_place),
        cmocka_unit_test(an_empty_batch_is_not_finished),
        cmocka_unit_test(images_and_labels_wait_for_each_others_streams),
        cmocka_unit_test(a_stream_of_a_third_device_is_refused),
        cmocka_unit_test(a_stream_that_arrives_at_labels_is_not_compared),
        cmocka_unit_test(a_batch_that_came_too_late_is_reported),
        cmocka_unit_test(each_part_has_its_own_streams),
        cmocka_unit_test(labels_of_all_parts_on_the_host_are_copied_once_after_their_streams),
        cmocka_unit_test(images_on_the_host_and_labels_on_a_gpu_share_no_streams),
        cmocka_unit_test(a_capture_stays_valid_and_the_batch_lent),
        cmocka_unit_test(a_remembered_stream_is_waited_for_and_does_not_wait),
        cmocka_unit_test(destroy_waits_for_releases_that_no_copy_has_waited_for),
        cmocka_unit_test(destroy_does_not_wait_for_streams_of_an_unreleased_batch),
        cmocka_unit_test(ranges_and_the_node_are_those_of_the_first_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
