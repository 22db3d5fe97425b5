/* SPDX-License-Identifier: Apache-2.0
 * Copyright The Hocket authors
 *
 * Hocket: collective communication between the ranks of a training program. Shaped like NCCL's API, so that porting is
 * s/nccl/hocket/g; what goes beyond is marked (beyond NCCL).
 *
 * Conventions
 *  1. Every function returns a hocketResult_t unless it says otherwise; hocketGetLastError() has the text. Results are
 *     written only on success; the receive buffer of a failed collective is undefined.
 *  2. Handles are opaque. Who creates destroys; destroy accepts NULL.
 *  3. Counts are elements, never bytes. A count of zero is legal and takes part like any other.
 *  4. Buffers are host or CUDA memory (docs/cuda.md), aligned to their element. In place means the position that each
 *     call names; any other overlap of the two buffers is an error.
 *  5. stream: NULL blocks until the operation is done on this rank; hocketQueueStream(queue) runs it asynchronously; a
 *     CUDA stream has it in its order. CUDA memory with NULL follows the default stream.
 *  6. All ranks of a communicator issue its collectives in the same order with the same arguments; a difference is
 *     reported on every rank, naming both calls (docs/errors.md says how soon). One thread at a time may use a
 *     communicator, except for hocketCommAbort, hocketCommGetAsyncError and hocketGetLastError, which any thread may
 *     call at any time.
 *  7. A communicator fails once and for all: the first error is returned by every later call on every rank.
 */
#ifndef HOCKET_HOCKET_H_
#define HOCKET_HOCKET_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define HOCKET_MAJOR 0
#define HOCKET_MINOR 1
#define HOCKET_PATCH 0
#define HOCKET_SUFFIX ""
#define HOCKET_VERSION(X, Y, Z) ((X) * 10000 + (Y) * 100 + (Z))
#define HOCKET_VERSION_CODE HOCKET_VERSION(HOCKET_MAJOR, HOCKET_MINOR, HOCKET_PATCH)

#if defined(__GNUC__)
#define HOCKET_API __attribute__((visibility("default")))
#else
#define HOCKET_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  hocketSuccess = 0,
  hocketUnhandledCudaError = 1,
  hocketSystemError = 2,     /* the operating system refused something */
  hocketInternalError = 3,   /* a bug of ours */
  hocketInvalidArgument = 4, /* one argument is wrong by itself */
  hocketInvalidUsage = 5,    /* the calls do not fit together: order, state, or what other ranks called */
  hocketRemoteError = 6,     /* a peer died, left, or broke the connection */
  hocketInProgress = 7,
  hocketTimeout = 8,
  hocketNumResults = 9
} hocketResult_t;

typedef enum {
  hocketInt8 = 0,
  hocketChar = 0,
  hocketUint8 = 1,
  hocketInt32 = 2,
  hocketInt = 2,
  hocketUint32 = 3,
  hocketInt64 = 4,
  hocketUint64 = 5,
  hocketFloat16 = 6,
  hocketHalf = 6,
  hocketFloat32 = 7,
  hocketFloat = 7,
  hocketFloat64 = 8,
  hocketDouble = 8,
  hocketBfloat16 = 9,
  hocketFloat8e4m3 = 10,
  hocketFloat8e5m2 = 11,
  hocketNumTypes = 12
} hocketDataType_t;

/* Floats: sum, prod, max, min (a NaN on any rank gives NaN), avg. Integers: also the bitwise and logical ones; sums
 * wrap and avg truncates toward zero. 16- and 8-bit floats are combined in float32 and rounded once per combine. */
typedef enum {
  hocketSum = 0,
  hocketProd = 1,
  hocketMax = 2,
  hocketMin = 3,
  hocketAvg = 4,
  hocketBitAnd = 5, /* from here on: beyond NCCL */
  hocketBitOr = 6,
  hocketBitXor = 7,
  hocketLogicalAnd = 8, /* result 0 or 1 */
  hocketLogicalOr = 9,
  hocketLogicalXor = 10,
  hocketNumOps = 11,
  hocketMaxRedOp = 0x7fffffff /* values from hocketNumOps on are created: see hocketRedOpCreate */
} hocketRedOp_t;

typedef enum { hocketScalarDevice = 0, hocketScalarHostImmediate = 1 } hocketScalarResidence_t;

typedef struct hocketComm* hocketComm_t;
#define HOCKET_COMM_NULL NULL
typedef struct hocketQueue* hocketQueue_t;
typedef void* hocketStream_t;

#define HOCKET_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[HOCKET_UNIQUE_ID_BYTES];
} hocketUniqueId; /* holds an address and a secret key: who has it may join */

/* How a communicator shall be. Initialise it with HOCKET_CONFIG_INITIALIZER, which leaves every choice to the library,
 * and never touch size, magic and version. Programs built with an older or newer header are understood. */
