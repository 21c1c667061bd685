//===- RanksApi.cpp - the C ABI of ranks.h --------------------------------===//
//
// Numbers come from code that another compiler has made: they are checked
// before they are used.
//
//===----------------------------------------------------------------------===//
#include "Ranks.h"

#include "../base/Options.h"

using namespace kerf::rt;

kerf_status_t kerf_ranks_create(const char *program,
                                const kerf_ranks_options_t *options,
                                kerf_ranks_t **ranks) {
  return guard([&] {
    if (!program || !ranks)
      throw Error(KERF_INVALID_ARGUMENT, "program and ranks must not be NULL");
    kerf_ranks_options_t given = completed(options);
    double deadline = given.deadline_seconds;
    if (!(deadline >= 0))
      throw Error(KERF_INVALID_ARGUMENT, cat("deadline_seconds is ", deadline,
                                             ", expected at least 0"));
    *ranks =
        new kerf_ranks(program, deadline == 0 ? 30 : deadline, given.padding);
  });
}

void kerf_ranks_destroy(kerf_ranks_t *ranks) { delete ranks; }

int64_t kerf_ranks_size(const kerf_ranks_t *ranks) {
  return static_cast<int64_t>(ranks->ranks.size());
}

int64_t kerf_ranks_sent_bytes(const kerf_ranks_t *ranks) {
  return ranks->sentBytes();
}

kerf_status_t kerf_ranks_run(kerf_ranks_t *ranks, kerf_rank_function_t function,
                             void *user) {
  return guard([&] { ranks->run(function, user); });
}

kerf_status_t kerf_ranks_write(kerf_ranks_t *ranks, const char *parameter,
                               const void *whole) {
  return guard([&] { ranks->write(parameter, whole); });
}

kerf_status_t kerf_ranks_read(const kerf_ranks_t *ranks, const char *parameter,
                              void *whole) {
  return guard([&] { ranks->read(parameter, whole); });
}

const kerf_ranks_symbol_t *kerf_ranks_symbols(void) {
#define KERF_SYMBOL(NAME)                                                      \
  {                                                                            \
    #NAME, reinterpret_cast<void *>(&NAME)                                     \
  }
  static const kerf_ranks_symbol_t symbols[] = {
      KERF_SYMBOL(kerf_rank_number),
      KERF_SYMBOL(kerf_rank_fail),
      KERF_SYMBOL(kerf_rank_take),
      KERF_SYMBOL(kerf_rank_give),
      KERF_SYMBOL(kerf_rank_load),
      KERF_SYMBOL(kerf_rank_store),
      KERF_SYMBOL(kerf_rank_collective),
      KERF_SYMBOL(kerf_rank_start),
      KERF_SYMBOL(kerf_rank_wait),
      KERF_SYMBOL(kerf_rank_send),
      KERF_SYMBOL(kerf_rank_finish),
      KERF_SYMBOL(kerf_rank_receive),
      {nullptr, nullptr}};
#undef KERF_SYMBOL
  return symbols;
}

int64_t kerf_rank_number(kerf_rank_t *rank) { return rank->number; }

void kerf_rank_fail(kerf_rank_t *rank, const char *message) {
  rank->ranks->call(*rank, [&] {
    throw Error(KERF_PROGRAM_FAILURE,
                cat("rank ", rank->number, ": ", message ? message : "failed"));
  });
}

void kerf_rank_take(kerf_rank_t *rank, int64_t part, int64_t micro_batch,
                    const void *whole, void *local) {
  rank->ranks->call(*rank,
                    [&] { takePart(*rank, part, micro_batch, whole, local); });
}

void kerf_rank_give(kerf_rank_t *rank, int64_t part, int64_t micro_batch,
                    const void *local, void *whole) {
  rank->ranks->call(*rank,
                    [&] { givePart(*rank, part, micro_batch, local, whole); });
}

void kerf_rank_load(kerf_rank_t *rank, int64_t parameter, void *local) {
  rank->ranks->call(*rank, [&] { loadKept(*rank, parameter, local); });
}

void kerf_rank_store(kerf_rank_t *rank, int64_t parameter, const void *local) {
  rank->ranks->call(*rank, [&] { storeKept(*rank, parameter, local); });
}

static void checkIndex(const char *what, int64_t index, size_t count) {
  if (index < 0 || index >= static_cast<int64_t>(count))
    throw Error(KERF_INVALID_ARGUMENT, cat(what, " ", index, " of ", count));
}

void kerf_rank_collective(kerf_rank_t *rank, int64_t index, const void *src,
                          void *dst) {
  rank->ranks->call(*rank, [&] {
    checkIndex("collective", index, rank->ranks->program.collectives.size());
    rank->comm->start(index, src, dst);
    rank->comm->wait(index);
  });
}

void kerf_rank_start(kerf_rank_t *rank, int64_t index, const void *src,
                     void *dst) {
  rank->ranks->call(*rank, [&] {
    checkIndex("collective", index, rank->ranks->program.collectives.size());
    rank->comm->start(index, src, dst);
  });
}

void kerf_rank_wait(kerf_rank_t *rank, int64_t index) {
  rank->ranks->call(*rank, [&] {
    checkIndex("collective", index, rank->ranks->program.collectives.size());
    rank->comm->wait(index);
  });
}

void kerf_rank_send(kerf_rank_t *rank, int64_t channel, int64_t micro_batch,
                    const void *data) {
  rank->ranks->call(*rank, [&] {
    checkIndex("channel", channel, rank->openSends.size());
    rank->openSends[channel].push_back(
        rank->comm->send(channel, data, micro_batch));
  });
}

void kerf_rank_finish(kerf_rank_t *rank, int64_t channel) {
  rank->ranks->call(*rank, [&] {
    checkIndex("channel", channel, rank->openSends.size());
    for (int64_t number : rank->openSends[channel])
      rank->comm->finishSend(channel, number);
    rank->openSends[channel].clear();
  });
}

void kerf_rank_receive(kerf_rank_t *rank, int64_t channel, int64_t micro_batch,
                       void *data) {
  rank->ranks->call(*rank, [&] {
    checkIndex("channel", channel, rank->openSends.size());
    rank->comm->receive(channel, data, micro_batch);
  });
}
