package httpapi

import (
	"context"
	"os"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/sandbox"
)

// dirHandle is a handle of which only the files are there.
type dirHandle struct {
	Handle
	at map[string]string
}

func (dirHandle) Sandbox(context.Context) (sandbox.Sandbox, error) {
	return sandbox.Sandbox{State: sandbox.Running}, nil
}

func (dirHandle) Frozen(context.Context) bool { return false }

func (h dirHandle) Files(_ context.Context, root string) (files.FS, error) {
	if h.at[root] == "" {
		return nil, sandbox.Errorf("open files", api.CodeNotRunning, "it has no instance")
	}
	dir, err := os.Open(h.at[root])
	if err != nil {
		return nil, err
	}
	return files.NewDir(dir, files.Owner{})
}
