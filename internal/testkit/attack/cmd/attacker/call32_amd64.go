package main

// call32 makes a system call without arguments through the entry for 32-bit programs.
func call32(number int) int
