//===- Races.cpp - conflicting accesses that nothing orders ---------------===//
#include "Races.h"

#include <algorithm>

using namespace recording;

void RaceChecker::split(uintptr_t at) {
  auto it = segments.upper_bound(at);
  if (it == segments.begin())
    return;
  --it;
  if (it->first == at || it->second.end <= at)
    return;
  Segment second = it->second;
  it->second.end = at;
  segments.emplace(at, std::move(second));
}

void RaceChecker::forget(uintptr_t begin, uintptr_t end) {
  split(begin);
  split(end);
  segments.erase(segments.lower_bound(begin), segments.lower_bound(end));
}

std::string RaceChecker::access(const Range &range, int lane,
                                const VectorClock &clock,
                                const std::string &what) {
  std::string conflict;
  if (range.begin >= range.end)
    return conflict;
  split(range.begin);
  split(range.end);
  Access mine{lane, clock[lane], what};
  for (uintptr_t at = range.begin; at < range.end;) {
    auto it = segments.lower_bound(at);
    if (it == segments.end() || it->first > at) { // untouched so far
      uintptr_t end =
          it == segments.end() ? range.end : std::min(range.end, it->first);
      it = segments.emplace(at, Segment{end, {}, {}}).first;
    }
    Segment &s = it->second;
    if (conflict.empty() && !s.write.before(clock))
      conflict = (range.writes ? "overwrites what is written by "
                               : "reads what is written by ") +
                 s.write.what;
    if (range.writes)
      for (const Access &read : s.reads)
        if (conflict.empty() && !read.before(clock))
          conflict = "overwrites what is read by " + read.what;
    if (range.writes) {
      s.write = mine;
      s.reads.clear();
    } else {
      bool known = false;
      for (Access &read : s.reads)
        if (read.lane == lane) {
          read = mine;
          known = true;
        }
      if (!known)
        s.reads.push_back(mine);
    }
    at = s.end;
  }
  return conflict;
}
