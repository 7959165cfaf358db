package chat

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

// maxAttachments limits the files of a prompt together, in bytes. It protects this machine's memory; the server has its
// own limits, which may be lower.
const maxAttachments = 256 << 20

const copyHint = "'berth cp' brings files of any size and folders into a sandbox; the prompt can name them."

// readAttachments reads the files to send with a prompt.
func readAttachments(paths []string) (files []api.PromptFile, err error) {
	left := int64(maxAttachments)
	for _, path := range paths {
		data, err := readAttachment(path, left)
		if err != nil {
			return nil, err
		}
		left -= int64(len(data))
		files = append(files, api.PromptFile{Name: filepath.Base(path), Data: data})
	}
	return files, nil
}

func readAttachment(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ui.Usage(fmt.Sprintf("there is no file %s", path), "Check the path behind --file.")
	case err != nil:
		return nil, fmt.Errorf("attach file: %w", err)
	case info.IsDir():
		return nil, ui.Usage(path+" is a folder, and only files can be attached", copyHint)
	case !info.Mode().IsRegular():
		return nil, ui.Usage(path+" is not a regular file", "Write what it gives into a file first.")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("attach file: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("attach file: %w", err)
	case int64(len(data)) > most:
		return nil, ui.Usage(fmt.Sprintf("the files have more than %s together", ui.Size(maxAttachments)), copyHint)
	}
	return data, nil
}
