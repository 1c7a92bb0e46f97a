/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Easy to get wrong: rank 0 alone writes files and the terminal, but whatever is collective (a reduction, a broadcast)
 * is called by all ranks, or the others wait for ever.
 */
#include "examples/trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void trainer_fail(const char *words)
{
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, words);
    exit(1); /* the other ranks hear of it from the group */
}

void trainer_check(mr_status status, const mr_error *error)
{
    if (status < 0)
        trainer_fail(error->text);
}

void trainer_share(struct trainer *t)
{
    struct convnet *net = t->net;

    if (t->options.resume != NULL && mr_group_rank(t->group) == 0 &&
        !checkpoint_read(t->options.resume, &t->state, net))
        trainer_fail("cannot resume");
    trainer_check(mr_broadcast(t->group, &t->state, sizeof t->state / 8, MR_I64, 0), mr_group_error(t->group));
    trainer_check(mr_broadcast(t->group, net->weights, net->n_params, net->dtype, 0), mr_group_error(t->group));
    trainer_check(mr_broadcast(t->group, net->velocity, net->n_params, net->dtype, 0), mr_group_error(t->group));
}

void trainer_save(struct trainer *t, const char *name)
{
    if (t->options.out == NULL || mr_group_rank(t->group) != 0)
        return;
    trainer_check(mr_loader_save(t->train, &t->state.position), mr_loader_error(t->train));
    if (!checkpoint_write(t->options.out, name, &t->state, t->net))
        trainer_fail("cannot save");
}

void trainer_report(const struct trainer *t)
{
    double loss = mr_metrics_mean(t->metrics, "loss"), accuracy = mr_metrics_mean(t->metrics, "accuracy");
    double test_loss = mr_metrics_mean(t->metrics, "test loss");
    double test_accuracy = mr_metrics_mean(t->metrics, "test accuracy");
    char *path = NULL, trained[80] = "";

    if (t->terminal)
        fputs("\r\033[K", stderr);
    if (mr_metrics_count(t->metrics, "loss") > 0)
        snprintf(trained, sizeof trained, "loss %.4f, accuracy %5.2f %%; ", loss, 100 * accuracy);
    mr_print0(t->group, "epoch %3" PRIu64 ": %stest loss %.4f, accuracy %5.2f %%; %.1f s\n", t->state.epoch, trained,
              test_loss, 100 * test_accuracy, mr_elapsed());
    if (t->options.out == NULL || mr_group_rank(t->group) != 0)
        return;
    FILE *log = asprintf(&path, "%s/log.tsv", t->options.out) < 0 ? NULL : fopen(path, "a");
    if (log == NULL ||
        fprintf(log, "%" PRIu64 "\t%.17g\t%.17g\t%.17g\t%.17g\t%.3f\n", t->state.epoch, loss, accuracy, test_loss,
                test_accuracy, mr_elapsed()) < 0 ||
        fclose(log) != 0)
        trainer_fail("cannot write log.tsv");
    free(path);
}

void trainer_progress(const struct trainer *t, const char *what, const mr_batch *batch, const mr_loader *loader)
{
    if (t->terminal)
        fprintf(stderr, "\r\033[Kepoch %" PRIu64 "/%" PRIu64 ", %s: batch %" PRIu64 "/%" PRIu64 ", %.0f s",
                t->state.epoch + 1, t->options.epochs, what, mr_batch_number(batch) + 1, mr_loader_n_batches(loader),
                mr_elapsed());
}

double trainer_rate(const struct trainer *t, uint64_t step)
{
    double total = (double)(t->options.epochs * mr_loader_n_batches(t->train)), warm_up = ceil(total / 10);
    double at = (double)step;

    if (at < warm_up)
        return t->options.lr * (at + 1) / warm_up;
    return t->options.lr * 0.5 * (1 + cos(M_PI * (at - warm_up) / (total - warm_up)));
}

void trainer_fini(struct trainer *t)
{
    convnet_destroy(t->net);
    mr_metrics_destroy(t->metrics);
    mr_loader_destroy(t->train);
    mr_loader_destroy(t->test);
    mr_dataset_destroy(t->train_data);
    mr_dataset_destroy(t->test_data);
    mr_group_destroy(t->group);
}
