package preview

import (
	"fmt"
	"testing"
)

func TestListeningPorts(t *testing.T) {
	table := `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2
   2: 0100007F:1F40 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 3
   3: 00000000000000000000000000000000:1F40 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4
   4: zz:zz 0A
`
	if got := fmt.Sprint(Listeners(table)); got != "[127.0.0.1:80 0.0.0.0:8000]" {
		t.Error(got)
	}
}
