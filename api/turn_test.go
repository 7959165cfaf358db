package api

import "testing"

func TestEventIDs(t *testing.T) {
	if turn, seq, err := ParseEventID(EventID("01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10", 7)); turn != "01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10" || seq != 7 || err != nil {
		t.Errorf("%q, %d, %v", turn, seq, err)
	}
	for _, bad := range []string{"", ".", "a", "a.", ".1", "a.b", "a.-1", "a.01", "a.+1", "a.1.2", "a.9223372036854775808", "a. 1"} {
		if turn, seq, err := ParseEventID(bad); err == nil {
			t.Errorf("%q is event %d of turn %q", bad, seq, turn)
		}
	}
}
