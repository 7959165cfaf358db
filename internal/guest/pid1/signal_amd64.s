#include "textflag.h"

// func handlerOfNothing() (handler, restorer uintptr)
TEXT ·handlerOfNothing(SB), NOSPLIT, $0-16
	LEAQ handled<>(SB), AX
	MOVQ AX, handler+0(FP)
	LEAQ restore<>(SB), AX
	MOVQ AX, restorer+8(FP)
	RET

// The kernel calls it with the address of restore on the stack.
TEXT handled<>(SB), NOSPLIT|NOFRAME, $0
	RET

TEXT restore<>(SB), NOSPLIT|NOFRAME, $0
	MOVQ $15, AX // rt_sigreturn
	SYSCALL
	INT $3
