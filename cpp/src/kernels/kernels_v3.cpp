#define DOCOFL_ISA v3
#include "kernels/kernels.inl"
