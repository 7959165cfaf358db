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

// Sort keys begin with the kind of the item. Heads sort before parts, so that whoever deletes in order
// deletes them first.
const (
	headPrefix = "m:"
	partPrefix = "p:"
)

type item = map[string]types.AttributeValue

// partition is the key of a conversation. The length keeps two names from running into each other.
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

// head is the item of a message. It has its body, or says how many parts have it.
type head struct {
	pk, id string
	body   string // if there are no parts
	parts  int
	size   int    // of the body, in bytes
	sum    string // SHA-256 of it, by which parts are named
	nonce  string // tells it from others that stood there before
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

// partsPrefix is what the sort keys of the head's parts begin with.
func (h head) partsPrefix() string { return partPrefix + h.id + ":" + h.sum + ":" }

// check says whether a body is the one that was put.
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

// items is what a message is kept as. Parts are the same ones whenever the same body is put.
func (s *Store) items(pk, id, body string) (it item, parts []item) {
	h := head{pk: pk, id: id, size: len(body), sum: sum(body), nonce: rand.Text()}
	if len(body) <= s.limits.whole {
		h.body = body
		return h.item(), nil
	}
	for _, text := range cut(body, s.limits.part) {
		part := keyOf(pk, fmt.Sprintf("%s%04d", h.partsPrefix(), len(parts)))
		part["body"] = str(text)
		parts = append(parts, part)
	}
	h.parts = len(parts)
	return h.item(), parts
}

// cut splits text into pieces of at most so many bytes, between characters.
func cut(text string, size int) (pieces []string) {
	for len(text) > size {
		end := size
		for !utf8.RuneStart(text[end]) {
			end--
		}
		pieces, text = append(pieces, text[:end]), text[end:]
	}
	return append(pieces, text)
}
