// Which handler answers a path.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.h"

namespace ringkeep::http {

struct Route {
  std::string method;   // GET also answers HEAD
  std::string pattern;  // "/v1/models/{id}": {name} stands for the rest of the path, one character
                        // at least
  Handler handler;
  bool quick = false;        // runs on the network thread: must not compute or wait
  bool open = false;         // needs no API key
  bool needs_model = false;  // asked for at Options::gate
  std::string consumes;      // media type of the body; empty: there is none
};

class Router {
 public:
  void add(Route route) { routes_.push_back(std::move(route)); }

  struct Match {
    const Route* route = nullptr;
    std::map<std::string, std::string> parameters;
    std::string allow;  // without a route: the methods that the path knows; empty: it knows none
  };
  Match find(std::string_view method, std::string_view path) const;
  // The Allow header of a path, or empty when nothing answers it.
  std::string allow(std::string_view path) const;
  // What a path that is no route says in its 404, such as "but at /v1/completions".
  void add_advice(std::string path, std::string text) { advice_.emplace(path, text); }
  // That; or the route that is meant where one end of `path` is a route's or the other way round,
  // such as /v1/models for /models or /models/, and /health for /v1/health; or nothing.
  std::string advice(std::string_view path) const;

 private:
  std::vector<Route> routes_;
  std::map<std::string, std::string, std::less<>> advice_;
};

}  // namespace ringkeep::http
