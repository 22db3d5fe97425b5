# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Where the elements of a Python object lie, without a copy: torch tensors, __array_interface__ (NumPy), the buffer
protocol, __cuda_array_interface__ (CuPy and others), and DLPack (JAX and others). Imports none of these packages."""
import ctypes
import math
import sys

from hocket._errors import Refusal

# hocketDataType_t
TYPES = {"int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6, "float32": 7,
         "float64": 8, "bfloat16": 9, "float8_e4m3fn": 10, "float8_e5m2": 11}
BOOL = "bool"  # travels as uint8, which is 0 or 1
_BY_TYPESTR = {"i1": "int8", "u1": "uint8", "b1": BOOL, "i4": "int32", "u4": "uint32", "i8": "int64", "u8": "uint64",
               "f2": "float16", "f4": "float32", "f8": "float64"}
_BY_FORMAT = {"b": "int8", "B": "uint8", "c": "uint8", "?": BOOL, "e": "float16", "f": "float32", "d": "float64"}
_DLPACK_HOST = (1, 3)  # the CPU; memory of the host that CUDA has pinned
_DLPACK_CUDA = (2, 13)  # a device's; managed
_DLPACK_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}
_DLPACK_BOOL = 6
_DLPACK_FLOAT8 = {10: "float8_e4m3fn", 12: "float8_e5m2"}
_DLPACK_VERSION = (1, 0)  # the first that tells what is read-only
_DLPACK_READ_ONLY = 1


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
        return TYPES["uint8" if self.datatype == BOOL else self.datatype]

    @property
    def itemsize(self):
        """Bytes of an element."""
        if self.datatype == BOOL:
            return 1
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
    if type(value).__module__.partition(".")[0] in ("jax", "jaxlib"):
        _check_jax(name, value, writable)
    view = _view_of(name, value)
    if view is not None:
        return _of_view(name, view, writable)
    if hasattr(value, "__dlpack__"):
        return _of_dlpack(name, value, writable)
    raise Refusal(f"{name}: {type(value).__name__} is no tensor, array or buffer")


def same_type(source, target):
    """Refusal says how the elements of two buffers differ."""
    if source.datatype != target.datatype:
        raise Refusal(f"send has elements of {source.datatype}, recv of {target.datatype}")


def _check_jax(name, array, writable):
    """What its DLPack does not tell, or not in words."""
    if writable:
        raise Refusal(f"{name}: an array of JAX never changes; receive into another, such as numpy.empty_like(array)")
    if hasattr(array, "is_deleted") and _answer(name, array, array.is_deleted):
        raise Refusal(f"{name}: the array of JAX was deleted or donated")


def _known(name, datatype):
    if datatype not in TYPES and datatype != BOOL:
        raise Refusal(f"{name}: elements of type {datatype}; possible are {', '.join(TYPES)}")
    return datatype


def _of_tensor(name, tensor):
    if tensor.device.type not in ("cpu", "cuda"):
        raise Refusal(f"{name}: the tensor is on {tensor.device}, neither on the CPU nor on a CUDA device")
    if str(tensor.layout) != "torch.strided":
        raise Refusal(f"{name}: a tensor of layout {tensor.layout}, not dense")
    if not tensor.is_contiguous():
        raise Refusal(f"{name}: the tensor of shape {tuple(tensor.shape)} is not contiguous")
    datatype = _known(name, str(tensor.dtype).removeprefix("torch."))
    stream = None
    if tensor.device.type == "cuda":
        stream = sys.modules["torch"].cuda.current_stream(tensor.device).cuda_stream or DEFAULT_CUDA_STREAM
    return Buffer(tensor.data_ptr(), tensor.numel(), datatype, tensor, stream)


def _is_contiguous(shape, strides, unit):
    """`unit`: the stride of neighbours. None: contiguous by definition."""
    for length, stride in zip(reversed(shape), reversed(strides or ())):
        if length > 1 and stride != unit and 0 not in shape:
            return False
        unit *= length
    return True


def _of_array(name, array, interface, writable, stream=None):
    if not isinstance(interface, dict) or not isinstance(interface.get("data"), tuple):  # of a class, such as numpy.float32
        raise Refusal(f"{name}: {type(array).__name__} does not tell where its elements lie")
    address, read_only = interface["data"]
    if writable and read_only:
        raise Refusal(f"{name}: the array is read-only")
    # Types that NumPy does not know (ml_dtypes) have only a name.
    dtype_name = getattr(getattr(array, "dtype", None), "name", "")
    kind = interface["typestr"]
    datatype = _known(name, dtype_name if dtype_name in TYPES else _BY_TYPESTR.get(kind[1:], dtype_name or kind))
    if kind[0] == ">":
        raise Refusal(f"{name}: elements in big-endian order")
    shape = tuple(interface["shape"])
    if not _is_contiguous(shape, interface.get("strides"), int(kind[2:])):
        raise Refusal(f"{name}: the array of shape {shape} is not contiguous")
    return Buffer(address, math.prod(shape), datatype, array, stream)


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


def _view_of(name, value):
    """By the buffer protocol; None: it has none, or DLPack knows more (JAX's bfloat16)."""
    try:
        return memoryview(value)
    except TypeError:
        return None
    except (BufferError, RuntimeError, ValueError) as error:
        if hasattr(value, "__dlpack__"):
            return None
        raise Refusal(f"{name}: {type(value).__name__}: {error}") from None


def _of_view(name, view, writable):
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


class _DlVersioned(ctypes.Structure):
    """DLManagedTensorVersioned"""
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DlTensor)]