#define HOCKET_CONFIG_UNDEF_INT INT_MIN
#define HOCKET_CONFIG_UNDEF_PTR NULL
#define HOCKET_CONFIG_MAGIC 0x686f636bu
#define HOCKET_CTA_POLICY_DEFAULT 0x00
#define HOCKET_CTA_POLICY_EFFICIENCY 0x01
#define HOCKET_CTA_POLICY_ZERO 0x02
/* (beyond NCCL) What reductions of floats, and those by created operations, promise (docs/reproducibility.md): ... */
#define HOCKET_REPRODUCIBILITY_FAST 0 /* ... nothing but what the operation says; */
#define HOCKET_REPRODUCIBILITY_ORDERED \
  1 /* ... to combine in rank order: the same bits in every run on as many ranks; */
#define HOCKET_REPRODUCIBILITY_EXACT                                                \
  2 /* ... sums and averages that are rounded once: the same bits in every order of \
       the ranks. Other operations: ordered */
typedef struct {
  size_t size;
  const char* commName;       /* shown in errors and logs; copied */
  int64_t operationTimeoutMs; /* (beyond NCCL) bound on waiting for a live rank that has not come, while joining and in
                                 calls, at most 1000 hours; 0: as HOCKET_OPERATION_TIMEOUT says */
  const char* algorithm;      /* (beyond NCCL) as HOCKET_ALGORITHM, and instead of it; "": none is forced; NULL: as
                                 HOCKET_ALGORITHM says. Equal on all ranks; copied */
  unsigned int magic;
  unsigned int version;
  const char* netName; /* refused: HOCKET_TRANSPORTS and HOCKET_INTERFACE choose, for the whole process */
  int blocking; /* 0: what creates this communicator returns hocketInProgress at once, with its handle; it can be used
                   when hocketCommGetAsyncError says hocketSuccess, and Finalize does not wait either. Collectives do */
  /* Without effect on the host, whatever they say: how much two communicators share, ... */
  int splitShare;
  int shrinkShare;
  int trafficClass;  /* ... how a network that knows classes ranks the traffic, ... */
  int collnetEnable; /* ... and what a GPU spends on communication. */
  int CTAPolicy;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
  int maxP2pPeers;
  int graphStreamOrdering;
  int launchOrderImplicit;
  int numRmaSig;
  int rmaEagerInit;
  int hostCftMode;
  int nvlsHostMode;
  int reproducibility; /* (beyond NCCL) HOCKET_REPRODUCIBILITY_*; undefined: as the setting of that name says. Equal on
                          all ranks */
} hocketConfig_t;
#define HOCKET_CONFIG_INITIALIZER                                             \
  {sizeof(hocketConfig_t),  HOCKET_CONFIG_UNDEF_PTR, 0,                       \
   HOCKET_CONFIG_UNDEF_PTR, HOCKET_CONFIG_MAGIC,     HOCKET_VERSION_CODE,     \
   HOCKET_CONFIG_UNDEF_PTR, HOCKET_CONFIG_UNDEF_INT, HOCKET_CONFIG_UNDEF_INT, \
   HOCKET_CONFIG_UNDEF_INT, HOCKET_CONFIG_UNDEF_INT, HOCKET_CONFIG_UNDEF_INT, \
   HOCKET_CONFIG_UNDEF_INT, HOCKET_CONFIG_UNDEF_INT, HOCKET_CONFIG_UNDEF_INT, \
   HOCKET_CONFIG_UNDEF_INT, HOCKET_CONFIG_UNDEF_INT, HOCKET_CONFIG_UNDEF_INT, \
   HOCKET_CONFIG_UNDEF_INT, HOCKET_CONFIG_UNDEF_INT, HOCKET_CONFIG_UNDEF_INT, \
   HOCKET_CONFIG_UNDEF_INT, HOCKET_CONFIG_UNDEF_INT, HOCKET_CONFIG_UNDEF_INT, \
   HOCKET_CONFIG_UNDEF_INT, HOCKET_CONFIG_UNDEF_INT, HOCKET_CONFIG_UNDEF_INT, \
   HOCKET_CONFIG_UNDEF_INT, HOCKET_CONFIG_UNDEF_INT}

/* ---- Library ------------------------------------------------------------------------------------------------------
 */

HOCKET_API hocketResult_t hocketGetVersion(int* version);
/* A fixed text for a result code. Never NULL; static. */
HOCKET_API const char* hocketGetErrorString(hocketResult_t result);
/* The newest error of this communicator (NULL: of this thread), naming rank, peer and cause; "" when there was none.
 * Valid until this thread calls Hocket again. */
HOCKET_API const char* hocketGetLastError(hocketComm_t comm);

/* (beyond NCCL) One optional dependency of this build: found, which version, used or why not. Static. */
typedef struct {
  const char* name;
  int found;
  const char* version;
  const char* note;
} hocketBuildInfo_t;
HOCKET_API hocketResult_t hocketGetBuildInfo(const hocketBuildInfo_t** entries, int* count);
/* (beyond NCCL) The algorithms of a collective ("all_reduce", "broadcast", ...), comma-separated, as HOCKET_ALGORITHM
 * takes them; NULL for an unknown collective. Static. */
