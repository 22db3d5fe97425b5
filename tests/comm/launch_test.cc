// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the variables of each launcher mean, as seen on real launchers, and the traps.
#include "comm/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "comm/unique_id.h"
#include "tests/comm/mesh_fixture.h"

namespace hocket {
namespace {

using testing::HasSubstr;

const Environment kTorchrun = {{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "node-a"},
                               {"MASTER_PORT", "29500"},
                               {"TORCHELASTIC_RUN_ID", "none"}};
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                              {"PMIX_RANK", "2"},
                              {"PMIX_NAMESPACE", "1234567"}};
const Environment kSlurm = {{"SLURM_PROCID", "3"},
                            {"SLURM_NTASKS", "4"},
                            {"SLURM_STEP_NUM_TASKS", "4"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_LOCALID", "0"},
                            {"SLURM_NODEID", "1"},
                            {"SLURM_STEP_TASKS_PER_NODE", "3,1"},
                            {"SLURM_STEP_NODELIST", "gpu[03-04]"},
                            {"SLURM_JOB_ID", "77"}};

const char* const kTfConfig = R"({"cluster":{"chief":["job-chief-0.ns.svc:2222"],"ps":["job-ps-0.ns.svc:2222"],
  "worker":["job-worker-0.ns.svc:2222","job-worker-1.ns.svc:2222"]},"task":{"type":"worker","index":1},
  "environment":"cloud"})";

Environment together(Environment all, const Environment& more) {
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}

Environment without(Environment all, const std::string& name) {
  all.erase(name);
  return all;
}

struct Case {
  const char* name;
  Environment environment;
  const char* launcher;
  int32_t rank;
  int32_t ranks;
  int32_t local_rank;
  int32_t local_ranks;
  const char* host;
};

class LaunchTest : public testing::TestWithParam<Case> {};

TEST_P(LaunchTest, IsDetected) {
  const Case& expected = GetParam();
  const Result<Launch> launch = detect_launch(expected.environment);
  ASSERT_TRUE(launch.ok()) << launch.status().message();
  EXPECT_EQ(launch->launcher, expected.launcher);
  EXPECT_EQ(launch->rank, expected.rank);
  EXPECT_EQ(launch->ranks, expected.ranks);
  EXPECT_EQ(launch->local_rank, expected.local_rank);
  EXPECT_EQ(launch->local_ranks, expected.local_ranks);
  EXPECT_EQ(launch->host, expected.host);
}

