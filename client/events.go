package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// eventReader takes server-sent events apart: lines of "field: value", an empty one after each event.
type eventReader struct {
	lines *bufio.Reader
	most  int64 // bytes of one event
}

func newEventReader(r io.Reader, most int64) *eventReader {
	return &eventReader{bufio.NewReaderSize(r, 64<<10), most}
}

// next reads the next event that has data, and returns its id. It calls heard for every line.
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
		case int64(len(data)) > r.most:
			return "", fmt.Errorf("an event is larger than %d bytes", r.most)
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

// line reads one line without its end.
func (r *eventReader) line() ([]byte, error) {
	var line []byte
	for {
		piece, err := r.lines.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case err == bufio.ErrBufferFull && int64(len(line)) <= r.most:
			continue
		case err == bufio.ErrBufferFull:
			return nil, fmt.Errorf("a line is longer than %d bytes", r.most)
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}
