// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "perf/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hocket::perf {
namespace {

using testing::HasSubstr;

Parsed parse(std::vector<const char*> words, const Collective& collective = kAllReduce) {
  words.insert(words.begin(), "program");
  return parse_options(collective, static_cast<int>(words.size()), words.data());
}

Options good(const std::vector<const char*>& words) {
  Parsed parsed = parse(words);
  EXPECT_TRUE(parsed.options) << parsed.end.message;
  return parsed.options.value_or(Options());
}

std::string refusal(const std::vector<const char*>& words) {
  const Parsed parsed = parse(words);
  EXPECT_FALSE(parsed.options);
  EXPECT_EQ(parsed.end.status, kExitUsage);
  return parsed.end.message;
}

TEST(CommandLine, BeginsWithTheDefaultsOfNcclTests) {
  const Options options = good({});
  EXPECT_EQ(options.threads, 1);
  EXPECT_EQ(options.ranks_per_thread, 1);
  EXPECT_EQ(options.sweep.first, 32u << 20);
  EXPECT_EQ(options.sweep.last, 32u << 20);
  EXPECT_EQ(options.sweep.step, 1u << 20);
  EXPECT_EQ(options.iterations, 20);
  EXPECT_EQ(options.warmup, 1);
  EXPECT_EQ(options.checks, 1);
  EXPECT_EQ(options.average, Average::kMean);
  ASSERT_EQ(options.types.size(), 1u);
  EXPECT_EQ(options.types[0]->name, "float");
  ASSERT_EQ(options.ops.size(), 1u);
  EXPECT_EQ(options.ops[0]->name, "sum");
}

TEST(CommandLine, TakesEveryFlagShortAndLong) {
  const Options brief = good({"-t", "2",   "-g", "3",    "-b", "8",      "-e", "1K", "-f", "2", "-n", "5", "-w", "2",
                              "-m", "4",   "-N", "0",    "-a", "3",      "-I", "1",  "-K", "2", "-p", "1", "-c", "0",
                              "-o", "max", "-d", "half", "-r", "-1",     "-z", "3",  "-C", "1", "-S", "1", "-M", "1",
                              "-T", "9",   "-u", "1",    "-J", "x.json", "-y", "1",  "-R", "2", "-G", "0", "-D", "0"});
  const Options spelt = good({"--nthreads=2",
                              "--ngpus=3",
                              "--minbytes=8",
                              "--maxbytes=1K",
                              "--stepfactor=2",
                              "--iters=5",
                              "--warmup_iters=2",
                              "--agg_iters=4",
                              "--run_cycles=0",
                              "--average=3",
                              "--per_iter_timing=1",
                              "--per_iter_skip=2",
                              "--parallel_init=1",
                              "--check=0",
                              "--op=max",
                              "--datatype=half",
                              "--root=all",
                              "--blocking=3",
                              "--report_cputime=1",
                              "--report_timestamps=1",
                              "--memory=1",
                              "--timeout=9",
                              "--unalign=1",
                              "--output_file=x.json",
                              "--stream_null=1",
                              "--local_register=2",
                              "--cudagraph=0",
                              "--device_implementation=0"});
  for (const Options& options : {brief, spelt}) {
    EXPECT_EQ(options.threads, 2);
    EXPECT_EQ(options.ranks_per_thread, 3);
    EXPECT_EQ(options.sweep.first, 8u);
    EXPECT_EQ(options.sweep.last, 1024u);
    EXPECT_EQ(options.sweep.factor, 2u);
    EXPECT_EQ(options.iterations, 5);
    EXPECT_EQ(options.warmup, 2);
    EXPECT_EQ(options.aggregate, 4);
    EXPECT_EQ(options.cycles, 0);
    EXPECT_EQ(options.average, Average::kMaximum);
    EXPECT_TRUE(options.per_iteration && options.parallel_init && options.cpu_time && options.timestamps &&
                options.memory);
    EXPECT_EQ(options.skip, 2);
    EXPECT_EQ(options.checks, 0);
    EXPECT_EQ(options.ops[0]->name, "max");
    EXPECT_EQ(options.types[0]->name, "half");
    EXPECT_EQ(options.root, -1);
    EXPECT_EQ(options.blocking, Blocking::kBarrierApart);
    EXPECT_EQ(options.timeout_seconds, 9);
    EXPECT_EQ(options.unalign, 1);
    EXPECT_EQ(options.json_file, "x.json");
    EXPECT_THAT(options.ignored, testing::ElementsAre("-y"));
    EXPECT_EQ(options.registration, Registration::kSymmetric);
  }
}

TEST(CommandLine, TakesFlagsOfOurOwn) {
  const Options options =
      good({"--ranks", "4", "--percentiles", "--csv", "x.csv", "--queue", "--cold", "-d", "all", "-o", "all"});
  EXPECT_EQ(options.processes, 4);
  EXPECT_TRUE(options.percentiles && options.queue && options.cold && options.times_each_iteration());
  EXPECT_EQ(options.csv_file, "x.csv");
  EXPECT_EQ(options.types.size(), element_types().size());
  EXPECT_EQ(options.ops.size(), reduce_ops().size());
}

TEST(CommandLine, SaysWhatIsWrong) {
  EXPECT_THAT(refusal({"-b", "8T"}), HasSubstr("not a size: '8T'"));
  EXPECT_THAT(refusal({"-b", "2K", "-e", "1K"}), HasSubstr("-b 2K is more than -e 1K"));
  EXPECT_THAT(refusal({"-b", "0", "-e", "1K", "-f", "2"}), HasSubstr("-b 0"));
  EXPECT_THAT(refusal({"-b", "1", "-e", "1K", "-i", "0"}), HasSubstr("-i 0"));
  EXPECT_THAT(refusal({"-o", "average"}), HasSubstr("no operation is named 'average'"));
  EXPECT_THAT(refusal({"-d", "float32"}), HasSubstr("no element type is named 'float32'; there are int8, uint8"));
  EXPECT_THAT(refusal({"-o", "band"}), HasSubstr("-o band is for integers"));
  EXPECT_THAT(refusal({"-r", "first"}), HasSubstr("-r first"));
  EXPECT_THAT(refusal({"-r", "-2"}), HasSubstr("-r -2"));
  EXPECT_THAT(refusal({"-K", "20", "-I", "1"}), HasSubstr("-K 20"));
  EXPECT_THAT(refusal({"-K", "2"}), HasSubstr("-K needs -I"));
  EXPECT_THAT(refusal({"-J", "x.html"}), HasSubstr("only .json"));
  EXPECT_THAT(refusal({"-G", "1"}), HasSubstr("graphs"));
  EXPECT_THAT(refusal({"-D", "1"}), HasSubstr("no device code"));
  for (const std::vector<const char*>& words : std::vector<std::vector<const char*>>{{"-t", "0"},
                                                                                     {"--ranks", "0"},
                                                                                     {"-n", "0"},
                                                                                     {"-n", "many"},
                                                                                     {"-a", "4"},
                                                                                     {"-z", "4"},
                                                                                     {"-u", "-1"},
                                                                                     {"-Q"},
                                                                                     {"extra"}}) {
    EXPECT_NE(refusal(words), "") << words[0];
  }
}

TEST(CommandLine, ExplainsItself) {
  const Parsed parsed = parse({"--help"});
  EXPECT_FALSE(parsed.options);
  EXPECT_EQ(parsed.end.status, kExitOk);
  EXPECT_THAT(parsed.end.message, HasSubstr("--minbytes"));
}

TEST(CommandLine, HasSpreadForAllToAllVOnly) {
  const Parsed parsed = parse({"--spread", "0.25"}, kAllToAllV);
  ASSERT_TRUE(parsed.options);
  EXPECT_DOUBLE_EQ(parsed.options->traffic.spread, 0.25);
  EXPECT_FALSE(parse({"--spread", "1.5"}, kAllToAllV).options);
  EXPECT_FALSE(parse({"--spread", "0.25"}).options);
}

}  // namespace
}  // namespace hocket::perf
