package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestATellerSaysWhenItSpoke(t *testing.T) {
	var out bytes.Buffer
	before := time.Now()
	if code := tell(strings.NewReader(story{Every: time.Millisecond, Lines: 3, Until: before.Add(time.Hour).UnixNano()}.String()), &out); code != 0 {
		t.Fatal(code)
	}
	var n int
	for line := range bytes.Lines(out.Bytes()) {
		if at, ok := told(line); ok {
			n++
			if at.Before(before) || at.After(time.Now()) {
				t.Errorf("it says %s", at)
			}
		}
	}
	if n != 3 {
		t.Errorf("%d lines say when they were written:\n%s", n, out.String())
	}
	if tell(strings.NewReader("?"), &out) == 0 {
		t.Error("a story that is none was told")
	}
}
