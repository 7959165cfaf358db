package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// maxAnswerBytes is the number of bytes of an answer that are read.
const maxAnswerBytes = 64 << 10

// answer is the JSON answer of a command or a webhook.
type answer struct {
	Metadata map[string]string  // for the sandbox
	Stats    map[string]float64 // for the conversation
}

// readAnswer finds an answer in a text: a JSON object with "metadata", "stats" or both, which is the whole text or
// its last line. For any other text found is false, without an error.
func readAnswer(text []byte) (a answer, found bool, err error) {
	text = bytes.TrimSpace(text)
	for _, part := range [][]byte{text, text[bytes.LastIndexByte(text, '\n')+1:]} {
		var fields map[string]json.RawMessage
		if len(part) == 0 || part[0] != '{' || json.Unmarshal(part, &fields) != nil {
			continue
		}
		metadata, hasMetadata := fields["metadata"]
		stats, hasStats := fields["stats"]
		if hasMetadata && json.Unmarshal(metadata, &a.Metadata) != nil {
			return a, true, errors.New("read its answer: metadata is not an object of strings")
		}
		if hasStats && json.Unmarshal(stats, &a.Stats) != nil {
			return a, true, errors.New("read its answer: stats is not an object of numbers")
		}
		return a, hasMetadata || hasStats, nil
	}
	return a, false, nil
}

// accept applies the answer in the text, if there is one. If a value is not valid, it applies nothing and returns
// an error.
func (d *Data) accept(text []byte) error {
	a, found, err := readAnswer(text)
	if err != nil || !found {
		return err
	}
	next := *d
	for _, key := range slices.Sorted(maps.Keys(a.Metadata)) {
		if err := next.SetMetadata(key, a.Metadata[key]); err != nil {
			return fmt.Errorf("take its answer: %w", err)
		}
	}
	if len(a.Stats) > 0 && d.ConversationID == "" {
		return errors.New("take its answer: it sets stats, and there is no conversation that they are of")
	}
	for _, key := range slices.Sorted(maps.Keys(a.Stats)) {
		if err := next.SetStat(key, a.Stats[key]); err != nil {
			return fmt.Errorf("take its answer: %w", err)
		}
	}
	d.metadata, d.stats = next.metadata, next.stats
	return nil
}
