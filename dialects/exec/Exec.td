#ifndef CLEAVE_DIALECTS_EXEC_TD
#define CLEAVE_DIALECTS_EXEC_TD

include "dialects/exec/ExecDialect.td"
include "dialects/exec/Instructions.td"
include "dialects/exec/Kernel.td"

#endif
