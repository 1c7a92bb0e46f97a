/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace: batches of training samples, in order, made by worker processes.
 *
 *   mr_dataset *dataset;
 *   mr_loader *loader;
 *   mr_error error;
 *   if (mr_dataset_open("imagefolder:photos/train", NULL, &dataset, &error) < 0) die(error.text);
 *   mr_loader_options options = MR_LOADER_OPTIONS_INIT;
 *   options.batch_size = 256;
 *   if (mr_loader_create(dataset, NULL, &options, &loader, &error) < 0) die(error.text);
 *   for (uint64_t epoch = 0; epoch < 90; epoch++) {
 *       mr_batch *batch;
 *       mr_status status = mr_loader_set_epoch(loader, epoch);
 *       while (status == MR_OK &&
 *              (status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
 *           train(mr_batch_data(batch, "image"), mr_batch_data(batch, "label"),
 *                 mr_batch_size(batch));
 *           mr_batch_release(batch);
 *       }
 *       if (status < 0) die(mr_loader_error(loader)->text);
 *   }
 *   mr_loader_destroy(loader);
 *   mr_dataset_destroy(dataset);
 *
 * The process group is in <millrace/dist.h>, and its library is libmillrace-dist.
 *
 * <millrace/status.h> has the rules for NULL handles and for structs. Unless the comment of a
 * function mentions threads, one thread at a time may use the object.
 */
#ifndef MILLRACE_MILLRACE_H
#define MILLRACE_MILLRACE_H

#include <millrace/batch.h>
#include <millrace/cache.h>
#include <millrace/dataset.h>
#include <millrace/loader.h>
#include <millrace/pack.h>
#include <millrace/sampler.h>
#include <millrace/status.h>
#include <millrace/store.h>
#include <millrace/transform.h>

#endif
