// What /metrics tells, in the Prometheus text format. docs/serving.md lists the names.
#pragma once

#include <memory>
#include <string>

#include "engine/service.h"
#include "kv/plan.h"

namespace ringkeep::openai {

class Metrics {
 public:
  Metrics();
  ~Metrics();

  // Of a request for text. Seconds since it arrived, or since the token before.
  void observe_first_token(double seconds);
  void observe_next_token(double seconds);
  void observe_end(double seconds, const std::string& finish);  // "stop", "length", "error", "gone"
  void count_request(const std::string& route, const std::string& method, int status);

  // Seconds that a request for text takes of late; 1 when nothing is known.
  double typical_seconds() const;

  // Everything, with the state of the engine where there is one.
  std::string text(const engine::Snapshot* snapshot, const kv::KvPlan* plan, bool healthy);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringkeep::openai