HOCKET_API const char* hocketGetAlgorithms(const char* collective);

/* ---- Communicators ------------------------------------------------------------------------------------------------
 */

/* Starts a root in this process and writes how to reach it. One rank calls it and gives the id to all others. */
HOCKET_API hocketResult_t hocketGetUniqueId(hocketUniqueId* uniqueId);
/* Joins `nranks` ranks that hold the same id. Blocks until all have come. Within a group it runs at hocketGroupEnd, so
 * that one thread can create several ranks. With blocking = 0, here and in Split, Shrink and Grow, a thread of the
 * library waits instead: until the communicator is there only GetAsyncError, GetLastError, Abort (at once) and Destroy
 * (which waits) take its handle, and its parent takes no call. */
HOCKET_API hocketResult_t hocketCommInitRank(hocketComm_t* comm, int nranks, hocketUniqueId commId, int rank);
HOCKET_API hocketResult_t hocketCommInitRankConfig(hocketComm_t* comm, int nranks, hocketUniqueId commId, int rank,
                                                   hocketConfig_t* config);
/* NCCL spreads the ranks of very large communicators over several roots; here one does, that of the first id. All ranks
 * pass the same list. */
HOCKET_API hocketResult_t hocketCommInitRankScalable(hocketComm_t* newcomm, int nranks, int myrank, int nId,
                                                     hocketUniqueId* commIds, hocketConfig_t* config);
/* Creates `ndev` ranks in this process, one handle each, to be driven by a thread each or by groups. devlist: ignored.
 */
HOCKET_API hocketResult_t hocketCommInitAll(hocketComm_t* comms, int ndev, const int* devlist);
/* (beyond NCCL) Joins the ranks that a launcher started (torchrun, mpirun, srun, horovodrun, or HOCKET_RANK,
 * HOCKET_SIZE and HOCKET_ADDRESS); without a launcher, a communicator of one rank. config may be NULL. */
HOCKET_API hocketResult_t hocketCommInitFromEnvironment(hocketComm_t* comm, hocketConfig_t* config);
/* Collective over comm. Ranks of equal color form a new communicator, ordered by key, then by rank; with
 * HOCKET_SPLIT_NOCOLOR *newcomm is NULL. */
#define HOCKET_SPLIT_NOCOLOR (-1)
HOCKET_API hocketResult_t hocketCommSplit(hocketComm_t comm, int color, int key, hocketComm_t* newcomm,
                                          hocketConfig_t* config);
/* Waits until every operation issued on comm has ended on this rank (blocking = 0: hocketInProgress until then).
 * Nothing but GetAsyncError, Destroy and Abort may follow. */
HOCKET_API hocketResult_t hocketCommFinalize(hocketComm_t comm);
/* Finalizes, takes leave of the peers, and frees. Operations under way are completed first. */
HOCKET_API hocketResult_t hocketCommDestroy(hocketComm_t comm);
/* Ends everything under way on this and every other rank with an error, in bounded time, from any thread, and frees
 * once no call is inside. Calls that are inside return. */
HOCKET_API hocketResult_t hocketCommAbort(hocketComm_t comm);
/* The communicator's state: hocketSuccess, hocketInProgress (being created, or operations under way) or its failure. */
HOCKET_API hocketResult_t hocketCommGetAsyncError(hocketComm_t comm, hocketResult_t* asyncError);
/* (beyond NCCL) The ranks that are lost, as all survivors agree. *count: how many there are; the first `capacity` of
 * them are written to `ranks`, which may be NULL when capacity is 0. None while comm works, or when it failed without a
 * loss. */
HOCKET_API hocketResult_t hocketCommGetFailed(hocketComm_t comm, int* ranks, int capacity, int* count);
/* Ends everything under way on this and every other rank with hocketRemoteError, from any thread. comm stays, for
 * Shrink, Destroy and Abort. flags: HOCKET_REVOKE_DEFAULT. */
#define HOCKET_REVOKE_DEFAULT 0
HOCKET_API hocketResult_t hocketCommRevoke(hocketComm_t comm, int revokeFlags);
/* A communicator of those who go on, in the old order: all ranks but the excluded ones and, when comm has failed, the
 * lost ones and those that took leave. Every rank that goes on calls it with the same list. HOCKET_SHRINK_ABORT revokes
 * comm first, so that calls under way end; HOCKET_SHRINK_DEFAULT does not. */
#define HOCKET_SHRINK_DEFAULT 0
#define HOCKET_SHRINK_ABORT 1
HOCKET_API hocketResult_t hocketCommShrink(hocketComm_t comm, int* excludeRanksList, int excludeRanksCount,
                                           hocketComm_t* newcomm, hocketConfig_t* config, int shrinkFlags);
