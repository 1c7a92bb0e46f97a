/* SPDX-License-Identifier: Apache-2.0 */
/* MR_WORKER_IMAGE is the stripped helper program; the build makes it first. */
    .section .rodata
    .balign 16
    .globl mr_worker_image
    .hidden mr_worker_image
    .globl mr_worker_image_end
    .hidden mr_worker_image_end
mr_worker_image:
    .incbin MR_WORKER_IMAGE
mr_worker_image_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits
