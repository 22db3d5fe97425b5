/* SPDX-License-Identifier: Apache-2.0
 * Copyright The Hocket authors
 *
 * A meeting of ranks, written by hand, for torch_bench.py: each raises its flag in shared memory and looks at the
 * others', with nothing around it. It is the least that a call of all ranks can take beside one that does nothing.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kMostRanks = 64, kLooks = 100000 };

typedef struct {
  _Alignas(64) _Atomic uint64_t met;
} Flag;

static Flag* flags;
static int own, ranks;
static int looks; /* before a rank gives its core to another; none where ranks share cores */

static PyObject* attach(PyObject* Py_UNUSED(module), PyObject* arguments) {
  const char* path;
  int crowded;
  if (!PyArg_ParseTuple(arguments, "siip", &path, &own, &ranks, &crowded)) return NULL;
  if (ranks < 1 || ranks > kMostRanks || own < 0 || own >= ranks) {
    return PyErr_Format(PyExc_ValueError, "rank %d of %d: expected at most %d", own, ranks, kMostRanks);
  }
  looks = crowded ? 0 : kLooks;
  const int file = open(path, O_RDWR | O_CREAT, 0600);
  const int sized = file >= 0 && ftruncate(file, kMostRanks * sizeof(Flag)) == 0;
  flags = sized ? mmap(NULL, kMostRanks * sizeof(Flag), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  if (flags == MAP_FAILED) PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
  if (file >= 0) close(file);
  if (flags == MAP_FAILED) return NULL;
  Py_RETURN_NONE;
}

static PyObject* meet(PyObject* Py_UNUSED(module), PyObject* Py_UNUSED(none)) {
  const uint64_t number = atomic_load_explicit(&flags[own].met, memory_order_relaxed) + 1;
  atomic_store_explicit(&flags[own].met, number, memory_order_release);
  for (int rank = 0; rank < ranks; ++rank) {
    for (int look = 0; atomic_load_explicit(&flags[rank].met, memory_order_acquire) < number; ++look) {
      if (look >= looks) sched_yield();
    }
  }
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"attach", attach, METH_VARARGS, "attach(path, rank, ranks, crowded)"},
                                {"meet", meet, METH_NOARGS, "Returns when all ranks have come."},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "torch_meeting", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_torch_meeting(void) { return PyModule_Create(&definition); }
