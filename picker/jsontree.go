package picker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrPolicy means that a declared policy is refused. The message says where it is wrong.
var ErrPolicy = errors.New("picker: policy refused")

// node is a JSON value that remembers where it is written: encoding/json alone says
// neither that a field occurs twice nor where an unknown one is.
type node struct {
	kind   nodeKind
	source []byte
	offset int
	path   string

	fields map[string]*node
	order  []string
	items  []*node
	text   string
	number float64
}

type nodeKind string

const (
	jsonObject nodeKind = "an object"
	jsonList   nodeKind = "a list"
	jsonString nodeKind = "a string"
	jsonNumber nodeKind = "a number"
	jsonOther  nodeKind = "true, false or null"
)

// maxDepth is deeper than any policy.
const maxDepth = 8

// errorf is an error about n, with its place.
func (n *node) errorf(format string, args ...any) error {
	before := n.source[:min(n.offset, len(n.source))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	where := fmt.Sprintf("%d:%d", line, column)
	if n.path != "" {
		where += ": " + n.path
	}
	return fmt.Errorf("%w: %s "+format, append([]any{ErrPolicy, where}, args...)...)
}

// parseTree reads one JSON value.
func parseTree(source []byte) (*node, error) {
	dec := json.NewDecoder(bytes.NewReader(source))
	root, err := parseNode(dec, source, "", 0)
	if err != nil {
		return nil, err
	}
	end := &node{source: source, offset: next(dec, source)}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, end.errorf("has something after the policy")
	}
	return root, nil
}

// next is where the next token begins.
func next(dec *json.Decoder, source []byte) int {
	at := int(dec.InputOffset())
	for at < len(source) && strings.IndexByte(" \t\r\n:,", source[at]) >= 0 {
		at++
	}
	return at
}

func parseNode(dec *json.Decoder, source []byte, path string, depth int) (*node, error) {
	n := &node{source: source, path: path, offset: next(dec, source)}
	if depth > maxDepth {
		return nil, n.errorf("is nested more than %d deep", maxDepth)
	}
	token, err := dec.Token()
	if err != nil {
		return nil, n.errorf("is not JSON: %w", err)
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			n.kind, n.fields = jsonObject, map[string]*node{}
		} else {
			n.kind = jsonList
		}
		for dec.More() {
			if err := n.parseChild(dec, depth); err != nil {
				return nil, err
			}
		}
		if _, err := dec.Token(); err != nil {
			return nil, n.errorf("is not JSON: %w", err)
		}
	case string:
		n.kind, n.text = jsonString, v
	case float64:
		n.kind, n.number = jsonNumber, v
	default:
		n.kind = jsonOther
	}
	return n, nil
}

// parseChild reads a field or an item of n.
func (n *node) parseChild(dec *json.Decoder, depth int) error {
	if n.kind == jsonList {
		child, err := parseNode(dec, n.source, fmt.Sprintf("%s[%d]", n.path, len(n.items)), depth+1)
		n.items = append(n.items, child)
		return err
	}
	at := next(dec, n.source)
	token, err := dec.Token()
	key, ok := token.(string)
	if err != nil || !ok {
		return (&node{source: n.source, path: n.path, offset: at}).errorf("is not JSON: a field has no name")
	}
	path := key
	if n.path != "" {
		path = n.path + "." + key
	}
	child, err := parseNode(dec, n.source, path, depth+1)
	if err != nil {
		return err
	}
	if n.fields[key] != nil {
		return child.errorf("is given twice")
	}
	n.fields[key] = child
	n.order = append(n.order, key)
	return nil
}
