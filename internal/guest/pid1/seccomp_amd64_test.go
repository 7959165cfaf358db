package pid1

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestFilterHere(t *testing.T) {
	p := filterProgram()
	if got := eval(t, p, auditArch, unix.SYS_READ|1<<30); got != actMissing {
		t.Errorf("an x32 call: %#x", got)
	}
	if got := eval(t, p, auditArch, unix.SYS_MKNOD, 0, unix.S_IFCHR); got != actRefuse {
		t.Errorf("mknod of a device: %#x", got)
	}
	if got := eval(t, p, auditArch, unix.SYS_MKNOD, 0, unix.S_IFIFO); got != actAllow {
		t.Errorf("mknod of a FIFO: %#x", got)
	}
}