/* The id with which newcomers join those of comm: one rank asks for it, gives it to the newcomers and to Grow. */
HOCKET_API hocketResult_t hocketCommGetUniqueId(hocketComm_t comm, hocketUniqueId* uniqueId);
/* A communicator of nRanks ranks: those of comm keep their ranks (they pass rank -1; uniqueId on one of them, NULL on
 * the others), newcomers pass comm NULL, the id and the rank that they take. Blocks until all have come. */
HOCKET_API hocketResult_t hocketCommGrow(hocketComm_t comm, int nRanks, const hocketUniqueId* uniqueId, int rank,
                                         hocketComm_t* newcomm, hocketConfig_t* config);
HOCKET_API hocketResult_t hocketCommCount(const hocketComm_t comm, int* count);
HOCKET_API hocketResult_t hocketCommUserRank(const hocketComm_t comm, int* rank);
/* The CUDA device whose memory comm works on; -1: that of the host. */
HOCKET_API hocketResult_t hocketCommCuDevice(const hocketComm_t comm, int* device);
/* (beyond NCCL, whose stats are of devices) Bytes of the host that the pipes of this rank of comm ... */
typedef enum {
  hocketStatPipeBudget = 0, /* ... should hold at most (HOCKET_PIPE_MEMORY), the same on all ranks; */
  hocketStatPipeMemory = 1  /* ... hold now, which is more where they cannot work with less */
} hocketCommMemStat_t;
/* *value: that many bytes; they grow when calls are first large. What two ranks share counts for the one that writes
 * there first. Also of a communicator that has failed. Any thread may ask while comm is not destroyed. */
HOCKET_API hocketResult_t hocketCommMemStats(hocketComm_t comm, hocketCommMemStat_t stat, uint64_t* value);

/* ---- Windows: registered memory -------------------------------------------------------------------------------------
 */

/* Memory that other processes of this host can map, filled with zeros, aligned to pages. It is registered by every rank
 * as its part of a window; then collectives on it read and write the peers' buffers, and nothing is staged. After an
 * all-reduce on it that failed it is ordinary memory: docs/windows.md. */
HOCKET_API hocketResult_t hocketMemAlloc(void** ptr, size_t size);
/* The same of the CUDA device that the calling thread uses; its contents are undefined. Memory of cudaMalloc serves as
 * well, but has to outlive its windows on all ranks. */
HOCKET_API hocketResult_t hocketMemAllocDevice(void** ptr, size_t size);
/* Of either; no kernel uses it any more. NULL is legal. What is still registered stays mapped by the peers until they
 * deregister it. */
HOCKET_API hocketResult_t hocketMemFree(void* ptr);
/* Registers [buff, buff + size) as this rank's part of the communicator's next window. All ranks register, in the same
 * order; the call returns at once, and the first collective that uses the window waits until all have. What lies in a
 * window on one rank lies there on all: the buffers of a collective at the same offset of the same window on every rank
 * (a difference is reported like any other of arguments).
 * Memory that is not from hocketMemAlloc, on any rank, and ranks on several hosts are legal: then collectives go the
 * ordinary way, at the ordinary speed. *handle is for hocketCommDeregister. */
HOCKET_API hocketResult_t hocketCommRegister(const hocketComm_t comm, void* buff, size_t size, void** handle);
/* Waits until nothing that was issued is under way on this rank. The memory may be freed afterwards. handle may be
 * NULL.
 */
HOCKET_API hocketResult_t hocketCommDeregister(const hocketComm_t comm, void* handle);

typedef struct hocketWindow* hocketWindow_t;
#define HOCKET_WIN_DEFAULT 0x00
#define HOCKET_WIN_COLL_SYMMETRIC 0x01
#define HOCKET_WIN_REQUIRED_ALIGNMENT 4096 /* suits everywhere; memory of any alignment is taken */
/* The same two under NCCL's newer names; winFlags: either flag, windows are symmetric in any case. */
HOCKET_API hocketResult_t hocketCommWindowRegister(hocketComm_t comm, void* buff, size_t size, hocketWindow_t* win,
                                                   int winFlags);
HOCKET_API hocketResult_t hocketCommWindowDeregister(hocketComm_t comm, hocketWindow_t win);
/* Where this rank's part of a window begins. */
HOCKET_API hocketResult_t hocketWinGetUserPtr(hocketComm_t comm, hocketWindow_t win, void** outUserPtr);

/* ---- One-sided calls: a peer's memory without the peer
 * -----------------------------------------------------------------
 */

/* All of them reach into `peer`'s part of a window that both have registered, `peerWinOffset` bytes behind its
 * beginning; the peer calls nothing, and peer may be this rank. Where all ranks are on one host and that part is memory
 * of hocketMemAlloc, this thread reads and writes it; elsewhere the peer's service thread does, in pieces of 32 KiB
 * (docs/one-sided.md has what that costs). stream NULL: they return when it is done there; a peer that has not
 * registered yet is waited for. Within a group they run with its other calls, in no order. What lies outside the part
 * is an error of this call alone, and nothing is written. What peers may still access is not deregistered.
 * Several accesses to the same bytes at once are ordered by signals, or are atomic. */
