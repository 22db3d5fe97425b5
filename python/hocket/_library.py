# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The C library, found and described for ctypes. ctypes lets other Python threads run while a call waits."""
import ctypes
import operator
import os

from hocket import _errors

Handle = ctypes.c_void_p
Size = ctypes.c_size_t
Int = ctypes.c_int
_Sizes = ctypes.POINTER(ctypes.c_size_t)
ReduceFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, Size, Int, ctypes.c_void_p)


class UniqueIdBytes(ctypes.Structure):
    """hocketUniqueId"""
    _fields_ = [("internal", ctypes.c_char * 128)]


class Config(ctypes.Structure):
    """hocketConfig_t"""
    _fields_ = [("size", Size), ("comm_name", ctypes.c_char_p), ("operation_timeout_ms", ctypes.c_int64),
                ("algorithm", ctypes.c_char_p), ("magic", ctypes.c_uint), ("version", ctypes.c_uint),
                ("net_name", ctypes.c_char_p), ("without_effect", Int * 21), ("reproducibility", Int)]


class BuildInfo(ctypes.Structure):
    """hocketBuildInfo_t"""
    _fields_ = [("name", ctypes.c_char_p), ("found", Int), ("version", ctypes.c_char_p), ("note", ctypes.c_char_p)]


class CodecDescription(ctypes.Structure):
    """hocketCodecDescription_t"""
    _fields_ = [("size", Size), ("ratio", ctypes.c_double), ("relative_error", ctypes.c_double),
                ("absolute_error", ctypes.c_double), ("range", ctypes.c_double), ("lossless", Int), ("unbiased", Int),
                ("specification", ctypes.c_char * 256), ("value_bytes", ctypes.c_uint64),
                ("message_bytes", ctypes.c_uint64)]


class Sparse(ctypes.Structure):
    """hocketSparse_t"""
    _fields_ = [("size", Size), ("layout", Int), ("rows", ctypes.c_uint64), ("columns", ctypes.c_uint64),
                ("nonzeros", ctypes.c_uint64), ("offsets", Handle), ("indices", Handle), ("values", Handle)]


# hocketFunc_t
COMPRESSED = {"broadcast": 0, "reduce": 1, "all_gather": 2, "reduce_scatter": 3, "all_reduce": 4, "all_to_all": 5}


_CONFIG_MAGIC = 0x686F636B
_UNDEFINED = -2**31
REPRODUCIBILITY = {None: _UNDEFINED, "fast": 0, "ordered": 1, "exact": 2}


def reproducibility_code(value):
    """As hocketConfig_t has it."""
    return choice_of("reproducibility", value, REPRODUCIBILITY)


def config(name=None, timeout=None, reproducibility=None, algorithm=None):
    """A Config, of the options of Communicator.join()."""
    milliseconds = 0 if timeout is None else max(1, milliseconds_of(timeout))
    return Config(ctypes.sizeof(Config), text_of("name", name), milliseconds, text_of("algorithm", algorithm), _CONFIG_MAGIC,
                  version(), None, (Int * 21)(*[_UNDEFINED] * 21), reproducibility_code(reproducibility))


class Simulation(ctypes.Structure):
    """hocketSimInfo_t"""
    _fields_ = [("size", Size), ("magic", ctypes.c_uint), ("version", ctypes.c_uint), ("estimated_time", ctypes.c_float)]


def simulation():
    """A Simulation for the library to fill in."""
    return Simulation(ctypes.sizeof(Simulation), _CONFIG_MAGIC, version(), -1)


def identity_of(value):
    """The bytes of unique_id() as C takes them."""
    value = bytes_of("identity", value)
    if len(value) != ctypes.sizeof(UniqueIdBytes):
        raise _errors.InvalidArgument(f"identity: {len(value)} bytes, not {ctypes.sizeof(UniqueIdBytes)}")
    return UniqueIdBytes.from_buffer_copy(value)


class WaitSignal(ctypes.Structure):
    """hocketWaitSignalDesc_t"""
    _fields_ = [("count", Int), ("peer", Int), ("signal", Int), ("context", Int)]


_CONFIG = ctypes.POINTER(Config)
_COUNT = ctypes.POINTER(ctypes.c_uint64)
_SPARSE = ctypes.POINTER(Sparse)
_BUFFERS = (Handle, Handle)
_END = (Handle, Handle)  # communicator and stream
_AT_PEER = (Int, Handle, Size)  # peer, window, offset
_SIGNAL = (Int, Int, ctypes.c_uint)  # number, context, flags

