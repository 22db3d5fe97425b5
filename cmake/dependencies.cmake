# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# What Hocket links, and what it would use if it were there. Each optional dependency is recorded with its version and
# with what becomes of it; src/api/build_info.cc.in carries the records into the library.

find_package(Threads REQUIRED)
find_package(fmt 8 REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)
find_package(hwy 1.0 CONFIG REQUIRED)
find_package(EXPAT 2.4 REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)

set(HOCKET_BUILD_INFO "")

# hocket_record(NAME FOUND VERSION NOTE)
function(hocket_record name found version note)
  set(found_number 0)
  if(found)
    set(found_number 1)
  endif()
  list(APPEND HOCKET_BUILD_INFO "    {\"${name}\", ${found_number}, \"${version}\", \"${note}\"},")
  set(HOCKET_BUILD_INFO "${HOCKET_BUILD_INFO}" PARENT_SCOPE)
  message(STATUS "${name} ${version}: ${note}")
endfunction()

# hocket_look_for(PREFIX MODULE): PREFIX_FOUND, PREFIX_VERSION and the target PkgConfig::PREFIX, by pkg-config.
macro(hocket_look_for prefix module)
  pkg_check_modules(${prefix} QUIET IMPORTED_TARGET ${module})
endmacro()

hocket_look_for(HWLOC hwloc)
if(HWLOC_FOUND AND HOCKET_WITH_HWLOC)
  hocket_record(hwloc TRUE "${HWLOC_VERSION}" "used for cores, caches and NUMA nodes (hocket topo shows them)")
elseif(HWLOC_FOUND)
  hocket_record(hwloc TRUE "${HWLOC_VERSION}" "not used: switched off by HOCKET_WITH_HWLOC=OFF")
else()
  hocket_record(hwloc FALSE "" "not used: pkg-config knows no hwloc (Debian: libhwloc-dev)")
endif()

find_package(CUDAToolkit QUIET)
set(HOCKET_CUDA_KERNELS FALSE)
if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE AND CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8 AND HOCKET_WITH_CUDA)
  set(HOCKET_CUDA_KERNELS TRUE)
  hocket_record("CUDA Toolkit" TRUE "${CUDAToolkit_VERSION}" "compiles kernels for devices (the driver is found at run time)")
elseif(CUDAToolkit_FOUND AND NOT HOCKET_WITH_CUDA)
  hocket_record("CUDA Toolkit" TRUE "${CUDAToolkit_VERSION}" "not used: switched off by HOCKET_WITH_CUDA=OFF")
else()
  hocket_record("CUDA Toolkit" FALSE "" "no kernels for devices, whose memory is staged: nvcc 12.8 or newer is not here")
endif()

find_path(HOCKET_NVTX_INCLUDE nvtx3/nvToolsExt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(HOCKET_NVTX_INCLUDE)
  hocket_record(NVTX TRUE "3" "shows calls as ranges in NVIDIA's tools (which bring the library)")
else()
  hocket_record(NVTX FALSE "" "no ranges in NVIDIA's tools: nvtx3/nvToolsExt.h is not here (it is in the CUDA Toolkit)")
endif()

hocket_look_for(IBVERBS libibverbs)
if(IBVERBS_FOUND AND HOCKET_WITH_VERBS)
  hocket_record(libibverbs TRUE "${IBVERBS_VERSION}" "used for RDMA (opened at run time, where a host has devices)")
elseif(IBVERBS_FOUND)
  hocket_record(libibverbs TRUE "${IBVERBS_VERSION}" "not used: switched off by HOCKET_WITH_VERBS=OFF")
else()
  hocket_record(libibverbs FALSE "" "not used: pkg-config knows no libibverbs (Debian: libibverbs-dev)")
endif()

hocket_look_for(UCX "ucx >= 1.13")
if(UCX_FOUND AND HOCKET_WITH_UCX)
  hocket_record(UCX TRUE "${UCX_VERSION}" "used where it is asked for (opened at run time)")
elseif(UCX_FOUND)
  hocket_record(UCX TRUE "${UCX_VERSION}" "not used: switched off by HOCKET_WITH_UCX=OFF")
else()
  hocket_record(UCX FALSE "" "not used: pkg-config knows no ucx of version 1.13 or newer (Debian: libucx-dev)")
endif()

# Compiling again what has not changed is the slowest part of three builds.
find_program(HOCKET_CCACHE ccache)
if(HOCKET_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  # Without that it keeps nothing for which headers were compiled before.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${HOCKET_CCACHE})
endif()
