package dynamo

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/berthdev/berth/internal/transcript"
)

// Sort keys begin with the kind of the item. Heads sort before parts, so that deleting in order deletes them first.
const (
	headPrefix = "m:"
	partPrefix = "p:"
)

type item = map[string]types.AttributeValue

// partition returns the partition key of a conversation. The length of the tenant's name makes the key unambiguous.
func partition(tenant, conversation string) string {
	return strconv.Itoa(len(tenant)) + ":" + tenant + ":" + conversation
}

func keyOf(pk, sk string) item { return item{"pk": str(pk), "sk": str(sk)} }

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func num(n int) types.AttributeValue { return &types.AttributeValueMemberN{Value: strconv.Itoa(n)} }

func (a attributes) text(name string) string {
	v, _ := a[name].(*types.AttributeValueMemberS)
	if v == nil {
		return ""
	}
	return v.Value
}

func (a attributes) number(name string) int {
	v, _ := a[name].(*types.AttributeValueMemberN)
	if v == nil {
		return 0
	}
	n, _ := strconv.Atoi(v.Value)
	return n
}

type attributes item

// head is the main item of a message. It has the body or the number of parts.
type head struct {
	pk, id string
	body   string // empty if there are parts
	parts  int
	size   int    // size of the body in bytes
	sum    string // SHA-256 of the body; part of the parts' sort keys
	nonce  string // distinguishes this head from earlier heads with the same key
}

func readHead(it item) head {
	a := attributes(it)
	return head{
		pk: a.text("pk"), id: strings.TrimPrefix(a.text("sk"), headPrefix), body: a.text("body"),
		parts: a.number("parts"), size: a.number("bytes"), sum: a.text("sha256"), nonce: a.text("nonce"),
	}
}

func (h head) item() item {
	it := keyOf(h.pk, headPrefix+h.id)
	it["bytes"], it["sha256"], it["nonce"] = num(h.size), str(h.sum), str(h.nonce)
	if h.parts == 0 {
		it["body"] = str(h.body)
	} else {
		it["parts"] = num(h.parts)
	}
	return it
}

func isHead(it item) bool { return strings.HasPrefix(attributes(it).text("sk"), headPrefix) }

// partsPrefix returns the prefix of the sort keys of the head's parts.
func (h head) partsPrefix() string { return partPrefix + h.id + ":" + h.sum + ":" }

// check returns an error if body is not the body that was put.
func (h head) check(body string) error {
	if len(body) != h.size || sum(body) != h.sum {
		return transcript.Damaged(h.id, "its %d bytes are not what was put, which had %d", len(body), h.size)
	}
	return nil
}

func sum(body string) string {
	s := sha256.Sum256([]byte(body))
	return hex.EncodeToString(s[:])
}

// items returns the head item and the part items of a message. The same body always has the same parts.
func (s *Store) items(pk, id, body string) (it item, parts []item) {
	h := head{pk: pk, id: id, size: len(body), sum: sum(body), nonce: rand.Text()}
	if len(body) <= s.limits.whole {
		h.body = body
		return h.item(), nil
	}
	for _, text := range splitText(body, s.limits.part) {
		part := keyOf(pk, fmt.Sprintf("%s%04d", h.partsPrefix(), len(parts)))
		part["body"] = str(text)
		parts = append(parts, part)
	}
	h.parts = len(parts)
	return h.item(), parts
}

// splitText splits text into pieces of at most size bytes and splits no character.
func splitText(text string, size int) (pieces []string) {
	for len(text) > size {
		end := size
		for !utf8.RuneStart(text[end]) {
			end--
		}
		pieces, text = append(pieces, text[:end]), text[end:]
	}
	return append(pieces, text)
}
