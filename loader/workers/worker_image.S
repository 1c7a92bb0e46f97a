/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MR_WORKER_IMAGE is the stripped helper program, and MR_REMOTE_WORKER_IMAGE the one that reads
 * URLs, if it is another one. The build makes them first.
 */
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
    .balign 16
    .globl mr_remote_worker_image
    .hidden mr_remote_worker_image
    .globl mr_remote_worker_image_end
    .hidden mr_remote_worker_image_end
mr_remote_worker_image:
#ifdef MR_REMOTE_WORKER_IMAGE
    .incbin MR_REMOTE_WORKER_IMAGE
#endif
mr_remote_worker_image_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits
