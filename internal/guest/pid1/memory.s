// Package pid1 declares functions without a body, which the compiler accepts where there is assembly.
