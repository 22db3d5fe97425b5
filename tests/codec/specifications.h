// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Every codec, with every option at least once: what the suites run over.
#pragma once

#include <string>
#include <vector>

namespace hocket {

inline std::vector<std::string> all_specifications() {
  std::vector<std::string> list = {"fp16",
                                   "bf16",
                                   "fp8",
                                   "fp8:format=e5m2,block=128",
                                   "int8:block=256",
                                   "int8:scale=minmax,block=64",
                                   "int4:rotate=1,seed=3",
                                   "int2:block=64,rotate=1",
                                   "terngrad",
                                   "qsgd:levels=7,block=32",
                                   "natural:seed=2",
                                   "sign",
                                   "sign:block=256",
                                   "lossless",
                                   "bounded:error=0.01",
                                   "bounded:error=1e-30",
                                   "bounded:error=1e-20",
                                   "bounded:error=1e30",
                                   "topk",
                                   "topk:ratio=0.3",
                                   "topk:ratio=1",
                                   "topk:ratio=0.1,select=sampled",
                                   "threshold:least=0.5",
                                   "threshold:least=0",
                                   "randomk:ratio=0.25,seed=9",
                                   "randomk:ratio=0.5,unbiased=1",
                                   "blocksparse",
                                   "blocksparse:block=16"};
  for (const char* name : {"int8", "int6", "int4", "int3", "int2"}) {
    for (const char* options : {"", ":scale=signed", ":scale=minmax", ":round=stochastic,seed=7",
                                ":round=stochastic,scale=minmax,block=128"}) {
      list.push_back(std::string(name) + options);
    }
  }
  for (const char* levels : {"127", "31", "3", "1"}) list.push_back(std::string("qsgd:levels=") + levels);
  return list;
}

}  // namespace hocket