INSTANTIATE_TEST_SUITE_P(
    Launchers, LaunchTest,
    testing::Values(
        Case{"nothing", {}, "single process", 0, 1, 0, 1, ""},
        Case{"hocket",
             {{"HOCKET_RANK", "1"},
              {"HOCKET_SIZE", "2"},
              {"HOCKET_LOCAL_RANK", "0"},
              {"HOCKET_LOCAL_SIZE", "1"},
              {"HOCKET_ADDRESS", "[fd00::1]:4411"}},
             "hocket",
             1,
             2,
             0,
             1,
             "fd00::1"},
        Case{"several_hosts",
             {{"HOCKET_RANK", "1"}, {"HOCKET_SIZE", "2"}, {"HOCKET_ADDRESS", "[fd00::1],10.0.0.1,[fd00::2]:4411"}},
             "hocket",
             1,
             2,
             -1,
             -1,
             "[fd00::1],10.0.0.1,[fd00::2]"},
        Case{"torchrun", kTorchrun, "torchrun", 5, 8, 1, 4, "node-a"},
        Case{"hocket_agrees_with_torchrun", together(kTorchrun, {{"HOCKET_RANK", "5"}, {"HOCKET_SIZE", "8"}}), "hocket",
             5, 8, -1, -1, "node-a"},
        Case{"hocket_in_a_shell_that_srun_opened",
             together(together(kSlurm, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}),
                      {{"HOCKET_RANK", "1"}, {"HOCKET_SIZE", "2"}}),
             "hocket", 1, 2, -1, -1, ""},
        Case{"torchrun_under_srun", together(kSlurm, kTorchrun), "torchrun", 5, 8, 1, 4, "node-a"},
        Case{"ranks_exported_under_mpirun",
             together(kOpenMpi, {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}}), "torchrun", 2, 4, 2, -1,
             ""},
        Case{"horovod",
             {{"HOROVOD_RANK", "1"}, {"HOROVOD_SIZE", "2"}, {"HOROVOD_LOCAL_RANK", "1"}, {"HOROVOD_LOCAL_SIZE", "2"}},
             "horovod",
             1,
             2,
             1,
             2,
             ""},
        Case{"open_mpi", kOpenMpi, "open mpi", 2, 4, 2, 4, ""},
        Case{"mpirun_inside_slurm", together(kSlurm, kOpenMpi), "open mpi", 2, 4, 2, 4, ""},
        Case{"hydra",
             {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
             "pmi",
             1,
             2,
             1,
             2,
             ""},
        Case{"hydra_inside_slurm",
             together(kSlurm,
                      {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}}),
             "pmi", 0, 2, 0, 2, ""},
        Case{"srun_pmi2", together(kSlurm, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}), "pmi", 3, 4, 0, 1, "gpu03"},
        Case{"srun_pmix", together(kSlurm, {{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "slurm.pmix.77.0"}}), "pmix", 3, 4,
             0, 1, "gpu03"},
        Case{"srun", kSlurm, "slurm", 3, 4, 0, 1, "gpu03"},
        Case{"srun_with_master_address", together(kSlurm, {{"MASTER_ADDR", "head"}, {"MASTER_PORT", "3000"}}), "slurm",
             3, 4, 0, 1, "head"},
        // The body of a batch script has a rank and a size, but no peers.
        Case{"batch_script",
             {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "77"}},
             "single process",
             0,
             1,
             0,
             1,
             ""},
        Case{"interactive_step", together(kSlurm, {{"SLURM_STEP_ID", "4294967290"}}), "single process", 0, 1, 0, 1, ""},
        // Kubeflow counts pods.
        Case{"pods", without(without(kTorchrun, "LOCAL_RANK"), "LOCAL_WORLD_SIZE"), "env", 5, 8, -1, -1, "node-a"},
        Case{"pods_that_run_mpi", together(without(kTorchrun, "LOCAL_RANK"), kOpenMpi), "open mpi", 2, 4, 2, 4,
             "node-a"},
        Case{"tf_job_worker", {{"TF_CONFIG", kTfConfig}}, "tf_config", 2, 3, -1, -1, "job-chief-0.ns.svc"},
        Case{"tf_job_without_chief",
             {{"TF_CONFIG",
               R"({"cluster":{"ps":["p:1"],"worker":["w0:2222","w1:2222"]},"task":{"type":"worker","index":0}})"}},
             "tf_config",
             0,
             2,
             -1,
             -1,
             "w0"},
        Case{"train_job",
             {{"PET_NODE_RANK", "1"}, {"PET_NNODES", "3"}, {"PET_MASTER_ADDR", "head"}, {"PET_MASTER_PORT", "29400"}},
             "trainer",
             1,
             3,
             -1,
             -1,
             "head"},
        Case{"train_job_for_jax",
             {{"JAX_PROCESS_ID", "1"}, {"JAX_NUM_PROCESSES", "2"}, {"JAX_COORDINATOR_ADDRESS", "head:6666"}},
             "jax",
             1,
             2,
             -1,
             -1,
             "head"},
        Case{"torchrun_in_a_train_job",
             together(kTorchrun, {{"PET_NODE_RANK", "1"}, {"PET_NNODES", "2"}, {"PET_MASTER_ADDR", "head"}}),
             "torchrun", 5, 8, 1, 4, "node-a"},
        Case{"a_lonely_rank", {{"RANK", "1"}, {"WORLD_SIZE", "2"}}, "single process", 0, 1, 0, 1, ""}),
    [](const auto& each) { return std::string(each.param.name); });

struct Wrong {
  const char* name;
  Environment environment;
  const char* complaint;
};

class WrongLaunchTest : public testing::TestWithParam<Wrong> {};

TEST_P(WrongLaunchTest, IsRefused) {
  const Result<Launch> launch = detect_launch(GetParam().environment);
  ASSERT_FALSE(launch.ok());
  EXPECT_THAT(launch.status().message(), HasSubstr(GetParam().complaint));
}

