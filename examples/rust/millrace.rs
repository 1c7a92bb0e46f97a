// SPDX-License-Identifier: Apache-2.0
//! The part of <millrace/millrace.h> that first_batch.rs needs, in the form of bindgen. The tests at
//! the end are bindgen's: they compare each struct's layout with the numbers of the C compiler.
//! tests/install/test_rust.sh compares these numbers with the headers.
#![allow(dead_code, non_camel_case_types)]

pub type mr_status = ::std::os::raw::c_int;
pub const MR_OK: mr_status = 0;
pub const MR_END: mr_status = 1;
pub const MR_FOREVER: u32 = 4294967295;

#[repr(C)]
pub struct mr_dataset {
    _unused: [u8; 0],
}
#[repr(C)]
pub struct mr_dataset_options {
    _unused: [u8; 0],
}
#[repr(C)]
pub struct mr_transform {
    _unused: [u8; 0],
}
#[repr(C)]
pub struct mr_loader {
    _unused: [u8; 0],
}
#[repr(C)]
pub struct mr_batch {
    _unused: [u8; 0],
}
#[repr(C)]
pub struct mr_error {
    pub status: i32,
    pub os_error: i32,
    pub index: i64,
    pub text: [::std::os::raw::c_char; 1000usize],
}
#[repr(C)]
pub struct mr_device {
    pub kind: u32,
    pub id: i32,
}
#[repr(C)]
pub struct mr_array {
    pub name: *const ::std::os::raw::c_char,
    pub dtype: u32,
    pub ndim: u32,
    pub shape: [i64; 8usize],
    pub strides: [i64; 8usize],
    pub device: mr_device,
    pub data: *mut ::std::os::raw::c_void,
    pub row_offsets: *const i64,
    pub n_values: i64,
}
#[repr(C)]
pub struct mr_loader_options {
    pub struct_size: usize,
    pub batch_size: u32,
    pub dtype: u32,
    pub layout: u32,
    pub pad_channels: u32,
    pub soft_labels: u32,
    pub drop_last: bool,
    pub allow_empty_epoch: bool,
    pub ragged: bool,
    pub reserved_batch: [u8; 1usize],
    pub max_row_bytes: u64,
    pub rank: u32,
    pub world_size: u32,
    pub tail: u32,
    pub order: u32,
    pub seed: u64,
    pub epoch: u64,
    pub n_epochs: u64,
    pub no_shuffle: bool,
    pub allow_same_epoch: bool,
    pub no_replacement: bool,
    pub rank_slices: bool,
    pub reserved_order: [u8; 4usize],
    pub repeat: u32,
    pub repeat_form: u32,
    pub n_draws: u64,
    pub weights: *const ::std::os::raw::c_char,
    pub weight_values: *const f64,
    pub n_weight_values: u64,
    pub num_workers: u32,
    pub start: u32,
    pub nice: i32,
    pub affinity: u32,
    pub affinity_cpus: *const i32,
    pub n_affinity_cpus: u32,
    pub reader: u32,
    pub jpeg_decoder: u32,
    pub read_ahead: u32,
    pub n_slots: u32,
    pub wait_when_lent: bool,
    pub no_huge_pages: bool,
    pub verify_packs: bool,
    pub reserved_workers: [u8; 1usize],
    pub on_error: u32,
    pub time_limit_ms: u32,
    pub max_file_bytes: u64,
    pub max_pixels: u64,
    pub device: *const ::std::os::raw::c_char,
    pub devices: *const *const ::std::os::raw::c_char,
    pub n_devices: u32,
    pub n_buffers: u32,
    pub label_device: *const ::std::os::raw::c_char,
    pub pin_memory: bool,
    pub finish_on_host: bool,
    pub with_timing: bool,
    pub reserved_devices: [u8; 5usize],
    pub trace: *const ::std::os::raw::c_char,
    pub cache_slowdown: u32,
    pub cache_form: u32,
    pub cache: *const ::std::os::raw::c_char,
    pub cache_bytes: u64,
    pub pad_batch: u32,
    pub aspect_ratio_groups: u32,
    pub retry_ms: u32,
    pub connections: u32,
    pub mix_order: u32,
    pub mix_stop: u32,
    pub mix_samples: u64,
    pub group_by_length: u32,
    pub batch_multiple: u32,
    pub max_tokens: u64,
    pub lengths: *const ::std::os::raw::c_char,
}

#[link(name = "millrace")]
extern "C" {
    pub fn mr_dataset_open(
        spec: *const ::std::os::raw::c_char,
        options: *const mr_dataset_options,
        dataset_out: *mut *mut mr_dataset,
        error: *mut mr_error,
    ) -> mr_status;
    pub fn mr_dataset_destroy(dataset: *mut mr_dataset);
    pub fn mr_loader_options_init(options: *mut mr_loader_options, size: usize);
    pub fn mr_loader_create(
        dataset: *mut mr_dataset,
        transform: *const mr_transform,
        options: *const mr_loader_options,
        loader_out: *mut *mut mr_loader,
        error: *mut mr_error,
    ) -> mr_status;
    pub fn mr_loader_destroy(loader: *mut mr_loader);
    pub fn mr_loader_next(
        loader: *mut mr_loader,
        timeout_ms: u32,
        batch_out: *mut *mut mr_batch,
    ) -> mr_status;
    pub fn mr_loader_error(loader: *const mr_loader) -> *const mr_error;
    pub fn mr_batch_array(
        batch: *const mr_batch,
        name: *const ::std::os::raw::c_char,
    ) -> *const mr_array;
    pub fn mr_batch_data(
        batch: *const mr_batch,
        name: *const ::std::os::raw::c_char,
    ) -> *mut ::std::os::raw::c_void;
    pub fn mr_batch_size(batch: *const mr_batch) -> u32;
    pub fn mr_batch_number(batch: *const mr_batch) -> u64;
    pub fn mr_batch_release(batch: *mut mr_batch) -> mr_status;
}

