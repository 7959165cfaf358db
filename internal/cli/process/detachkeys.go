package process

import (
	"bytes"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
)

// detachKeys is the sequence of keys that detaches from a terminal; empty: none.
type detachKeys []byte

var defaultDetachKeys = detachKeys{ctrl('p'), ctrl('q')}

func ctrl(letter byte) byte { return letter & 0x1f }

// flag adds the flag --detach-keys.
func (k *detachKeys) flag(cmd *cobra.Command) {
	cmd.Flags().Var(k, "detach-keys", "`KEYS` that leave a terminal and keep it running; none: no keys do")
	ui.Offer(cmd, "detach-keys", []string{"none"})
}

// String returns the keys in the form of the flag.
func (k *detachKeys) String() string {
	if len(*k) == 0 {
		return "none"
	}
	var names []string
	for _, b := range *k {
		name := string(b)
		if b < ' ' {
			name = "ctrl-" + strings.ToLower(string(b|0x40))
		}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}

// Set parses the value of the flag.
func (k *detachKeys) Set(text string) error {
	var keys detachKeys
	for name := range strings.SplitSeq(text, ",") {
		letter, held := strings.CutPrefix(strings.ToLower(name), "ctrl-")
		switch {
		case text == "none":
		case held && len(letter) == 1 && letter[0] >= 'a' && letter[0] <= 'z':
			keys = append(keys, ctrl(letter[0]))
		case len(name) == 1 && name[0] > ' ' && name[0] < 0x7f:
			keys = append(keys, name[0])
		default:
			return errors.New("it takes keys such as ctrl-p,ctrl-q, or none")
		}
	}
	*k = keys
	return nil
}

// Type returns the name of the value's type.
func (k *detachKeys) Type() string { return "keys" }

// detector finds the detach keys in the keyboard's input.
type detector struct {
	keys detachKeys
	held int // number of detach keys that were typed and not sent on yet
}

// pass returns the input to send on, and whether the detach keys are complete. Input that may be the beginning of the
// detach keys is not sent before more is typed.
func (d *detector) pass(typed []byte) (send []byte, left bool) {
	if len(d.keys) == 0 {
		return typed, false
	}
	for _, b := range typed {
		for d.held > 0 && b != d.keys[d.held] {
			send = append(send, d.release()...)
		}
		if b != d.keys[d.held] {
			send = append(send, b)
			continue
		}
		if d.held++; d.held == len(d.keys) {
			d.held = 0
			return send, true
		}
	}
	return send, false
}

// release returns the held keys that cannot belong to the detach keys any longer. It keeps the longest rest that may be
// their beginning.
func (d *detector) release() []byte {
	kept := d.keys[:d.held]
	for n := 1; n <= len(kept); n++ {
		if bytes.HasPrefix(d.keys, kept[n:]) {
			d.held -= n
			return kept[:n]
		}
	}
	return nil // not reached: the empty rest is always a beginning
}
