// Generated sources may include this; on the host all of it is in one header, which is in front of every source.
#include "cuda_on_host.h"