HOCKET_API hocketResult_t hocketPut(const void* localbuff, size_t count, hocketDataType_t datatype, int peer,
                                    hocketWindow_t peerWin, size_t peerWinOffset, hocketComm_t comm,
                                    hocketStream_t stream);
HOCKET_API hocketResult_t hocketGet(void* localbuff, size_t count, hocketDataType_t datatype, int peer,
                                    hocketWindow_t peerWin, size_t peerWinOffset, hocketComm_t comm,
                                    hocketStream_t stream);
/* Puts, then raises this rank's signal sigIdx (0 to 7) at the peer: who has waited for it sees the data. ctx and flags
 * are 0. */
HOCKET_API hocketResult_t hocketPutSignal(const void* localbuff, size_t count, hocketDataType_t datatype, int peer,
                                          hocketWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                                          unsigned int flags, hocketComm_t comm, hocketStream_t stream);
/* Raises it alone. Signals need a window that both have registered. */
HOCKET_API hocketResult_t hocketSignal(int peer, int sigIdx, int ctx, unsigned int flags, hocketComm_t comm,
                                       hocketStream_t stream);
/* Waits until opCnt signals of each of these have come, beyond those that earlier waits took, and takes them. */
typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx; /* 0 */
} hocketWaitSignalDesc_t;
HOCKET_API hocketResult_t hocketWaitSignal(int nDesc, const hocketWaitSignalDesc_t* signalDescs, hocketComm_t comm,
                                           hocketStream_t stream);
/* Atomic, of one int32, uint32, int64 or uint64 at an address that is a multiple of its size: *result (NULL: not
 * wanted) is what was there; there is then (that op *operand), op being hocketSum, Max, Min, BitAnd, BitOr or BitXor,
 * ... */
HOCKET_API hocketResult_t hocketFetchOp(const void* operand, void* result, hocketDataType_t datatype, hocketRedOp_t op,
                                        int peer, hocketWindow_t peerWin, size_t peerWinOffset, hocketComm_t comm,
                                        hocketStream_t stream);
/* ... or *desired, if *compare was there. Operands are read when the call is made. */
HOCKET_API hocketResult_t hocketCompareSwap(const void* compare, const void* desired, void* result,
                                            hocketDataType_t datatype, int peer, hocketWindow_t peerWin,
                                            size_t peerWinOffset, hocketComm_t comm, hocketStream_t stream);

/* ---- Reduction operations ------------------------------------------------------------------------------------------
 */

/* Sum of scalar * x, the scalar being of the collective's datatype and this rank's own. It is copied. */
HOCKET_API hocketResult_t hocketRedOpCreatePreMulSum(hocketRedOp_t* op, void* scalar, hocketDataType_t datatype,
                                                     hocketScalarResidence_t residence, hocketComm_t comm);
/* (beyond NCCL) inout[i] = in[i] op inout[i] for count elements; `in` holds the contribution of lower ranks. Buffers
 * are aligned to 64 bytes. It must be associative; with commutative == 0 contributions are combined in rank order.
 * Called on the thread that drives the collective, maybe several times per call with parts of the buffer. It may
 * make no calls on communicators, nor wait for some to end: these, Finalize, Destroy and the functions of queues that
 * wait are refused there, and Abort ends what is under way but frees nothing: hocketInvalidUsage. */
typedef void (*hocketReduceFunction_t)(const void* in, void* inout, size_t count, hocketDataType_t datatype,
                                       void* context);
HOCKET_API hocketResult_t hocketRedOpCreate(hocketRedOp_t* op, hocketReduceFunction_t function, void* context,
                                            int commutative, hocketComm_t comm);
/* Operations under way keep what they need. */
HOCKET_API hocketResult_t hocketRedOpDestroy(hocketRedOp_t op, hocketComm_t comm);

/* ---- Collectives ----------------------------------------------------------------------------------------------------
 */

/* In place: sendbuff == recvbuff. */
HOCKET_API hocketResult_t hocketAllReduce(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                                          hocketRedOp_t op, hocketComm_t comm, hocketStream_t stream);
/* sendbuff is read on root only. In place: sendbuff == recvbuff. */
HOCKET_API hocketResult_t hocketBroadcast(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                                          int root, hocketComm_t comm, hocketStream_t stream);
HOCKET_API hocketResult_t hocketBcast(void* buff, size_t count, hocketDataType_t datatype, int root, hocketComm_t comm,
                                      hocketStream_t stream);
/* recvbuff is written on root only and may be NULL elsewhere. In place: sendbuff == recvbuff. */
HOCKET_API hocketResult_t hocketReduce(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                                       hocketRedOp_t op, int root, hocketComm_t comm, hocketStream_t stream);
/* recvbuff: nranks * sendcount elements. In place: sendbuff == recvbuff + rank * sendcount. */
HOCKET_API hocketResult_t hocketAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                          hocketDataType_t datatype, hocketComm_t comm, hocketStream_t stream);
/* sendbuff: nranks * recvcount elements. In place: recvbuff == sendbuff + rank * recvcount. */
HOCKET_API hocketResult_t hocketReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                              hocketDataType_t datatype, hocketRedOp_t op, hocketComm_t comm,
                                              hocketStream_t stream);
