package pid1

import "testing"

// ServeForTest serves within the test's process, and says in which directory.
func ServeForTest(t testing.TB) (dir string) {
	t.Helper()
	_, dir = serve(t)
	return dir
}