# Arguments of every function that returns a hocketResult_t.
_PROTOTYPES = {
    "GetVersion": (ctypes.POINTER(Int),),
    "GetBuildInfo": (ctypes.POINTER(ctypes.POINTER(BuildInfo)), ctypes.POINTER(Int)),
    "GetUniqueId": (ctypes.POINTER(UniqueIdBytes),),
    "CommInitRankConfig": (ctypes.POINTER(Handle), Int, UniqueIdBytes, Int, _CONFIG),
    "CommInitAll": (ctypes.POINTER(Handle), Int, ctypes.POINTER(Int)),
    "CommInitFromEnvironment": (ctypes.POINTER(Handle), _CONFIG),
    "CommSplit": (Handle, Int, Int, ctypes.POINTER(Handle), _CONFIG),
    "CommFinalize": (Handle,),
    "CommDestroy": (Handle,),
    "CommAbort": (Handle,),
    "CommGetAsyncError": (Handle, ctypes.POINTER(Int)),
    "CommGetFailed": (Handle, ctypes.POINTER(Int), Int, ctypes.POINTER(Int)),
    "CommRevoke": (Handle, Int),
    "CommShrink": (Handle, ctypes.POINTER(Int), Int, ctypes.POINTER(Handle), _CONFIG, Int),
    "CommGetUniqueId": (Handle, ctypes.POINTER(UniqueIdBytes)),
    "CommGrow": (Handle, Int, ctypes.POINTER(UniqueIdBytes), Int, ctypes.POINTER(Handle), _CONFIG),
    "CommCount": (Handle, ctypes.POINTER(Int)),
    "CommUserRank": (Handle, ctypes.POINTER(Int)),
    "CommCuDevice": (Handle, ctypes.POINTER(Int)),
    "CommMemStats": (Handle, Int, _COUNT),
    "RedOpCreatePreMulSum": (ctypes.POINTER(Int), Handle, Int, Int, Handle),
    "RedOpCreate": (ctypes.POINTER(Int), ReduceFunction, Handle, Int, Handle),
    "RedOpDestroy": (Int, Handle),
    "AllReduce": (*_BUFFERS, Size, Int, Int, *_END),
    "Broadcast": (*_BUFFERS, Size, Int, Int, *_END),
    "Reduce": (*_BUFFERS, Size, Int, Int, Int, *_END),
    "AllGather": (*_BUFFERS, Size, Int, *_END),
    "ReduceScatter": (*_BUFFERS, Size, Int, Int, *_END),
    "AllToAll": (*_BUFFERS, Size, Int, *_END),
    "Gather": (*_BUFFERS, Size, Int, Int, *_END),
    "Scatter": (*_BUFFERS, Size, Int, Int, *_END),
    "Send": (Handle, Size, Int, Int, *_END),
    "Recv": (Handle, Size, Int, Int, *_END),
    "Barrier": _END,
    "Scan": (*_BUFFERS, Size, Int, Int, *_END),
    "ExScan": (*_BUFFERS, Size, Int, Int, *_END),
    "AllGatherV": (Handle, Size, Handle, _Sizes, _Sizes, Int, *_END),
    "ReduceScatterV": (*_BUFFERS, _Sizes, Int, Int, *_END),
    "AllToAllV": (Handle, _Sizes, _Sizes, Handle, _Sizes, _Sizes, Int, *_END),
    "GatherV": (Handle, Size, Handle, _Sizes, _Sizes, Int, Int, *_END),
    "ScatterV": (Handle, _Sizes, _Sizes, Handle, Size, Int, Int, *_END),
    "CodecCreate": (ctypes.POINTER(Handle), ctypes.c_char_p),
    "CodecDestroy": (Handle,),
    "CodecDescribe": (Handle, Int, ctypes.POINTER(CodecDescription)),
    "CodecErrorBound": (Handle, Int, Int, Int, ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_double)),
    "CodecSaveState": (Handle, Handle, ctypes.POINTER(Size)),
    "CodecLoadState": (Handle, ctypes.c_char_p, Size),
    "CodecResetState": (Handle, ctypes.c_char_p),
    "AllReduceCompressed": (*_BUFFERS, Size, Int, Int, Handle, ctypes.c_char_p, *_END),
    "ReduceScatterCompressed": (*_BUFFERS, Size, Int, Int, Handle, *_END),
    "AllGatherCompressed": (*_BUFFERS, Size, Int, Handle, *_END),
    "BroadcastCompressed": (*_BUFFERS, Size, Int, Int, Handle, *_END),
    "ReduceCompressed": (*_BUFFERS, Size, Int, Int, Int, Handle, *_END),
    "AllToAllCompressed": (*_BUFFERS, Size, Int, Handle, *_END),
    "AllReduceSparse": (_SPARSE, _SPARSE, Int, Int, Handle),
    "AllReduceSparseToDense": (_SPARSE, Handle, Int, Int, Handle),
    "AllGatherSparse": (_SPARSE, _SPARSE, Int, Handle),
    "GroupStart": (),
    "GroupEnd": (),
    "GroupSimulateEnd": (ctypes.POINTER(Simulation),),
    "QueueCreate": (ctypes.POINTER(Handle),),
    "QueueDestroy": (Handle,),
    "QueueMark": (Handle, _COUNT),
    "QueueTest": (Handle, ctypes.c_uint64, ctypes.POINTER(Int)),
    "QueueWait": (Handle, ctypes.c_uint64),
    "QueueWaitFor": (Handle, ctypes.c_uint64, ctypes.c_int64, ctypes.POINTER(Int)),
    "Probe": (Handle, ctypes.POINTER(Int)),
    "MemAlloc": (ctypes.POINTER(Handle), Size),
    "MemAllocDevice": (ctypes.POINTER(Handle), Size),
    "MemFree": (Handle,),
    "CommRegister": (Handle, Handle, Size, ctypes.POINTER(Handle)),
    "CommDeregister": (Handle, Handle),
    "Put": (Handle, Size, Int, *_AT_PEER, *_END),
    "Get": (Handle, Size, Int, *_AT_PEER, *_END),
    "PutSignal": (Handle, Size, Int, *_AT_PEER, *_SIGNAL, *_END),
    "Signal": (Int, *_SIGNAL, *_END),
    "WaitSignal": (Int, ctypes.POINTER(WaitSignal), *_END),
    "FetchOp": (*_BUFFERS, Int, Int, *_AT_PEER, *_END),
    "CompareSwap": (Handle, Handle, Handle, Int, *_AT_PEER, *_END),
    "NeighborAllToAllV": (Handle, _Sizes, _Sizes, Handle, _Sizes, _Sizes, Int, ctypes.POINTER(Int), Int, *_END),
}


