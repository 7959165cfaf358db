package cli

import (
	"runtime"
	"runtime/debug"
	"sync"
)

// relaxed is how much the collector lets the heap grow at first, in hundredths of what it does otherwise:
// most syncs are over before it has 32 MiB, and then nothing has to be collected at all.
const relaxed = 800

// relax lets the collector begin later. Once it has begun, it works as it always does.
var relax = sync.OnceFunc(func() {
	usual := debug.SetGCPercent(relaxed)
	runtime.AddCleanup(new([16]byte), func(usual int) { debug.SetGCPercent(usual) }, usual)
})
