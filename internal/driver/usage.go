package driver

import (
	"context"
	"time"
)

// Usage is the use of resources by a running instance.
type Usage struct {
	MemoryBytes int64 // without the page cache that the kernel can drop
	MemoryLimit int64 // 0: none
	CPU         time.Duration
	Processes   int64
	Frozen      bool
	OOMKills    int64 // processes that the kernel's OOM killer has ended since the start
}

// Meter is a driver that can measure the use of resources by an instance.
type Meter interface {
	// Usage measures a running or frozen instance. It returns ErrNotRunning for a stopped one.
	Usage(ctx context.Context, id ID) (Usage, error)
}
