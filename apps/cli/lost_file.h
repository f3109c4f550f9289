// Files that are read through a mapping (weights, tables that stay in their file) may be cut short
// by somebody, or their disk may fail, while the program reads them: it gets SIGBUS then. After
// install_lost_file_handler() it says which file that was and ends with the code of unreadable
// input, in place of a crash.
#pragma once

namespace ringkeep::cli {

void install_lost_file_handler();

}  // namespace ringkeep::cli