def _find():
    """Beside this package (a wheel), or where the loader looks."""
    beside = os.path.join(os.path.dirname(__file__), "libhocket.so.0")
    try:
        return ctypes.CDLL(beside if os.path.exists(beside) else "libhocket.so.0")
    except OSError as error:
        raise ImportError(f"libhocket.so.0 cannot be loaded: {error}. Install Hocket (./dev install), or name its folder in "
                          "LD_LIBRARY_PATH") from error


def _declare(library):
    for name, arguments in _PROTOTYPES.items():
        function = getattr(library, f"hocket{name}")
        function.argtypes = arguments
        function.restype = Int
    library.hocketGetLastError.argtypes = (Handle,)
    library.hocketGetLastError.restype = ctypes.c_char_p
    library.hocketQueueStream.argtypes = (Handle,)
    library.hocketQueueStream.restype = Handle
    library.hocketGetAlgorithms.argtypes = (ctypes.c_char_p,)
    library.hocketGetAlgorithms.restype = ctypes.c_char_p
    return library


LIBRARY = _declare(_find())


def version():
    """10000 * major + 100 * minor + patch."""
    code = Int()
    call("GetVersion", ctypes.byref(code))
    return code.value


def path():
    """Of the file that was loaded."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return next(line.split()[-1] for line in maps if "libhocket.so.0" in line)


def call(name, *arguments):
    """Calls hocket<name>; a failure becomes an exception with the library's own sentence."""
    result = getattr(LIBRARY, f"hocket{name}")(*arguments)
    if result != 0:
        raise _errors.error_of(result, LIBRARY.hocketGetLastError(None).decode())


def handle_of(communicator):
    """What C knows it by."""
    if not communicator.handle:
        raise _errors.Refusal("the communicator is closed")
    return communicator.handle


def choice_of(name, value, table):
    """What a table has for it."""
    try:
        return table[value]
    except (KeyError, TypeError):
        known = ", ".join(each for each in table if each is not None)
        raise _errors.Refusal(f"{name}: there is no '{value}', only {known}") from None


def milliseconds_of(timeout):
    """Seconds as C takes them."""
    try:
        return int_of("timeout", round(1000 * timeout), 64)
    except (TypeError, ValueError, OverflowError):  # no number, not a number, infinite
        raise _errors.Refusal(f"timeout: {timeout!r} is no number of seconds") from None


def text_of(name, value):
    """A text as C takes it; None stays None."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise _errors.Refusal(f"{name}: {value!r} is no text")
    return value.encode()


def bytes_of(name, value):
    """The bytes of what has some."""
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise _errors.Refusal(f"{name}: {type(value).__name__} has no bytes") from None


def int_of(name, value, bits=32, signed=True):
    """A number as C takes it, by default a rank or another small one; ctypes would cut off what does not fit."""
    try:
        number = operator.index(value)
    except TypeError:
        raise _errors.Refusal(f"{name}: {value!r} is no whole number") from None
    least, most = (-2**(bits - 1), 2**(bits - 1) - 1) if signed else (0, 2**bits - 1)
    if not least <= number <= most:
        raise _errors.Refusal(f"{name}: {number} does not fit into {bits} bits, which hold {least} to {most}")
    return number


def integer_of(name, value, kind):
    """An integer of ctypes."""
    return kind(int_of(name, value, 8 * ctypes.sizeof(kind), kind(-1).value < 0))


def size_of(name, value):
    """A size or an offset as C takes it."""
    return int_of(name, value, 8 * ctypes.sizeof(Size), signed=False)


def _array_of(kind, convert, name, values):
    try:
        numbers = [convert(name, value) for value in values]
    except TypeError:
        raise _errors.Refusal(f"{name}: {values!r} is no list of whole numbers") from None
    return (kind * len(numbers))(*numbers)


def ints(name, values):
    """A list of ranks as C wants it."""
    return _array_of(Int, int_of, name, values)


def sizes(name, values):
    """A list of counts or offsets as C wants it; None stays None."""
    return None if values is None else _array_of(Size, size_of, name, values)
