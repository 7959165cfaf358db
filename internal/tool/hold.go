package tool

import (
	"context"
	"sync"
	"time"
)

// holdAfter is how long a command runs before its sandbox is held for it: most are done sooner, and using
// a sandbox keeps its timers away for longer than this.
const holdAfter = 5 * time.Second

// holdLate holds the sandbox once the work takes long, until the func it returns is called.
func holdLate(ctx context.Context, box Box) (done func()) {
	var mu sync.Mutex
	over, release := false, func() {}
	timer := time.AfterFunc(holdAfter, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			release = box.Hold(ctx, "exec")
		}
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
		release()
	}
}
