#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""gpu_codecs.py [IMAGE]: codecs on the memory of device 0.

Ranks as gpu_ranks.py says. IMAGE is the file with the kernels, and without it compressed all-reduces are compared,
but nothing is timed. Rank 0 prints a line of JSON for each check. Of compressed all-reduces: whether device memory gets the bits
that the host's gets, and how long both take. Of combine: whether its sums are right, and the time beside that of a copy that moves
as many bytes. Of the kernels of codecs alone: whether what was encoded decodes to nearly what it was, and the
time beside that of a copy that moves as many bytes. Of the exact choice of the largest: whether it is torch.topk's, and the time
beside its; of lossless messages: whether they give the same bits, and the time beside that of copying the values.
"""
import ctypes
import json
import math
import sys
import time
from functools import partial

import torch

import hocket
from gpu_kernels import Image
from gpu_ranks import on_each_rank, to_host
from gpu_timing import ROUNDS, device_ms

CAST, BLOCKS, SIGN, SELECT, EXPONENTS = 0, 1, 2, 4, 5
FLOAT16, MAGNITUDE, FLOAT8E4M3 = 6, 0, 4
KERNEL_ELEMENTS = 64 << 20
TILES, SIGN_BLOCKS = {CAST: 4096, BLOCKS: 2048, SELECT: 2048, EXPONENTS: 4096}, 16  # kernels/cuda/coding_work.h, kernels/exponents.h
MOST_PARTS, BLOCKS_PER_MULTIPROCESSOR, BLOCKS_OF_VARYING = 512, 5, 4
WAVES = 4
PASSES = {SELECT: (10, 3), EXPONENTS: (3, 4)}  # kernels/cuda/passes.h, of float32: to encode and to decode
SHARE = 0.01
SLACK = 256  # bytes of the last block, which may not be whole


class Quantiser(ctypes.Structure):  # kernels/quantise.h
    _fields_ = [("scaling", ctypes.c_uint8), ("bits", ctypes.c_int32), ("levels", ctypes.c_int32), ("block", ctypes.c_uint32),
                ("stochastic", ctypes.c_bool), ("rotated", ctypes.c_bool), ("signs", ctypes.c_uint32 * 8)]


class Form(ctypes.Structure):  # kernels/coded_form.h
    _fields_ = [("kind", ctypes.c_uint8), ("wire", ctypes.c_uint8), ("quantiser", Quantiser), ("seed", ctypes.c_uint64),
                ("sign_block", ctypes.c_uint32), ("share", ctypes.c_double), ("least", ctypes.c_float)]


class Work(ctypes.Structure):  # kernels/cuda/coding_work.h
    _fields_ = [("form", Form), ("draw", ctypes.c_uint64), ("count", ctypes.c_uint64), ("values", ctypes.c_void_p),
                ("message", ctypes.c_void_p), ("adds", ctypes.c_bool), ("number", ctypes.c_uint32), ("scratch", ctypes.c_void_p),
                ("state", ctypes.c_void_p)]


def quantiser(bits, scaling=MAGNITUDE, block=32):
    return Quantiser(scaling=scaling, bits=bits, levels=(1 << (bits - 1)) - 1, block=block)


class Task(ctypes.Structure):  # kernels/cuda/batch.h
    _fields_ = [("count", ctypes.c_uint64), ("first_mask", ctypes.c_uint64), ("address", ctypes.c_uint32), ("sources", ctypes.c_uint16),
                ("destinations", ctypes.c_uint16)]


class Batch(ctypes.Structure):  # kernels/cuda/batch.h
    _fields_ = [("op", ctypes.c_uint8), ("flags", ctypes.c_bool * 3), ("scale", ctypes.c_uint64), ("divide_last", ctypes.c_int64),
                ("word", ctypes.c_void_p), ("when", ctypes.c_uint32), ("tasks", ctypes.c_uint32), ("addresses", ctypes.c_uint32),
                ("task", Task * 64), ("late", ctypes.c_void_p), ("address", ctypes.c_void_p * 256)]


COMBINE_BLOCKS = 4  # kernels/cuda/batch.h

# By name: the form, the kernels' part of the name, bytes of a message for each element, the largest error in units of the
# largest magnitude.
FORMS = {
    "fp16": (Form(kind=CAST, wire=FLOAT16), "cast", 2, 0.001),
    "int8": (Form(kind=BLOCKS, quantiser=quantiser(8)), "blocks", 1 + 2 / 32, 0.005),
    "int4": (Form(kind=BLOCKS, quantiser=quantiser(4)), "blocks", 0.5 + 2 / 32, 0.08),
    "fp8": (Form(kind=BLOCKS, quantiser=quantiser(8, FLOAT8E4M3)), "blocks", 1 + 1 / 32, 1 / 16),
    "int8:block=128": (Form(kind=BLOCKS, quantiser=quantiser(8, block=128)), "blocks", 1 + 2 / 128, 0.005),
    "sign": (Form(kind=SIGN, sign_block=1024), "sign", 1 / 8 + 4 / 1024, 1),
}


def tell(**line):
    print(json.dumps(line), flush=True)


class Kernels(Image):
    def __init__(self, path):
        super().__init__(path)
        self.multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count

    def launch(self, kernel, work):
        kind = work.form.kind
        tile = SIGN_BLOCKS * work.form.sign_block if kind == SIGN else TILES[kind]
        most = WAVES * self.multiprocessors * (BLOCKS_OF_VARYING if kind in (SELECT, EXPONENTS) else BLOCKS_PER_MULTIPROCESSOR)
        grid = min((work.count + tile - 1) // tile, min(most, MOST_PARTS) if kind == SELECT else most)
        self.launch_blocks(kernel, grid, work)


def check_kernels(kernels):
    values = torch.randn(KERNEL_ELEMENTS, device="cuda")
    for name, (form, part, message_bytes, error) in FORMS.items():
        message = torch.empty(int(KERNEL_ELEMENTS * message_bytes) + SLACK, dtype=torch.uint8, device="cuda")
        decoded = torch.zeros_like(values)
        encode, decode = kernels.find(f"hocket_encode_{part}_float32"), kernels.find(f"hocket_decode_{part}_float32")
        encoding = Work(form=form, count=KERNEL_ELEMENTS, values=values.data_ptr(), message=message.data_ptr())
        decoding = Work(form=form, count=KERNEL_ELEMENTS, values=decoded.data_ptr(), message=message.data_ptr(), adds=True)
        kernels.launch(encode, encoding)
        kernels.launch(decode, decoding)
        right = bool(((decoded - values).abs().max() <= error * values.abs().max()).item())
        encode_ms = device_ms(lambda: kernels.launch(encode, encoding))  # noqa: B023
        decode_ms = device_ms(lambda: kernels.launch(decode, decoding))  # noqa: B023
        # Copies read as many bytes as they write: half of what the kernel moves.
        source, target = torch.empty(2, (KERNEL_ELEMENTS * 8 + message.numel()) // 2, dtype=torch.uint8, device="cuda")
        encoded = (KERNEL_ELEMENTS * 4 + message.numel()) // 2
        copy_encode = device_ms(lambda: target[:encoded].copy_(source[:encoded]))  # noqa: B023
        copy_decode = device_ms(lambda: target.copy_(source))  # noqa: B023
        tell(check="kernels of " + name, elements=KERNEL_ELEMENTS, right=right, encode_ms=round(encode_ms, 4),
             encode_of_copy=round(copy_encode / encode_ms, 3), decode_add_ms=round(decode_ms, 4),
             decode_add_of_copy=round(copy_decode / decode_ms, 3))


class Varying:
    """Codings of so many float32 whose messages vary in length."""

    def __init__(self, kernels, form, part):
        self.kernels, self.form = kernels, form
        self.encode_passes, self.decode_passes = PASSES[form.kind]
        self.encode_kernel, self.decode_kernel = kernels.find(f"hocket_encode_{part}_float32"), kernels.find(f"hocket_decode_{part}_float32")
        self.message = torch.empty(8 * KERNEL_ELEMENTS, dtype=torch.uint8, device="cuda")
        self.scratch = torch.empty(20 * KERNEL_ELEMENTS, dtype=torch.uint8, device="cuda")  # more than scratch_bytes()
        self.state = torch.zeros(2, dtype=torch.int64).pin_memory()  # bytes, whether damaged

    def encode(self, values):
        self.code(self.encode_kernel, self.encode_passes, values)

    def decode(self, values):
        self.code(self.decode_kernel, self.decode_passes, values)

    def code(self, kernel, passes, values):
        for number in range(passes):
            self.kernels.launch(kernel, Work(form=self.form, count=KERNEL_ELEMENTS, values=values.data_ptr(), number=number,
                                             message=self.message.data_ptr(), scratch=self.scratch.data_ptr(), state=self.state.data_ptr()))

    def figures(self, values, decoded):
        encode_ms, decode_ms = device_ms(lambda: self.encode(values)), device_ms(lambda: self.decode(decoded))
        return {"elements": KERNEL_ELEMENTS, "bytes": self.state[0].item(), "encode_ms": round(encode_ms, 4), "decode_ms": round(decode_ms, 4)}


def check_combine(kernels):
    """The sum of two sources, into one destination and into two."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.uint8):
        memory = torch.randint(0, 100, (4, KERNEL_ELEMENTS), device="cuda").to(dtype)
        kernel = kernels.find("hocket_combine_" + str(dtype).removeprefix("torch."))
        for destinations in (1, 2):
            batch = Batch(tasks=1, addresses=2 + destinations)
            batch.task[0] = Task(count=KERNEL_ELEMENTS, sources=2, destinations=destinations)
            for i in range(2 + destinations):
                batch.address[i] = memory[i].data_ptr()
            wanted = memory[0] + memory[1]
            memory[2:].zero_()
            launch = partial(kernels.launch_blocks, kernel, COMBINE_BLOCKS * kernels.multiprocessors, batch)
            launch()
            right = all(torch.equal(each, wanted) for each in memory[2:2 + destinations])
            half = memory.view(-1).view(torch.uint8)[:KERNEL_ELEMENTS * dtype.itemsize * (2 + destinations) // 2]
            target = torch.empty_like(half)
            took, copy = device_ms(launch), device_ms(partial(target.copy_, half))
            tell(check=f"combine {dtype} of 2 into {destinations}", elements=KERNEL_ELEMENTS, right=right, ms=round(took, 4), of_copy=round(copy / took, 3))


def check_selection(kernels):
    """The largest hundredth."""
    values = torch.randn(KERNEL_ELEMENTS, device="cuda")
    decoded = torch.empty_like(values)
    coding = Varying(kernels, Form(kind=SELECT, share=SHARE), "select")
    coding.encode(values)
    coding.decode(decoded)
    kept, magnitudes = math.ceil(SHARE * KERNEL_ELEMENTS), values.abs()
    least = torch.topk(magnitudes, kept).values.min()
    is_kept = decoded != 0
    ties = is_kept[magnitudes == least]  # the first ones are kept
    right = [is_kept.sum().item() == kept, torch.equal(decoded[is_kept], values[is_kept]), bool(is_kept[magnitudes > least].all()),
             bool((ties[:-1] >= ties[1:]).all()), coding.state[1].item() == 0]
    figures = coding.figures(values, decoded)
    topk_ms = device_ms(lambda: torch.topk(magnitudes, kept))
    tell(check="top 1 %", right=all(right), **figures, topk_ms=round(topk_ms, 4), times_as_fast=round(topk_ms / figures["encode_ms"], 2))


def check_lossless(kernels):
    values = torch.randn(KERNEL_ELEMENTS, device="cuda")
    decoded = torch.empty_like(values)
    coding = Varying(kernels, Form(kind=EXPONENTS), "exponents")
    coding.encode(values)
    coding.decode(decoded)
    right = torch.equal(values.view(torch.int32), decoded.view(torch.int32)) and coding.state[1].item() == 0
    tell(check="lossless", right=right, **coding.figures(values, decoded), copy_ms=round(device_ms(lambda: decoded.copy_(values)), 4))


def check_kernels_alone(kernels):
    check_combine(kernels)
    check_kernels(kernels)
    check_selection(kernels)
    check_lossless(kernels)


def milliseconds(body):
    body()
    begin = time.perf_counter()
    for _ in range(ROUNDS):
        body()
    torch.cuda.current_stream().synchronize()
    return (time.perf_counter() - begin) * 1e3 / ROUNDS


def check_calls(comm, timed):
    for specification in ("fp16", "bf16", "fp8", "int8", "int4:rotate=1", "int8:round=stochastic", "sign", "topk", "threshold:least=2", "lossless"):
        for count in (1, 10007, 4 << 20):
            host = torch.randn(count, generator=torch.Generator().manual_seed(comm.rank))
            device = host.cuda()
            by_host, by_device = hocket.Codec(specification), hocket.Codec(specification)
            comm.all_reduce(host, codec=by_host)
            comm.all_reduce(device, codec=by_device)
            wrong = torch.tensor([0.0 if torch.equal(to_host(device), host) else 1.0])
            comm.all_reduce(wrong)
            line = {"check": "all_reduce with " + specification, "ranks": comm.size, "elements": count, "right": wrong.item() == 0}
            if timed:
                line["device_ms"] = round(milliseconds(lambda: comm.all_reduce(device, codec=by_device)), 4)  # noqa: B023
                line["host_ms"] = round(milliseconds(lambda: comm.all_reduce(host, codec=by_host)), 4)  # noqa: B023
            if comm.rank == 0:
                tell(**line)


def check_all(comm):
    image = sys.argv[1] if len(sys.argv) == 2 else None
    if image is not None and comm.rank == 0:
        check_kernels_alone(Kernels(image))
    comm.barrier()
    check_calls(comm, image is not None)
    comm.barrier()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    on_each_rank(check_all)