/* Both buffers: nranks * count elements; block i goes to rank i. In place: sendbuff == recvbuff, on all ranks. */
HOCKET_API hocketResult_t hocketAllToAll(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                                         hocketComm_t comm, hocketStream_t stream);
HOCKET_API hocketResult_t hocketAlltoAll(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                                         hocketComm_t comm, hocketStream_t stream);
/* recvbuff: nranks * count elements on root, unused elsewhere. In place on root: sendbuff == recvbuff + root * count.
 */
HOCKET_API hocketResult_t hocketGather(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                                       int root, hocketComm_t comm, hocketStream_t stream);
/* sendbuff: nranks * count elements on root, unused elsewhere. In place on root: recvbuff == sendbuff + root * count.
 */
HOCKET_API hocketResult_t hocketScatter(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                                        int root, hocketComm_t comm, hocketStream_t stream);

/* Neighbour exchange (that of stencils and graphs): sends sendcounts[i] elements from sendbuff + sdispls[i] to rank
 * neighbors[i] and receives recvcounts[i] from it to recvbuff + rdispls[i]; displacements NULL: packed. Each two that
 * list each other exchange, all at once; other ranks are not concerned. Send and Recv in one group, and errors are
 * theirs. */
HOCKET_API hocketResult_t hocketNeighborAllToAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls,
                                                  void* recvbuff, const size_t* recvcounts, const size_t* rdispls,
                                                  int nNeighbors, const int* neighbors, hocketDataType_t datatype,
                                                  hocketComm_t comm, hocketStream_t stream);
/* Point to point: ordered between two ranks. A blocking Send may wait for its Recv; an exchange needs a group. The
 * counts and types of both sides are equal. */
HOCKET_API hocketResult_t hocketSend(const void* sendbuff, size_t count, hocketDataType_t datatype, int peer,
                                     hocketComm_t comm, hocketStream_t stream);
HOCKET_API hocketResult_t hocketRecv(void* recvbuff, size_t count, hocketDataType_t datatype, int peer,
                                     hocketComm_t comm, hocketStream_t stream);

/* (beyond NCCL) Never waits: a peer from which a message is here that no issued Recv will take, or -1. So a receive
 * from anybody asks again and again, and then receives from that peer. Peers are told in turn. */
HOCKET_API hocketResult_t hocketProbe(hocketComm_t comm, int* peer);

/* ---- Beyond NCCL ----------------------------------------------------------------------------------------------------
 */

/* Returns on a rank only after every rank has called it. */
HOCKET_API hocketResult_t hocketBarrier(hocketComm_t comm, hocketStream_t stream);
/* Rank r receives the reduction of ranks 0..r (Scan) or 0..r-1 (ExScan; rank 0's recvbuff is untouched), in rank order.
 * Avg is not defined for them. In place: sendbuff == recvbuff. */
HOCKET_API hocketResult_t hocketScan(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                                     hocketRedOp_t op, hocketComm_t comm, hocketStream_t stream);
HOCKET_API hocketResult_t hocketExScan(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                                       hocketRedOp_t op, hocketComm_t comm, hocketStream_t stream);

/* V-forms: one count per rank, and where each part begins, in elements (displs NULL: packed in rank order). The arrays
 * hold nranks entries and are copied. Parts of a receive buffer may not overlap. */

/* recvcounts is equal on all ranks and recvcounts[rank] == sendcount. In place: sendbuff is rank's own part. */
HOCKET_API hocketResult_t hocketAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                           const size_t* recvcounts, const size_t* displs, hocketDataType_t datatype,
                                           hocketComm_t comm, hocketStream_t stream);
/* recvcounts is equal on all ranks; sendbuff holds their sum, packed. In place: recvbuff is rank's own part. */
HOCKET_API hocketResult_t hocketReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* recvcounts,
                                               hocketDataType_t datatype, hocketRedOp_t op, hocketComm_t comm,
                                               hocketStream_t stream);
/* sendcounts[i] here equals recvcounts[rank] on rank i. Not in place. */
HOCKET_API hocketResult_t hocketAllToAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls,
                                          void* recvbuff, const size_t* recvcounts, const size_t* rdispls,
                                          hocketDataType_t datatype, hocketComm_t comm, hocketStream_t stream);
/* recvbuff, recvcounts and displs are read on root only; recvcounts[i] equals rank i's sendcount. */
HOCKET_API hocketResult_t hocketGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                        const size_t* recvcounts, const size_t* displs, hocketDataType_t datatype,
                                        int root, hocketComm_t comm, hocketStream_t stream);
/* sendbuff, sendcounts and displs are read on root only; sendcounts[i] equals rank i's recvcount. */
HOCKET_API hocketResult_t hocketScatterV(const void* sendbuff, const size_t* sendcounts, const size_t* displs,
                                         void* recvbuff, size_t recvcount, hocketDataType_t datatype, int root,
                                         hocketComm_t comm, hocketStream_t stream);

