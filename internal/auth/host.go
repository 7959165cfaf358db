package auth

import (
	"crypto/rand"
	"os"
	"strings"
)

// LoadHost names the machine that keeps the data directory: what a local sandbox is pinned to. The name
// is made once, from the machine's own and a few random letters, and kept: a machine that is renamed
// still has its sandboxes, and another one of the same name does not.
func LoadHost(dataDir string) (string, error) {
	name, _, err := keep(dataDir, HostFile, freshHost)
	if err != nil {
		return "", keepError("name this machine", dataDir, err)
	}
	return name, nil
}

func freshHost() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "machine"
	}
	return name + "-" + strings.ToLower(rand.Text()[:6])
}
