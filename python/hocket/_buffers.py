# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Where the elements of a Python object lie, without a copy: torch tensors, __array_interface__ (NumPy), the buffer
protocol, __cuda_array_interface__ (CuPy and others), and DLPack (JAX and others). Imports none of these packages."""
import ctypes
import sys

from hocket._errors import Refusal

# hocketDataType_t
TYPES = {"int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6, "float32": 7,
         "float64": 8, "bfloat16": 9, "float8_e4m3fn": 10, "float8_e5m2": 11}
_BY_TYPESTR = {"i1": "int8", "u1": "uint8", "b1": "uint8", "i4": "int32", "u4": "uint32", "i8": "int64", "u8": "uint64",
               "f2": "float16", "f4": "float32", "f8": "float64"}
_BY_FORMAT = {"b": "int8", "B": "uint8", "c": "uint8", "?": "uint8", "e": "float16", "f": "float32", "d": "float64"}
_DLPACK_HOST = (1, 3)  # the CPU; memory of the host that CUDA has pinned
_DLPACK_CUDA = (2, 13)  # a device's; managed
_DLPACK_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "uint"}  # 6: bool


DEFAULT_CUDA_STREAM = 1  # CUDA's name for it


class Buffer:
    """`count` elements at `address`; `keep` holds the memory. `stream`: the CUDA stream that owners of CUDA memory use it
    on; None: it is the host's memory. `follow(stream)` makes another stream wait for the elements; None: their owner
    cannot."""
    __slots__ = ("address", "count", "datatype", "keep", "stream", "follow")

    def __init__(self, address, count, datatype, keep, stream=None, follow=None):
        self.address = address
        self.count = count
        self.datatype = datatype
        self.keep = keep
        self.stream = stream
        self.follow = follow

    @property
    def code(self):
        """As hocketDataType_t."""
        return TYPES[self.datatype]

    @property
    def itemsize(self):
        """Bytes of an element."""
        digits = "".join(letter for letter in self.datatype.partition("_")[0] if letter.isdigit())
        return int(digits) // 8


def buffer_of(name, value, writable=False):
    """The memory of `value`, the argument called `name`. Refusal says why it cannot be used."""
    if hasattr(value, "data_ptr") and hasattr(value, "is_contiguous"):
        return _of_tensor(name, value)
    if hasattr(value, "__array_interface__"):
        return _of_array(name, value, value.__array_interface__, writable)
    if hasattr(value, "__cuda_array_interface__"):
        interface = value.__cuda_array_interface__
        return _of_array(name, value, interface, writable, interface.get("stream") or DEFAULT_CUDA_STREAM)
    try:
        return _of_exporter(name, value, writable)
    except TypeError:
        pass
    if hasattr(value, "__dlpack__"):
        return _of_dlpack(name, value)
    raise Refusal(f"{name}: {type(value).__name__} is no tensor, array or buffer")


def _known(name, datatype):
    if datatype not in TYPES:
        raise Refusal(f"{name}: elements of type {datatype}; possible are {', '.join(TYPES)}")
    return datatype


def _of_tensor(name, tensor):
    if tensor.device.type not in ("cpu", "cuda"):
        raise Refusal(f"{name}: the tensor is on {tensor.device}, neither on the CPU nor on a CUDA device")
    if str(tensor.layout) != "torch.strided":
        raise Refusal(f"{name}: a tensor of layout {tensor.layout}, not dense")
    if not tensor.is_contiguous():
        raise Refusal(f"{name}: the tensor of shape {tuple(tensor.shape)} is not contiguous")
    datatype = str(tensor.dtype).removeprefix("torch.")
    datatype = _known(name, {"bool": "uint8"}.get(datatype, datatype))
    stream = None
    if tensor.device.type == "cuda":
        stream = sys.modules["torch"].cuda.current_stream(tensor.device).cuda_stream or DEFAULT_CUDA_STREAM
    return Buffer(tensor.data_ptr(), tensor.numel(), datatype, tensor, stream)


def _of_array(name, array, interface, writable, stream=None):
    address, read_only = interface["data"]
    if writable and read_only:
        raise Refusal(f"{name}: the array is read-only")
    # Types that NumPy does not know (ml_dtypes) have only a name.
    dtype_name = getattr(getattr(array, "dtype", None), "name", "")
    kind = interface["typestr"]
    datatype = dtype_name if dtype_name in TYPES else _BY_TYPESTR.get(kind[1:], dtype_name or kind)
    if kind[0] == ">":
        raise Refusal(f"{name}: elements in big-endian order")
    count = 1
    for length in interface["shape"]:
        count *= length
    if interface.get("strides") is not None and count > 0:
        raise Refusal(f"{name}: the array of shape {tuple(interface['shape'])} is not contiguous")
    return Buffer(address, count, _known(name, datatype), array, stream)


class _PyBuffer(ctypes.Structure):
    """Py_buffer"""
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_PyObject_GetBuffer = ctypes.pythonapi.PyObject_GetBuffer
_PyObject_GetBuffer.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)
_PyBuffer_Release = ctypes.pythonapi.PyBuffer_Release
_PyBuffer_Release.argtypes = (ctypes.POINTER(_PyBuffer),)


def _integer_type(code, size):
    kinds = {"h": "int", "i": "int", "l": "int", "q": "int", "H": "uint", "I": "uint", "L": "uint", "Q": "uint"}
    return f"{kinds[code]}{8 * size}" if code in kinds else code


def _of_exporter(name, value, writable):
    view = memoryview(value)
    if writable and view.readonly:
        raise Refusal(f"{name}: the buffer is read-only")
    if not view.c_contiguous:
        raise Refusal(f"{name}: the buffer of shape {view.shape} is not contiguous")
    code = view.format.lstrip("@=<")
    datatype = _known(name, _BY_FORMAT.get(code) or _integer_type(code, view.itemsize))
    raw = _PyBuffer()
    _PyObject_GetBuffer(view, ctypes.byref(raw), 0)
    address = raw.buf or 0
    _PyBuffer_Release(ctypes.byref(raw))
    return Buffer(address, view.nbytes // view.itemsize, datatype, view)  # the view keeps the memory where it is


class _DlTensor(ctypes.Structure):
    """DLTensor"""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


_PyCapsule_GetPointer = ctypes.pythonapi.PyCapsule_GetPointer
_PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_PyCapsule_GetPointer.restype = ctypes.c_void_p


def _of_dlpack(name, value):
    device = int(value.__dlpack_device__()[0]) if hasattr(value, "__dlpack_device__") else _DLPACK_HOST[0]
    if device not in (*_DLPACK_HOST, *_DLPACK_CUDA):
        raise Refusal(f"{name}: the array is on DLPack device {device}, neither on the CPU nor on a CUDA device")
    stream = follow = None
    if device in _DLPACK_CUDA:
        stream = DEFAULT_CUDA_STREAM

        def follow(other):
            value.__dlpack__(stream=other)

    # Its owner makes the stream wait for the elements. Not consumed: its own destructor gives the tensor back.
    capsule = value.__dlpack__() if stream is None else value.__dlpack__(stream=stream)
    tensor = _DlTensor.from_address(_PyCapsule_GetPointer(capsule, b"dltensor"))
    count = 1
    contiguous = True
    for i in reversed(range(tensor.ndim)):
        if tensor.strides and tensor.shape[i] > 1 and tensor.strides[i] != count:
            contiguous = False
        count *= tensor.shape[i]
    if not contiguous and count > 0:
        raise Refusal(f"{name}: the array is not contiguous")
    datatype = _known(name, f"{_DLPACK_CODES.get(tensor.code, f'DLPack code {tensor.code} ')}{tensor.bits}")
    return Buffer((tensor.data or 0) + tensor.byte_offset, count, datatype, (value, capsule), stream, follow)
