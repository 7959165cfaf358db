package pgtest

import (
	"errors"
	"fmt"
	"os/exec"
	"sync"
)

// guard is a shell process that reads a pipe from this process. When this process ends, also by kill -9, the kernel
// closes the pipe; the shell then stops the server and removes its folder.
type guard struct {
	// finish closes the pipe and waits until the guard has stopped the server and removed the folder. A second call
	// returns the same result.
	finish func() error
}

// guardScript waits for the end of its input. It then stops the server and removes its folder. The second rm is needed
// if initdb was still writing during the first.
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
