package workspace

import (
	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

func tooLarge(format string, args ...any) error {
	return sandbox.Errorf("save workspace", api.CodeWorkspaceTooLarge, format, args...)
}
