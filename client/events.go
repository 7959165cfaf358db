package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// eventReader parses server-sent events: lines of the form "field: value", with an empty line after each event.
type eventReader struct {
	lines    *bufio.Reader
	maxBytes int64 // maximum size of one event in bytes
}

func newEventReader(r io.Reader, maxBytes int64) *eventReader {
	return &eventReader{bufio.NewReaderSize(r, 64<<10), maxBytes}
}

// next decodes the next event that has data, and returns its id. It calls heard for every line.
func (r *eventReader) next(event any, heard func()) (id string, err error) {
	var data []byte
	for {
		line, err := r.line()
		if err != nil {
			return "", err
		}
		heard()
		switch field, value, _ := bytes.Cut(line, []byte(":")); string(field) {
		case "id":
			id = string(bytes.TrimPrefix(value, []byte(" ")))
		case "data":
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
		switch {
		case int64(len(data)) > r.maxBytes:
			return "", fmt.Errorf("an event is larger than %d bytes", r.maxBytes)
		case len(line) > 0:
			continue
		case len(data) == 0:
			id = ""
			continue
		}
		if err := json.Unmarshal(data, event); err != nil {
			return "", fmt.Errorf("an event cannot be read: %w", err)
		}
		return id, nil
	}
}

// line reads one line and removes its line break.
func (r *eventReader) line() ([]byte, error) {
	var line []byte
	for {
		piece, err := r.lines.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case err == bufio.ErrBufferFull && int64(len(line)) <= r.maxBytes:
			continue
		case err == bufio.ErrBufferFull:
			return nil, fmt.Errorf("a line is longer than %d bytes", r.maxBytes)
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}
