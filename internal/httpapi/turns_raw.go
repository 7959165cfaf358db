package httpapi

import "bytes"

var rawField = []byte(`,"raw":`)

// withoutRaw is an event as it is stored without what the agent itself wrote: what stands before that and what
// behind. Nothing is decoded, as every reader of every event comes by here. What does not look like an event is
// left as it is.
func withoutRaw(data []byte) (head, tail []byte) {
	if !bytes.Contains(data, rawField) || data[0] != '{' {
		return data, nil
	}
	begin := 0
	for !bytes.HasPrefix(data[begin:], rawField) {
		if begin = endOfMember(data, begin+1); begin == len(data) || data[begin] != ',' {
			return data, nil
		}
	}
	end := endOfMember(data, begin+len(rawField))
	if end == len(data) || data[end] == ']' {
		return data, nil
	}
	return data[:begin], data[end:]
}

// endOfMember is where the member of an object ends that has some of it at the place, outside of texts: the
// comma or the bracket behind it, or the end of the data.
func endOfMember(data []byte, at int) int {
	for depth := 0; at < len(data); at++ {
		switch data[at] {
		case '"':
			at = endOfText(data, at)
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return at
			}
		case ',':
			if depth == 0 {
				return at
			}
		}
	}
	return len(data)
}

// endOfText is where the quote is that ends the text that begins at the place, or the end of the data.
func endOfText(data []byte, at int) int {
	for at++; ; at++ {
		next := bytes.IndexByte(data[at:], '"')
		if next < 0 {
			return len(data)
		}
		slashes := 0
		for at += next; data[at-slashes-1] == '\\'; slashes++ {
		}
		if slashes%2 == 0 {
			return at
		}
	}
}
