package cli

import (
	"bytes"
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

// detachKeys is what is typed one after the other to leave a terminal; empty: nothing does.
type detachKeys []byte

var defaultDetachKeys = detachKeys{ctrl('p'), ctrl('q')}

func ctrl(letter byte) byte { return letter & 0x1f }

// flag adds --detach-keys.
func (k *detachKeys) flag(cmd *cobra.Command) {
	cmd.Flags().Var(k, "detach-keys", "`KEYS` that leave a terminal and keep it running; none: no keys do")
	offer(cmd, "detach-keys", []string{"none"})
}

// String, Set and Type make it a flag's value.
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

// Set takes what a person wrote.
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

// Type names the kind of value.
func (k *detachKeys) Type() string { return "keys" }

// detector finds the keys in what is typed.
type detector struct {
	keys detachKeys
	held int // how many of them were typed and are kept back
}

// pass returns what is to be sent on, and whether the keys were typed to their end. What looks like
// their beginning is kept back until it is clear.
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

// release lets go of the first of the keys that are kept back, and of all up to where they could be the
// beginning again.
func (d *detector) release() []byte {
	kept := d.keys[:d.held]
	for n := 1; n <= len(kept); n++ {
		if bytes.HasPrefix(d.keys, kept[n:]) {
			d.held -= n
			return kept[:n]
		}
	}
	return nil // not reached: nothing is always a beginning
}