/* ---- Compressed collectives (beyond NCCL) ---------------------------------------------------------------------------
 */

/* A codec makes short messages of values. The specification names it and its options, as in "fp16",
 * "int4:block=64,scale=minmax", "topk:ratio=0.01" or "lossless"; docs/codecs.md lists them. An unknown word is an error
 * that names it and what is allowed. A codec may be used by any number of communicators. Of calls under keys,
 * whichever, and of programs' it does one after the other: ranks that are threads of one process need a codec each for
 * them, as they would wait for each other. */
typedef struct hocketCodec* hocketCodec_t;
HOCKET_API hocketResult_t hocketCodecCreate(hocketCodec_t* codec, const char* specification);
/* Operations under way keep what they need. */
HOCKET_API hocketResult_t hocketCodecDestroy(hocketCodec_t codec);

typedef struct {
  size_t size;          /* of this struct; set it before the call */
  double ratio;         /* bytes of a long message / bytes of its values; of variable ones, the most */
  double relativeError; /* of one encoding: no element is off by more than relativeError * (the largest magnitude of */
  double absoluteError; /* the message) + absoluteError, where no magnitude is above range */
  double range;
  int lossless;            /* every bit is kept */
  int unbiased;            /* right on average over calls */
  char specification[256]; /* with all options */
  uint64_t valueBytes;     /* of all that this process has sent through the codec so far, without it ... */
  uint64_t messageBytes;   /* ... and as it was sent */
} hocketCodecDescription_t;
HOCKET_API hocketResult_t hocketCodecDescribe(hocketCodec_t codec, hocketDataType_t datatype,
                                              hocketCodecDescription_t* description);

/* As hocketAllReduce, with every message encoded; op is hocketSum or hocketAvg (lossless codecs: any). All ranks end
 * with the same bits. All pass a codec of the same specification. key: NULL, or the name of a tensor whose compression
 * errors the codec keeps, to add them to the tensor's next values (error feedback): float32 or 16-bit floats, always of
 * the same count and datatype, stream NULL, outside groups. Each rank keeps what its encodings lose, of contributions
 * and of sums. What was kept changes only when the call succeeds and its result is finite. Codecs that round at random
 * take no key: they are right on average, and what is kept would grow. */
HOCKET_API hocketResult_t hocketAllReduceCompressed(const void* sendbuff, void* recvbuff, size_t count,
                                                    hocketDataType_t datatype, hocketRedOp_t op, hocketCodec_t codec,
                                                    const char* key, hocketComm_t comm, hocketStream_t stream);
/* As the collectives of these names, with every message encoded. Each value is encoded once: by the rank whose it is,
 * or, of sums, by each that contributes. All ranks receive the same bits of a Broadcast and an AllGather, the ranks
 * that sent them included. */
HOCKET_API hocketResult_t hocketReduceScatterCompressed(const void* sendbuff, void* recvbuff, size_t recvcount,
                                                        hocketDataType_t datatype, hocketRedOp_t op,
                                                        hocketCodec_t codec, hocketComm_t comm, hocketStream_t stream);
HOCKET_API hocketResult_t hocketAllGatherCompressed(const void* sendbuff, void* recvbuff, size_t sendcount,
                                                    hocketDataType_t datatype, hocketCodec_t codec, hocketComm_t comm,
                                                    hocketStream_t stream);
HOCKET_API hocketResult_t hocketBroadcastCompressed(const void* sendbuff, void* recvbuff, size_t count,
                                                    hocketDataType_t datatype, int root, hocketCodec_t codec,
                                                    hocketComm_t comm, hocketStream_t stream);
HOCKET_API hocketResult_t hocketReduceCompressed(const void* sendbuff, void* recvbuff, size_t count,
                                                 hocketDataType_t datatype, hocketRedOp_t op, int root,
                                                 hocketCodec_t codec, hocketComm_t comm, hocketStream_t stream);
HOCKET_API hocketResult_t hocketAllToAllCompressed(const void* sendbuff, void* recvbuff, size_t count,
                                                   hocketDataType_t datatype, hocketCodec_t codec, hocketComm_t comm,
                                                   hocketStream_t stream);

typedef enum {
  hocketFuncBroadcast = 0,
  hocketFuncReduce = 1,
  hocketFuncAllGather = 2,
  hocketFuncReduceScatter = 3,
  hocketFuncAllReduce = 4,
  hocketFuncAllToAll = 5
} hocketFunc_t;

/* The most that an element of what the compressed collective gives to `ranks` ranks is off: *relative * (the largest
 * magnitude of any rank's values) + *absolute. Computed from the plans of which the call takes one. At most 256 ranks.
 */
HOCKET_API hocketResult_t hocketCodecErrorBound(hocketCodec_t codec, hocketFunc_t collective, hocketDataType_t datatype,
                                                int ranks, double* relative, double* absolute);

