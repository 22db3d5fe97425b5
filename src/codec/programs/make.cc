// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The list of programs, and what surrounds codecs.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "codec/codecs.h"
#include "codec/programs/programs.h"
#include "codec/whole.h"

namespace hocket {
namespace {

struct Entry {
  std::string_view name;
  programs::MadeProgram (*make)(Specification&);
};

constexpr auto kPrograms = std::to_array<Entry>({
    {"shared", programs::make_shared_scale},
    {"powersgd", programs::make_powersgd},
    {"dgc", programs::make_dgc},
});

Result<Compression> make_program(const Entry& entry, Specification& specification) {
  Compression made{.codecs = {}, .program = entry.make(specification), .specification = {}};
  HOCKET_TRY(specification.finish());
  made.specification = made.program->describe().specification;
  return made;
}

enum class Around : uint8_t { kResidual, kBoth, kEf21 };

}  // namespace

std::vector<std::string_view> program_names() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kPrograms) names.push_back(entry.name);
  return names;
}

Result<Compression> make_compression(std::string_view text) {
  Result<Specification> specification = Specification::parse(text);
  HOCKET_TRY(specification.status());
  for (const Entry& entry : kPrograms) {
    if (entry.name == specification->name()) return make_program(entry, *specification);
  }
  if (specification->name() == kAutomatic) {
    Result<Codecs> codecs = make_automatic(*specification);
    HOCKET_TRY(codecs.status());
    return Compression{std::move(*codecs), nullptr, specification->canonical()};
  }
  const auto around = specification->has("feedback")
                          ? static_cast<Around>(specification->word("feedback", {"residual", "both", "ef21"}))
                          : Around::kResidual;
  Result<std::unique_ptr<const Codec>> made = codecs::make(*specification);
  HOCKET_TRY(made.status());
  const std::shared_ptr<const Codec> codec = std::move(*made);
  Compression result{{codec}, nullptr, codec->describe(DataType::kFloat32).specification};
  // What a codec with blocks loses of sums is kept as what it loses of contributions.
  if (around == Around::kResidual || (around == Around::kBoth && codec->block() != 0)) return result;
  if (!contracts(*codec)) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("codec '{}': feedback={} needs a codec that loses less than there is: this one is right on "
                    "average only, and what is kept would grow",
                    text, around == Around::kBoth ? "both" : "ef21"));
  }
  const FeedbackKind kind = around == Around::kBoth ? FeedbackKind::kResidual : FeedbackKind::kEf21;
  result.program = programs::make_two_sided(codec, kind);
  return result;
}

}  // namespace hocket