INSTANTIATE_TEST_SUITE_P(
    Launchers, WrongLaunchTest,
    testing::Values(
        Wrong{"half", {{"HOCKET_RANK", "1"}}, "HOCKET_SIZE is not"},
        Wrong{"other_half", {{"HOCKET_SIZE", "1"}}, "HOCKET_RANK is not"},
        Wrong{"no_number", together(kTorchrun, {{"RANK", "one"}}), "RANK='one'"},
        Wrong{"trailing", together(kTorchrun, {{"RANK", "1x"}}), "RANK='1x'"},
        Wrong{"negative", together(kTorchrun, {{"RANK", "-1"}}), "RANK='-1'"},
        Wrong{"too_large", together(kTorchrun, {{"RANK", "9"}}), "rank 9 of 8"},
        Wrong{"huge", together(kTorchrun, {{"RANK", "4294967295"}}), "too large"},
        Wrong{"none", together(kTorchrun, {{"WORLD_SIZE", "0"}}), "rank 5 of 0"},
        Wrong{"port", together(kTorchrun, {{"MASTER_PORT", "70000"}}), "MASTER_PORT=70000"},
        Wrong{"address", {{"HOCKET_RANK", "0"}, {"HOCKET_SIZE", "2"}, {"HOCKET_ADDRESS", "node-a"}}, "not host:port"},
        Wrong{"hocket_against_torchrun", together(kTorchrun, {{"HOCKET_RANK", "0"}, {"HOCKET_SIZE", "1"}}),
              "HOCKET_RANK and HOCKET_SIZE say rank 0 of 1, but RANK, WORLD_SIZE and LOCAL_RANK say rank 5 of 8"},
        Wrong{"hocket_against_slurm", together(kSlurm, {{"HOCKET_RANK", "0"}, {"HOCKET_SIZE", "4"}}),
              "rank 0 of 4, but SLURM_PROCID and SLURM_STEP_NUM_TASKS say rank 3 of 4"},
        Wrong{"exported_ranks_against_mpirun",
              together(kOpenMpi, {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}}),
              "RANK, WORLD_SIZE and LOCAL_RANK say rank 1 of 4, but OMPI_COMM_WORLD_RANK"},
        Wrong{"tf_config_of_a_ps",
              {{"TF_CONFIG", R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":0}})"}},
              "no rank"},
        Wrong{"tf_config_index",
              {{"TF_CONFIG", R"({"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":1}})"}},
              "TF_CONFIG="},
        Wrong{"tf_config_damaged", {{"TF_CONFIG", "{\"cluster\""}}, "TF_CONFIG='{\"cluster\"'"},
        Wrong{"tf_config_is_a_list", {{"TF_CONFIG", "[1,2]"}}, "TF_CONFIG='[1,2]'"},
        Wrong{"tf_config_is_deep", {{"TF_CONFIG", std::string(100000, '[')}}, "TF_CONFIG='[[["},
        Wrong{"trainer_is_elastic",
              {{"PET_NODE_RANK", "1"}, {"PET_NNODES", "1:4"}, {"PET_MASTER_ADDR", "head"}, {"PET_MASTER_PORT", "1"}},
              "PET_NNODES='1:4'"},
        Wrong{"jax_address",
              {{"JAX_PROCESS_ID", "0"}, {"JAX_NUM_PROCESSES", "2"}, {"JAX_COORDINATOR_ADDRESS", "head"}},
              "JAX_COORDINATOR_ADDRESS='head'"},
        Wrong{"pmix_alone", {{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "x"}}, "prterun --personality ompi"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(Launch, PortsStandBesideTheLaunchersOwn) {
  const Result<Launch> launch = detect_launch(kTorchrun);
  EXPECT_EQ(launch->port, 29501);
  EXPECT_GT(launch->ports, 1);
  const Result<Launch> last = detect_launch(together(kTorchrun, {{"MASTER_PORT", "65535"}}));
  EXPECT_LT(last->port + last->ports, 65536);
  const Result<Launch> chosen = detect_launch(together(kTorchrun, {{"HOCKET_ADDRESS", "node-b:7"}}));
  EXPECT_EQ(chosen->host, "node-b");
  EXPECT_EQ(chosen->port, 7);
  EXPECT_EQ(chosen->ports, 1);
  EXPECT_TRUE(chosen->exact);
}

TEST(Launch, JobsDiffer) {
  EXPECT_EQ(detect_launch(kSlurm)->job, detect_launch(together(kSlurm, {{"SLURM_PROCID", "0"}}))->job);
  EXPECT_NE(detect_launch(kSlurm)->job, detect_launch(together(kSlurm, {{"SLURM_STEP_ID", "1"}}))->job);
  EXPECT_NE(detect_launch(kOpenMpi)->job, detect_launch(together(kOpenMpi, {{"PMIX_NAMESPACE", "2"}}))->job);
}

TEST(Slurm, FirstHostOfAList) {
  EXPECT_EQ(first_slurm_host("gpu[03-05,9],x"), "gpu03");
  EXPECT_EQ(first_slurm_host("alone"), "alone");
  EXPECT_EQ(first_slurm_host("a,b"), "a");
  EXPECT_EQ(first_slurm_host("r[1-2]n[7,9]-ib"), "r1n7-ib");
  EXPECT_EQ(first_slurm_host(""), "");
  EXPECT_EQ(first_slurm_host("broken[1"), "");
}

TEST(Slurm, TasksOfANode) {
  EXPECT_EQ(slurm_tasks_of_node("3,1", 0), 3);
  EXPECT_EQ(slurm_tasks_of_node("3,1", 1), 1);
  EXPECT_EQ(slurm_tasks_of_node("2(x2)", 1), 2);
  EXPECT_EQ(slurm_tasks_of_node("2(x2),1", 2), 1);
  EXPECT_EQ(slurm_tasks_of_node("2(x2),1", 3), -1);
  for (const char* broken : {"", "x", "2(x", "2(x2", "2(y2)", "2(x0)", "2;1"}) {
    EXPECT_EQ(slurm_tasks_of_node(broken, 1), -1) << broken;
  }
}

// ---- Several hosts in one address

struct Meeting {
  Result<std::string> id = Status();
  std::string log;
};

// Of two ranks on two hosts.
Meeting meet_at(const std::string& hosts, int32_t rank) {
  Service service(real_system(), quick_options());
  Launch launch;
  launch.rank = rank;
  launch.ranks = 2;
  launch.host = hosts;
  launch.port = static_cast<uint16_t>(28000 + ::getpid() % 4000);
  launch.ports = 16;
  launch.job = "a test";
  testing::internal::CaptureStderr();
  Result<std::string> id = unique_id_from_environment(service, launch);
  return {std::move(id), testing::internal::GetCapturedStderr()};
}

TEST(SeveralHosts, WithoutOneThatCannotBeLookedUpTheOthersAreTaken) {
  const Meeting meeting = meet_at("127.0.0.1,,127.0.0.1", 1);
  ASSERT_TRUE(meeting.id.ok()) << meeting.id.status().message();
  EXPECT_EQ(decode_unique_id(*meeting.id)->addresses.size(), 16u) << "one host, 16 ports";
  EXPECT_THAT(meeting.log, HasSubstr("of the hosts 127.0.0.1,,127.0.0.1 one is left out: "));
  EXPECT_FALSE(meet_at(",", 1).id.ok());
}

TEST(SeveralHosts, ThatAreNotAllRankZerosAreNamed) {
  const Meeting meeting = meet_at("127.0.0.1,192.0.2.1", 0);
  ASSERT_TRUE(meeting.id.ok()) << meeting.id.status().message();
  EXPECT_THAT(meeting.log, HasSubstr("but the others will look for it at 192.0.2.1 (192.0.2.1)"));
  EXPECT_THAT(meeting.log, Not(HasSubstr("look for it at 127")));
}

TEST(SeveralHosts, ThatDoNotFitIntoAnIdAreNamed) {
  std::string hosts = "192.0.2.101";
  for (int host = 102; host < 107; ++host) hosts += ",192.0.2." + std::to_string(host);
  const Meeting meeting = meet_at(hosts, 1);
  ASSERT_TRUE(meeting.id.ok()) << meeting.id.status().message();
  EXPECT_THAT(meeting.log, HasSubstr("rank 0 will not be looked for at 192.0.2.106:"));
  EXPECT_THAT(meeting.log, Not(HasSubstr("at 192.0.2.105:")));
}

}  // namespace
}  // namespace hocket
