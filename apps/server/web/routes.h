// GET / and the files of the page. They need no key: what they show is asked for with one.
#pragma once

#include "server/http/router.h"

namespace ringkeep::web {

void add_routes(http::Router& router);

}  // namespace ringkeep::web