_PyCapsule_IsValid = ctypes.pythonapi.PyCapsule_IsValid
_PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_PyCapsule_GetPointer = ctypes.pythonapi.PyCapsule_GetPointer
_PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_PyCapsule_GetPointer.restype = ctypes.c_void_p


def _capsule_of(value, **options):
    """Of a version that tells what is read-only, where its owner knows one. Not consumed: its own destructor gives the
    tensor back."""
    try:
        return value.__dlpack__(max_version=_DLPACK_VERSION, **options)
    except TypeError:
        return value.__dlpack__(**options)


def _answer(name, value, question):
    """What an array says of itself; what it raises instead becomes a refusal."""
    try:
        return question()
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise Refusal(f"{name}: {type(value).__name__}: {error}") from None


def _tensor_in(name, capsule, writable):
    if not _PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        return _DlTensor.from_address(_answer(name, capsule, lambda: _PyCapsule_GetPointer(capsule, b"dltensor")))
    managed = _DlVersioned.from_address(_PyCapsule_GetPointer(capsule, b"dltensor_versioned"))
    if writable and managed.flags & _DLPACK_READ_ONLY:
        raise Refusal(f"{name}: the array is read-only")
    return managed.tensor


def _datatype_in(tensor):
    if (tensor.code, tensor.bits, tensor.lanes) == (_DLPACK_BOOL, 8, 1):
        return BOOL
    name = _DLPACK_FLOAT8.get(tensor.code) or f"{_DLPACK_CODES.get(tensor.code, f'DLPack code {tensor.code} ')}{tensor.bits}"
    return name if tensor.lanes == 1 else f"{name} x {tensor.lanes}"


def _of_dlpack(name, value, writable):
    device = _DLPACK_HOST[0]
    if hasattr(value, "__dlpack_device__"):
        device = int(_answer(name, value, value.__dlpack_device__)[0])
    if device not in (*_DLPACK_HOST, *_DLPACK_CUDA):
        raise Refusal(f"{name}: the array is on DLPack device {device}, neither on the CPU nor on a CUDA device")
    stream = follow = None
    options = {}
    if device in _DLPACK_CUDA:
        stream = DEFAULT_CUDA_STREAM
        options = {"stream": stream}  # its owner makes it wait for the elements

        def follow(other):
            value.__dlpack__(stream=other)

    capsule = _answer(name, value, lambda: _capsule_of(value, **options))
    tensor = _tensor_in(name, capsule, writable)
    shape = tuple(tensor.shape[:tensor.ndim])
    if not _is_contiguous(shape, tensor.strides[:tensor.ndim] if tensor.strides else None, 1):
        raise Refusal(f"{name}: the array of shape {shape} is not contiguous")
    datatype = _known(name, _datatype_in(tensor))
    return Buffer((tensor.data or 0) + tensor.byte_offset, math.prod(shape), datatype, (value, capsule), stream, follow)
