package pgtest

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"
)

// Dump returns the output of pg_dump for the database.
func Dump(t testing.TB, url string) []byte {
	t.Helper()
	c, err := sharedCluster()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(c.bin, "pg_dump"), "--dbname="+url)
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		t.Fatalf("pg_dump: %v\n%s", err, words.Bytes())
	}
	return out.Bytes()
}
