package httpapi

import (
	"context"
	"os"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/files"
)

// dirDriver is the fake driver whose instances have their files in directories of this machine, by root.
type dirDriver struct {
	*fake.Driver
	at *map[string]string
}

func (d dirDriver) Files(_ context.Context, _ driver.ID, root string) (files.FS, error) {
	if (*d.at)[root] == "" {
		return nil, driver.ErrNotFound
	}
	dir, err := os.Open((*d.at)[root])
	if err != nil {
		return nil, err
	}
	return files.NewDir(dir, files.Owner{})
}
