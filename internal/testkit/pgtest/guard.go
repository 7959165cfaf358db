package pgtest

import (
	"errors"
	"fmt"
	"os/exec"
	"sync"
)

// guard is a small shell that waits for the end of a pipe from this process. However the process
// ends, the kernel closes the pipe, and the shell stops the server and removes its folder.
type guard struct {
	// finish lets the guard do its work now and waits for it. A second call changes nothing.
	finish func() error
}

// The second rm is for an initdb that was still writing during the first one.
const guardScript = `
cat >/dev/null
"$1/pg_ctl" stop --pgdata="$2/data" --mode=immediate --wait --timeout=10 >/dev/null 2>&1
cd /
rm -rf "$2" 2>/dev/null || { sleep 3; rm -rf "$2"; }
`

func (c *Cluster) startGuard() (*guard, error) {
	cmd := c.as(exec.Command("/bin/sh", "-c", guardScript, "guard", c.bin, c.dir))
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start guard of postgres: %w", err)
	}
	return &guard{finish: sync.OnceValue(func() error {
		if err := errors.Join(pipe.Close(), cmd.Wait()); err != nil {
			return fmt.Errorf("remove files of postgres: %w", err)
		}
		return nil
	})}, nil
}
