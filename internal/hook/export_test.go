package hook

import (
	"testing"
	"time"
)

// Sign is what signs calls, for the published vectors.
var Sign = sign

// SetCallFor changes how long a call may take, for one test.
func SetCallFor(t *testing.T, d time.Duration) {
	before := callTimeout
	callTimeout = d
	t.Cleanup(func() { callTimeout = before })
}
