// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "backend.h"
#include "interruption.h"
#include "layouts.h"

PYBIND11_MODULE(_hocket_torch, module) {
  using hocket_torch::Backend;
  using hocket_torch::GroupOptions;
  namespace py = pybind11;
  py::module_::import("torch.distributed");  // knows the base class
  hocket_torch::hand_on_all_layouts();
  py::class_<GroupOptions, c10::intrusive_ptr<GroupOptions>, c10d::Backend::Options>(module, "Options")
      .def(py::init<std::chrono::milliseconds, int>(), py::arg("timeout"), py::arg("reproducibility"))
      .def_readonly("reproducibility", &GroupOptions::reproducibility)
      .def("__deepcopy__", [](const GroupOptions& self, const py::dict&) {  // split_group() copies the parent's
        return c10::make_intrusive<GroupOptions>(self.timeout, self.reproducibility);
      });
  py::class_<Backend, c10::intrusive_ptr<Backend>, c10d::Backend>(module, "Backend")
      .def(py::init<const c10::intrusive_ptr<c10d::Store>&, int, int, c10::intrusive_ptr<GroupOptions>, std::string>(),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"), py::arg("name"),
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("options", &Backend::getBackendOptions);
  module.def("interrupt", &hocket_torch::interrupt, "Ends what the main thread waits for, with an error on all ranks.");
}
