package workspace

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"golang.org/x/sys/unix"
)

// What a restore writes shows that it is not finished until it is: a file that is to replace another has a
// name of its own, and one or a folder that is new has permissions that nobody gives. After a crash the
// next restore removes such files, and finishes such folders; neither is ever saved.
const (
	tempPrefix       = ".berth-tmp-"
	tempDigits       = 16
	unfinishedFile   = unix.S_ISVTX | 0o200
	unfinishedFolder = unix.S_ISVTX | 0o700
)

func tempName() string {
	var id [tempDigits / 2]byte
	_, _ = rand.Read(id[:])
	return tempPrefix + hex.EncodeToString(id[:])
}

// isUpload reports whether a name is that of a file which is being written through the files API: the prefix and
// 26 of a-z and 2-7, as files.IsUpload has it. What a crash leaves of one is never saved, and not restored from
// versions that have it.
func isUpload(name string) bool {
	id, ok := strings.CutPrefix(name, tempPrefix)
	return ok && len(id) == uploadLetters && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

const uploadLetters = 26

// isTemp reports whether a name is one that tempName makes.
func isTemp(name string) bool {
	digits, ok := strings.CutPrefix(name, tempPrefix)
	return ok && len(digits) == tempDigits && strings.Trim(digits, "0123456789abcdef") == ""
}
