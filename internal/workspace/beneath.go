//go:build !seeded_followlinks

package workspace

import "golang.org/x/sys/unix"

// beneath is how every path is resolved: below the root, without links, on one file system.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV
