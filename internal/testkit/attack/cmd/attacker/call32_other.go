//go:build !amd64

package main

import "os"

// call32 has no other entry to use here, so there is nothing to be stopped.
func call32(int) int { return os.Getpid() }
