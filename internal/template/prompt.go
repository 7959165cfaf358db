package template

import (
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// checkPrompt checks that the file with the agent's instructions can be read.
func (c *checker) checkPrompt() {
	if c.PromptFile == "" {
		return
	}
	if _, err := ReadPrompt(c.PromptFile); err != nil {
		c.refuse("prompt_file", c.PromptFile, "cannot be used: "+err.Error(), "write the absolute path of a text file on the server's machine")
	}
}

// maxPrompt is the largest size of a file with instructions, in bytes.
const maxPrompt = 64 << 10

// ReadPrompt reads a file with an agent's instructions.
func ReadPrompt(path string) (string, error) {
	const op = "read prompt_file"
	if !filepath.IsAbs(path) {
		return "", fault.Errorf(op, api.CodeInvalidConfig, "%s is no absolute path", path)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fault.Errorf(op, api.CodeInvalidConfig, "%w", err)
	case !info.Mode().IsRegular() || info.Size() > maxPrompt:
		return "", fault.Errorf(op, api.CodeInvalidConfig, "%s is no regular file of at most %d bytes", path, maxPrompt)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fault.Errorf(op, api.CodeInvalidConfig, "%w", err)
	}
	if len(data) > maxPrompt || !utf8.Valid(data) {
		return "", fault.Errorf(op, api.CodeInvalidConfig, "%s is no UTF-8 text of at most %d bytes", path, maxPrompt)
	}
	return string(data), nil
}
