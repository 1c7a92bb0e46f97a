// SPDX-License-Identifier: Apache-2.0
//! One epoch over a folder of photographs, FOLDER/<class>/<image>.jpg, in Rust:
//!
//!   rustc --edition 2021 -O first_batch.rs && ./first_batch FOLDER
mod millrace;

use millrace::*;
use std::{env, ffi::CStr, ffi::CString, mem, process, ptr, slice};

unsafe fn check(status: mr_status, error: *const mr_error) {
    if status < 0 {
        eprintln!("{}", CStr::from_ptr((*error).text.as_ptr()).to_string_lossy());
        process::exit(1);
    }
}

/// Stands for a training step: the mean brightness of the batch, and the label of its first image.
unsafe fn train_batch(batch: *const mr_batch) {
    let image = &*mr_batch_array(batch, b"image\0".as_ptr().cast()); // u8 [N, 3, 224, 224]
    let n_bytes = (image.shape[0] * image.strides[0]) as usize;
    let pixels = slice::from_raw_parts(image.data as *const u8, n_bytes);
    let label = *(mr_batch_data(batch, b"label\0".as_ptr().cast()) as *const i64);
    let mean = pixels.iter().map(|&p| p as f64).sum::<f64>() / n_bytes as f64;
    let (number, n) = (mr_batch_number(batch), mr_batch_size(batch));
    println!("batch {number}: {n} images, mean {mean:.2}, first label {label}");
}

fn main() {
    let spec = CString::new(env::args().nth(1).unwrap_or(".".into())).unwrap();
    let (mut dataset, mut loader, mut batch) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    unsafe {
        let mut error: mr_error = mem::zeroed();
        let mut options: mr_loader_options = mem::zeroed();
        mr_loader_options_init(&mut options, mem::size_of::<mr_loader_options>());
        options.batch_size = 16;
        options.num_workers = 2;
        options.n_epochs = 1;
        check(mr_dataset_open(spec.as_ptr(), ptr::null(), &mut dataset, &mut error), &error);
        check(mr_loader_create(dataset, ptr::null(), &options, &mut loader, &mut error), &error);
        let mut status = mr_loader_next(loader, MR_FOREVER, &mut batch);
        while status == MR_OK {
            train_batch(batch);
            mr_batch_release(batch);
            status = mr_loader_next(loader, MR_FOREVER, &mut batch);
        }
        check(status, mr_loader_error(loader));
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
    }
}
