package workspace

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
)

// The checksums of large files are computed beside each other, and are what they would be alone.
func TestChecksumsOfLargeFilesAtOnce(t *testing.T) {
	var wg sync.WaitGroup
	for i, size := range []int64{fromLanes - 1, fromLanes, fromLanes + 1, fromLanes + 1<<20 + 63, 2 * fromLanes, 0, 1} {
		wg.Go(func() {
			data := make([]byte, size)
			seed := rand.NewChaCha8([32]byte{byte(i)})
			_, _ = seed.Read(data)
			e := Entry{Size: size}
			if err := hashed(&e, bytes.NewReader(data), io.Discard); err != nil {
				t.Error(err)
			}
			if e.Sum.MD5 != md5.Sum(data) || e.Sum.SHA256 != sha256.Sum256(data) {
				t.Errorf("the checksums of %d bytes are wrong", size)
			}
			e.Size++
			if err := hashed(&e, bytes.NewReader(data), io.Discard); err == nil {
				t.Error("a file that shrank was read to its end")
			}
		})
	}
	wg.Wait()
}
