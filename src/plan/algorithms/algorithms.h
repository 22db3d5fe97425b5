// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The builders behind the registry, by algorithm; each namespace is one file of this folder, which explains it.
#pragma once

#include "plan/builders.h"

namespace hocket::plan {

namespace ring {
Plan all_reduce(const BuildOptions& options);
Plan reduce_scatter(const BuildOptions& options);
Plan all_gather(const BuildOptions& options);
}  // namespace ring

namespace routed {
Plan all_reduce(const BuildOptions& options);
bool fits(const BuildOptions& options);
}  // namespace routed

namespace routed_trees {
Plan all_reduce(const BuildOptions& options);
Plan broadcast(const BuildOptions& options);
Plan reduce(const BuildOptions& options);
bool fits_all_reduce(const BuildOptions& options);
bool fits(const BuildOptions& options);
}  // namespace routed_trees

namespace recursive_doubling {
Plan all_reduce(const BuildOptions& options);
Plan all_gather(const BuildOptions& options);
bool fits_all_gather(const BuildOptions& options);
}  // namespace recursive_doubling

namespace recursive_halving {
Plan reduce_scatter(const BuildOptions& options);
bool fits(const BuildOptions& options);
}  // namespace recursive_halving

namespace rabenseifner {
Plan all_reduce(const BuildOptions& options);
}

namespace circulant {
Plan all_reduce(const BuildOptions& options);
Plan reduce_scatter(const BuildOptions& options);
Plan all_gather(const BuildOptions& options);
}  // namespace circulant

namespace block_circulant {
Plan broadcast(const BuildOptions& options);
Plan reduce(const BuildOptions& options);
}  // namespace block_circulant

namespace swing {
Plan all_reduce(const BuildOptions& options);
}

namespace knomial {
Plan all_reduce(const BuildOptions& options);
Plan broadcast(const BuildOptions& options);
Plan reduce(const BuildOptions& options);
Plan all_reduce_binomial(const BuildOptions& options);
Plan broadcast_binomial(const BuildOptions& options);
Plan reduce_binomial(const BuildOptions& options);
bool fits(const BuildOptions& options);
}  // namespace knomial

namespace bine {
Plan all_reduce(const BuildOptions& options);
Plan broadcast(const BuildOptions& options);
Plan reduce(const BuildOptions& options);
}  // namespace bine

namespace double_tree {
Plan all_reduce(const BuildOptions& options);
Plan broadcast(const BuildOptions& options);
Plan reduce(const BuildOptions& options);
bool fits_all_reduce(const BuildOptions& options);
bool fits(const BuildOptions& options);
}  // namespace double_tree

namespace dual_root {
Plan all_reduce(const BuildOptions& options);
bool fits(const BuildOptions& options);
}  // namespace dual_root

namespace binomial {
Plan gather(const BuildOptions& options);
Plan scatter(const BuildOptions& options);
}  // namespace binomial

namespace chain {
Plan all_reduce(const BuildOptions& options);
Plan broadcast(const BuildOptions& options);
Plan reduce(const BuildOptions& options);
Plan scan(const BuildOptions& options);
Plan exscan(const BuildOptions& options);
bool fits_all_reduce(const BuildOptions& options);
}  // namespace chain

namespace hierarchical {
Plan all_reduce(const BuildOptions& options);
Plan all_to_all(const BuildOptions& options);
Plan reduce_scatter(const BuildOptions& options);
Plan all_gather(const BuildOptions& options);
Plan broadcast(const BuildOptions& options);
Plan reduce(const BuildOptions& options);
bool fits_all_reduce(const BuildOptions& options);
bool fits_all_to_all(const BuildOptions& options);
bool fits_blocks(const BuildOptions& options);  // reduce-scatter and all-gather
bool fits_rooted(const BuildOptions& options);  // broadcast and reduce
}  // namespace hierarchical

namespace shot {
bool fits_all_reduce_one(const BuildOptions& options);
Plan all_reduce_one(const BuildOptions& options);
Plan all_reduce_two(const BuildOptions& options);
}  // namespace shot

namespace direct {
Plan reduce_scatter(const BuildOptions& options);
Plan all_gather(const BuildOptions& options);
Plan broadcast(const BuildOptions& options);
Plan reduce(const BuildOptions& options);
Plan gather(const BuildOptions& options);
Plan scatter(const BuildOptions& options);
Plan all_to_all(const BuildOptions& options);
}  // namespace direct

namespace in_order {
Plan all_reduce(const BuildOptions& options);
Plan reduce(const BuildOptions& options);
}  // namespace in_order

namespace scatter_all_gather {
Plan broadcast(const BuildOptions& options);
}

namespace pairwise {
bool fits_all_reduce(const BuildOptions& options);
Plan all_reduce(const BuildOptions& options);
Plan all_to_all(const BuildOptions& options);
}  // namespace pairwise

namespace bruck {
Plan all_to_all(const BuildOptions& options);
Plan all_to_all_binary(const BuildOptions& options);
Plan all_gather(const BuildOptions& options);
bool fits_radix(const BuildOptions& options);
}  // namespace bruck

namespace pat {
Plan all_gather(const BuildOptions& options);
Plan all_gather_sparbit(const BuildOptions& options);
Plan reduce_scatter(const BuildOptions& options);
bool fits(const BuildOptions& options);
}  // namespace pat

namespace dissemination {
Plan barrier(const BuildOptions& options);
}

namespace doubling_scan {
Plan scan(const BuildOptions& options);
Plan exscan(const BuildOptions& options);
}  // namespace doubling_scan

namespace window {
Plan all_reduce(const BuildOptions& options);
Plan all_reduce_put(const BuildOptions& options);
Plan reduce_scatter(const BuildOptions& options);
Plan all_gather(const BuildOptions& options);
Plan broadcast(const BuildOptions& options);
Plan reduce(const BuildOptions& options);
Plan all_to_all(const BuildOptions& options);
bool fits_out_of_place(const BuildOptions& options);
}  // namespace window

}  // namespace hocket::plan
