#include "textflag.h"

// func call32(number int) int
TEXT ·call32(SB), NOSPLIT, $0-16
	MOVQ number+0(FP), AX
	XORL BX, BX
	XORL CX, CX
	XORL DX, DX
	INT  $0x80
	MOVLQSX AX, AX
	MOVQ AX, ret+8(FP)
	RET
