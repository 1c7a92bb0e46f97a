# SPDX-License-Identifier: Apache-2.0
"""Replaces torch for gpu_torch.py on the double of the CUDA runtime: a DLPack consumer in ctypes.

The double runs every operation late (MR_CUDA_DOUBLE="policy=late"). It judges orders by itself, and
also at the program's end.
"""
import ctypes
import os


class DlTensor(ctypes.Structure):
    """DLManagedTensor of <dlpack/dlpack.h>."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


class DoubleTensor:
    """What a consumer makes from a capsule. Its end calls the deleter."""

    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    set_name = ctypes.pythonapi.PyCapsule_SetName
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]
    USED = b"used_dltensor"  # a capsule stores only the pointer to its name

    def __init__(self, capsule):
        self.address = self.get_pointer(capsule, b"dltensor")
        self.set_name(capsule, self.USED)
        self.managed = DlTensor.from_address(self.address)
        count = self.managed.bits // 8
        for i in range(self.managed.ndim):
            count *= self.managed.shape[i]
        self.data, self.nbytes = self.managed.data, count

    def __del__(self):
        self.managed.deleter(self.address)


class DoubleStream:
    """Like torch's: cuda_stream is the address."""

    def __init__(self, address):
        self.cuda_stream = address


class DoubleGpu:
    """The interface of TorchGpu in gpu_torch.py."""

    is_double = True

    def __init__(self, device):
        self.lib = ctypes.CDLL(os.environ["MR_DOUBLE"], mode=ctypes.RTLD_GLOBAL)
        pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        for name, arguments in {
                "cudaMalloc": [pointer, size],
                "cudaFree": [pointer],
                "cudaStreamCreateWithFlags": [pointer, number],
                "cudaStreamDestroy": [pointer],
                "cudaStreamSynchronize": [pointer],
                "cudaMemcpyAsync": [pointer, pointer, size, number, pointer],
                "double_launch_spin": [pointer, ctypes.c_uint64],
                "double_launch_fill": [pointer, pointer, size, ctypes.c_uint8],
                "double_host_view": [pointer],
                "cudaStreamBeginCapture": [pointer, number],
                "cudaStreamEndCapture": [pointer, pointer],
                "cudaGraphInstantiate": [pointer, pointer, ctypes.c_ulonglong],
                "cudaGraphLaunch": [pointer, pointer],
                "cudaGraphDestroy": [pointer],
                "cudaGraphExecDestroy": [pointer]
        }.items():
            getattr(self.lib, name).argtypes = arguments
        self.lib.double_host_view.restype = pointer
        self.number = int(device.partition(":")[2] or 0)
        self.default = DoubleStream(0)
        self.set_device(self.number)
        self.streams = []

    def facts(self):
        return {}

    def must(self, status):
        if status != 0:
            raise RuntimeError(f"CUDA error {status}")

    def side(self):
        made = ctypes.c_void_p()
        self.must(self.lib.cudaStreamCreateWithFlags(ctypes.byref(made), 1))
        self.streams.append(made.value)
        return DoubleStream(made.value)

    def tensor(self, array, stream):
        on_gpu = array.__dlpack_device__()[0] == 2
        return DoubleTensor(array.__dlpack__(stream=(stream.cuda_stream or 1) if on_gpu else None))

    def hold(self, stream):
        self.must(self.lib.double_launch_spin(stream.cuda_stream, 5_000_000))

    def read_late(self, tensor, stream):
        self.hold(stream)
        copy = self._copy(tensor, 3, stream)
        self.must(self.lib.double_launch_fill(stream.cuda_stream, tensor.data, tensor.nbytes, 0))
        return copy

    def upload_late(self, array, stream):
        self.hold(stream)
        return self._copy(self.tensor(array, stream), 1, stream)

    def _copy(self, tensor, kind, stream):
        memory = ctypes.c_void_p()
        self.must(self.lib.cudaMalloc(ctypes.byref(memory), tensor.nbytes))
        self.must(
            self.lib.cudaMemcpyAsync(memory, tensor.data, tensor.nbytes, kind, stream.cuda_stream))
        return memory, tensor.nbytes

    def bytes(self, copies):
        self.must(self.lib.cudaDeviceSynchronize())
        made = [ctypes.string_at(self.lib.double_host_view(memory), n) for memory, n in copies]
        for memory, _ in copies:
            self.must(self.lib.cudaFree(memory))
        return made

    def capture(self, tensor, wait):
        stream, graph, made = self.side(), ctypes.c_void_p(), ctypes.c_void_p()
        memory = ctypes.c_void_p()
        self.must(self.lib.cudaMalloc(ctypes.byref(memory), tensor.nbytes))
        self.must(self.lib.cudaStreamBeginCapture(stream.cuda_stream, 0))
        self.must(
            self.lib.cudaMemcpyAsync(memory, tensor.data, tensor.nbytes, 3, stream.cuda_stream))
        wait()
        self.must(self.lib.cudaStreamEndCapture(stream.cuda_stream, ctypes.byref(graph)))
        self.must(self.lib.cudaGraphInstantiate(ctypes.byref(made), graph, 0))
        self.must(self.lib.cudaGraphLaunch(made, stream.cuda_stream))
        found = self.bytes([(memory, tensor.nbytes)])[0]
        self.must(self.lib.cudaGraphExecDestroy(made))
        self.must(self.lib.cudaGraphDestroy(graph))
        return found

    def set_device(self, number):
        self.must(self.lib.cudaSetDevice(number))

    def current_device(self):
        number = ctypes.c_int()
        self.must(self.lib.cudaGetDevice(ctypes.byref(number)))
        return number.value

    def n_devices(self):
        number = ctypes.c_int()
        self.must(self.lib.cudaGetDeviceCount(ctypes.byref(number)))
        return number.value

    def forget_unordered(self):
        found = self.lib.double_found(0)
        self.lib.double_forget()
        return found

    def close(self):
        for stream in self.streams:
            self.must(self.lib.cudaStreamDestroy(stream))
