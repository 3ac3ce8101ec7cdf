#ifndef CLEAVE_DIALECTS_XF_TD
#define CLEAVE_DIALECTS_XF_TD

include "dialects/xf/XfState.td"
include "dialects/xf/XfForward.td"
include "dialects/xf/XfBackward.td"

#endif