/* A tensor of rows * columns elements of which `nonzeros` are given, and the others are zero. */
typedef enum {
  hocketSparseCoo = 0, /* indices[i] is row * columns + column, rising; offsets is NULL */
  hocketSparseCsr = 1  /* indices[i] is the column, rising within a row, whose elements begin at offsets[row] */
} hocketSparseLayout_t;
typedef struct {
  size_t size; /* of this struct; set it before the call */
  hocketSparseLayout_t layout;
  uint64_t rows, columns;
  uint64_t nonzeros; /* of a result: set it to the room; afterwards, how many there are */
  uint64_t* offsets; /* rows + 1 of them */
  uint64_t* indices;
  void* values;
} hocketSparse_t;
/* Sums of sparse tensors of the same rows and columns, sent in the shortest form: never more bytes than of dense ones
 * and one in a hundred. float32, float16 or bfloat16; op is hocketSum or hocketAvg; they block, and stay out of groups.
 * All ranks end with the same bits. recv has rows, columns and layout of its own, not send's memory; elements that
 * became zero are left out. Where its room is too small, the error and recv->nonzeros say how many there are. */
HOCKET_API hocketResult_t hocketAllReduceSparse(const hocketSparse_t* send, hocketSparse_t* recv,
                                                hocketDataType_t datatype, hocketRedOp_t op, hocketComm_t comm);
/* recvbuff: rows * columns elements. */
HOCKET_API hocketResult_t hocketAllReduceSparseToDense(const hocketSparse_t* send, void* recvbuff,
                                                       hocketDataType_t datatype, hocketRedOp_t op, hocketComm_t comm);
/* recv: nranks tensors; the one of each rank. */
HOCKET_API hocketResult_t hocketAllGatherSparse(const hocketSparse_t* send, hocketSparse_t* recv,
                                                hocketDataType_t datatype, hocketComm_t comm);

/* What is kept under keys, for checkpoints: a program that loads what it saved goes on with the same bits. With buffer
 * NULL, Save only tells *bytes; otherwise *bytes is the room, and what was written. */
HOCKET_API hocketResult_t hocketCodecSaveState(hocketCodec_t codec, void* buffer, size_t* bytes);
HOCKET_API hocketResult_t hocketCodecLoadState(hocketCodec_t codec, const void* buffer, size_t bytes);
/* key NULL: of all keys. */
HOCKET_API hocketResult_t hocketCodecResetState(hocketCodec_t codec, const char* key);

/* ---- Groups and queues ----------------------------------------------------------------------------------------------
 */

/* Calls between Start and End run together at the End: one thread may drive many communicators and exchange with many
 * peers. Groups nest; the outermost End runs them. GroupEnd returns the first error; calls after an error in the group
 * are dropped. With streams, GroupEnd only issues. */
HOCKET_API hocketResult_t hocketGroupStart(void);
HOCKET_API hocketResult_t hocketGroupEnd(void);
/* Ends the group and runs none of its calls: estimatedTime says how long they would take, in microseconds, by the model
 * and the tuning file (docs/choosing.md). A group that creates communicators, that lies within another, or that holds a
 * call of which the model knows no time (the v-forms) is an error. */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;
} hocketSimInfo_t;
#define HOCKET_SIM_INFO_INITIALIZER {sizeof(hocketSimInfo_t), HOCKET_CONFIG_MAGIC, HOCKET_VERSION_CODE, -1.0F}
HOCKET_API hocketResult_t hocketGroupSimulateEnd(hocketSimInfo_t* simInfo);

/* (beyond NCCL) A queue runs the operations issued to its stream in order, in the background. Any number of queues and
 * communicators make progress at once. A mark names all that was issued to the queue so far. Any thread may test and
 * wait. Buffers and communicators must outlive the operations that use them. */
HOCKET_API hocketResult_t hocketQueueCreate(hocketQueue_t* queue);
HOCKET_API hocketResult_t hocketQueueDestroy(hocketQueue_t queue); /* waits for all that was issued */
HOCKET_API hocketStream_t hocketQueueStream(hocketQueue_t queue);
HOCKET_API hocketResult_t hocketQueueMark(hocketQueue_t queue, uint64_t* mark);
/* *done: 1 when all up to the mark has ended. The first error among the operations that ended is returned, for as long
 * as the queue lives. */
HOCKET_API hocketResult_t hocketQueueTest(hocketQueue_t queue, uint64_t mark, int* done);
HOCKET_API hocketResult_t hocketQueueWait(hocketQueue_t queue, uint64_t mark);
/* As Wait, for at most so many milliseconds: then *done is 0. */
HOCKET_API hocketResult_t hocketQueueWaitFor(hocketQueue_t queue, uint64_t mark, int64_t timeoutMs, int* done);
HOCKET_API hocketResult_t hocketQueueSynchronize(hocketQueue_t queue);

#ifdef __cplusplus
}
#endif

#endif /* HOCKET_HOCKET_H_ */
