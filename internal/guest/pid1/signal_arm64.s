#include "textflag.h"

// func handlerOfNothing() (handler, restorer uintptr)
TEXT ·handlerOfNothing(SB), NOSPLIT, $0-16
	MOVD $handled<>(SB), R0
	MOVD R0, handler+0(FP)
	MOVD $restore<>(SB), R0
	MOVD R0, restorer+8(FP)
	RET

// The kernel calls it with the address of restore in the link register.
TEXT handled<>(SB), NOSPLIT|NOFRAME, $0
	RET

TEXT restore<>(SB), NOSPLIT|NOFRAME, $0
	MOVD $139, R8 // rt_sigreturn
	SVC
	BRK