#[test]
fn bindgen_test_layout_mr_error() {
    let it = ::std::mem::MaybeUninit::<mr_error>::uninit();
    let ptr = it.as_ptr();
    let at = |field: *const u8| field as usize - ptr as usize;
    assert_eq!(::std::mem::size_of::<mr_error>(), 1016usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).status) }.cast()), 0usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).os_error) }.cast()), 4usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).index) }.cast()), 8usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).text) }.cast()), 16usize);
}

#[test]
fn bindgen_test_layout_mr_device() {
    let it = ::std::mem::MaybeUninit::<mr_device>::uninit();
    let ptr = it.as_ptr();
    let at = |field: *const u8| field as usize - ptr as usize;
    assert_eq!(::std::mem::size_of::<mr_device>(), 8usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).kind) }.cast()), 0usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).id) }.cast()), 4usize);
}

#[test]
fn bindgen_test_layout_mr_array() {
    let it = ::std::mem::MaybeUninit::<mr_array>::uninit();
    let ptr = it.as_ptr();
    let at = |field: *const u8| field as usize - ptr as usize;
    assert_eq!(::std::mem::size_of::<mr_array>(), 176usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).name) }.cast()), 0usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).dtype) }.cast()), 8usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).ndim) }.cast()), 12usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).shape) }.cast()), 16usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).strides) }.cast()), 80usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).device) }.cast()), 144usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).data) }.cast()), 152usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).row_offsets) }.cast()), 160usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).n_values) }.cast()), 168usize);
}

#[test]
fn bindgen_test_layout_mr_loader_options() {
    let it = ::std::mem::MaybeUninit::<mr_loader_options>::uninit();
    let ptr = it.as_ptr();
    let at = |field: *const u8| field as usize - ptr as usize;
    assert_eq!(::std::mem::size_of::<mr_loader_options>(), 328usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).struct_size) }.cast()), 0usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).batch_size) }.cast()), 8usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).dtype) }.cast()), 12usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).layout) }.cast()), 16usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).pad_channels) }.cast()), 20usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).soft_labels) }.cast()), 24usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).drop_last) }.cast()), 28usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).allow_empty_epoch) }.cast()), 29usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).ragged) }.cast()), 30usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).reserved_batch) }.cast()), 31usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).max_row_bytes) }.cast()), 32usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).rank) }.cast()), 40usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).world_size) }.cast()), 44usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).tail) }.cast()), 48usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).order) }.cast()), 52usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).seed) }.cast()), 56usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).epoch) }.cast()), 64usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).n_epochs) }.cast()), 72usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).no_shuffle) }.cast()), 80usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).allow_same_epoch) }.cast()), 81usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).no_replacement) }.cast()), 82usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).rank_slices) }.cast()), 83usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).reserved_order) }.cast()), 84usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).repeat) }.cast()), 88usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).repeat_form) }.cast()), 92usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).n_draws) }.cast()), 96usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).weights) }.cast()), 104usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).weight_values) }.cast()), 112usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).n_weight_values) }.cast()), 120usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).num_workers) }.cast()), 128usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).start) }.cast()), 132usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).nice) }.cast()), 136usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).affinity) }.cast()), 140usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).affinity_cpus) }.cast()), 144usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).n_affinity_cpus) }.cast()), 152usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).reader) }.cast()), 156usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).jpeg_decoder) }.cast()), 160usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).read_ahead) }.cast()), 164usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).n_slots) }.cast()), 168usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).wait_when_lent) }.cast()), 172usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).no_huge_pages) }.cast()), 173usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).verify_packs) }.cast()), 174usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).reserved_workers) }.cast()), 175usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).on_error) }.cast()), 176usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).time_limit_ms) }.cast()), 180usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).max_file_bytes) }.cast()), 184usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).max_pixels) }.cast()), 192usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).device) }.cast()), 200usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).devices) }.cast()), 208usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).n_devices) }.cast()), 216usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).n_buffers) }.cast()), 220usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).label_device) }.cast()), 224usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).pin_memory) }.cast()), 232usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).finish_on_host) }.cast()), 233usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).with_timing) }.cast()), 234usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).reserved_devices) }.cast()), 235usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).trace) }.cast()), 240usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).cache_slowdown) }.cast()), 248usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).cache_form) }.cast()), 252usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).cache) }.cast()), 256usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).cache_bytes) }.cast()), 264usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).pad_batch) }.cast()), 272usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).aspect_ratio_groups) }.cast()), 276usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).retry_ms) }.cast()), 280usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).connections) }.cast()), 284usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).mix_order) }.cast()), 288usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).mix_stop) }.cast()), 292usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).mix_samples) }.cast()), 296usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).group_by_length) }.cast()), 304usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).batch_multiple) }.cast()), 308usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).max_tokens) }.cast()), 312usize);
    assert_eq!(at(unsafe { ::std::ptr::addr_of!((*ptr).lengths) }.cast()), 320usize);
}
