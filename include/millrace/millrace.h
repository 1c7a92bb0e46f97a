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
 *       mr_loader_set_epoch(loader, epoch);
 *       while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
 *           train(mr_batch_data(batch, "image"), mr_batch_data(batch, "label"), mr_batch_size(batch));
 *           mr_batch_release(batch);
 *       }
 *   }
 *   mr_loader_destroy(loader);
 *   mr_dataset_destroy(dataset);
 *
 * The process group has a header and a library of its own: <millrace/dist.h>, libmillrace-dist.
 *
 * A struct that begins with struct_size is set up by its MR_..._INIT, whether the caller or the library fills it in.
 * Later versions add fields at its end; programs that were compiled before go on working, because struct_size says
 * which fields they know. The library writes no more than struct_size bytes and refuses a size of 0, and one that it
 * does not know, by MR_ERR_INVALID. (It accepts options of a later version if fields that it does not know are zero.)
 * Structs that a function is given to read, as mr_sample and mr_pack_progress in callbacks, have the library's own size
 * in it. mr_error, mr_device and mr_loader_state never change. mr_array may get fields at its end; only the library
 * makes one.
 *
 * If a handle is NULL, functions that destroy or release do nothing and functions that return a status return
 * MR_ERR_INVALID; all other functions need the handle. If the comment of a function does not mention threads, one
 * thread at a time may use the object.
 */
#ifndef MILLRACE_MILLRACE_H
#define MILLRACE_MILLRACE_H

#include <millrace/batch.h>
#include <millrace/dataset.h>
#include <millrace/loader.h>
#include <millrace/pack.h>
#include <millrace/sampler.h>
#include <millrace/status.h>
#include <millrace/transform.h>

#endif
