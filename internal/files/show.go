package files

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/berthdev/berth/api"
)

// Show converts a file to its form in the API. A byte of its name that is not UTF-8 becomes U+FFFD.
func Show(info Info) api.File {
	return api.File{
		Path: validText(info.Path), Name: validText(path.Base(info.Path)), Type: fileType(info.Mode), Size: info.Size,
		Mode: fmt.Sprintf("%04o", info.Mode.Perm()), ModifiedAt: info.ModTime, Target: validText(info.Target), ETag: `"` + info.Tag + `"`,
	}
}

// ShowTree converts a tree to its form in the API.
func ShowTree(n *Node) api.FileTree {
	out := api.FileTree{File: Show(n.Info), Truncated: n.Truncated}
	for _, child := range n.Children {
		out.Children = append(out.Children, ShowTree(child))
	}
	return out
}

func validText(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

func fileType(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return api.FileRegular
	case fs.ModeDir:
		return api.FileDirectory
	case fs.ModeSymlink:
		return api.FileSymlink
	case fs.ModeNamedPipe:
		return api.FilePipe
	case fs.ModeSocket:
		return api.FileSocket
	}
	return api.FileDevice
}
