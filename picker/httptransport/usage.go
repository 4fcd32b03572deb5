package httptransport

// usage looks in a reply, as it streams past, for usage.prompt_tokens_details.cached_tokens,
// as chats and completions have it, or usage.input_tokens_details.cached_tokens, as
// responses have it; in a stream of those, in the object response. Anything else it
// skips, malformed or not. Its memory is constant.
type usage struct {
	stream bool // server-sent events, a line each; else one JSON value

	cached   int64 // the last number seen
	known    bool
	complete bool // the answer has ended, if not the body
	begun    bool // the first token was seen

	// Of a stream: the part of the line that is being read, and the event it is of.
	part  part
	event word

	// Of the JSON value that is being read.
	depth    int
	path     [4]key // under which keys the containers stand
	key      key    // of the value that comes
	last     key    // the last string, which is a key if a colon follows
	inString bool
	escaped  bool
	word     word
	number   int64
	digits   int
}

// part is a part of a line of an event stream.
type part uint8

const (
	partName part = iota // the field's name, up to the colon
	partEvent
	partData  // before its first character
	partValue // the data
	partRest  // of no interest
)

type key uint8

const (
	keyOther key = iota
	keyResponse
	keyUsage
	keyDetails
	keyCached
)

// word is a short string; of longer ones, it is known that they are.
type word struct {
	text [24]byte
	n    int
}

func (w *word) add(c byte) {
	if w.n < len(w.text) {
		w.text[w.n] = c
	}
	w.n++
}

func (w *word) bytes() []byte {
	if w.n > len(w.text) {
		return nil
	}
	return w.text[:w.n]
}

// read takes the next bytes. It reports whether they hold the first token of a stream.
//
// O(bytes), no allocation.
func (u *usage) read(p []byte) (first bool) {
	before := u.begun
	for _, c := range p {
		if u.stream {
			u.line(c)
			continue
		}
		u.json(c)
		u.complete = u.complete || c == '}' && u.depth == 0 && !u.inString
	}
	return u.begun && !before
}

// line takes the next byte of an event stream.
func (u *usage) line(c byte) {
	switch c {
	case '\r':
		return // before a line feed
	case '\n':
		if u.part == partName && u.word.n == 0 {
			u.event.n = 0 // an empty line ends the event
		}
		u.resetJSON()
		u.part, u.word.n = partName, 0
		return
	}
	switch u.part {
	case partName:
		if c != ':' {
			u.word.add(c)
			return
		}
		switch string(u.word.bytes()) {
		case "data":
			u.part = partData
		case "event":
			u.part, u.event.n = partEvent, 0
		default:
			u.part = partRest
		}
		u.word.n = 0
	case partEvent:
		if c != ' ' {
			u.event.add(c)
		}
	case partData:
		if c == ' ' {
			return
		}
		u.part = partValue
		u.data(c)
		u.json(c)
	case partValue:
		u.json(c)
	case partRest:
	}
}

// data takes the first byte of an event's data.
func (u *usage) data(c byte) {
	switch string(u.event.bytes()) {
	case "response.created", "response.queued", "response.in_progress":
		return // sent before anything is computed
	case "response.completed", "response.incomplete", "response.failed":
		u.complete = true
	}
	if c == '[' { // of [DONE]
		u.complete = true
	} else {
		u.begun = true
	}
}

func (u *usage) resetJSON() {
	u.depth, u.key, u.last, u.inString, u.escaped = 0, keyOther, keyOther, false, false
	u.digits, u.number = 0, 0
}

// json takes the next byte of a JSON value.
func (u *usage) json(c byte) {
	if u.inString {
		switch {
		case u.escaped:
			u.escaped = false
			u.word.n = len(u.word.text) + 1 // none of the wanted has escapes
		case c == '\\':
			u.escaped = true
		case c == '"':
			u.inString = false
			u.last = keyOf(u.word.bytes())
		default:
			u.word.add(c)
		}
		return
	}
	switch c {
	case '"':
		u.inString, u.word.n = true, 0
	case ':':
		u.key = u.last
	case '{', '[':
		if u.depth < len(u.path) {
			u.path[u.depth] = u.key
		}
		u.depth++
		u.key, u.last = keyOther, keyOther
	case ',', '}', ']':
		if u.digits > 0 && u.digits < 16 {
			u.cached, u.known = u.number, true
		}
		u.key, u.last, u.digits, u.number = keyOther, keyOther, 0, 0
		if c != ',' && u.depth > 0 {
			u.depth--
		}
	case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if u.key == keyCached && u.wanted() {
			u.digits++
			if u.digits < 16 {
				u.number = u.number*10 + int64(c-'0')
			}
		}
	case ' ', '\t', '\n', '\r':
	default:
		u.key, u.digits = keyOther, 16 // no number, or none of tokens
	}
}

// wanted reports whether a key here would be one of the details.
func (u *usage) wanted() bool {
	switch u.depth {
	case 3:
		return u.path[1] == keyUsage && u.path[2] == keyDetails
	case 4:
		return u.path[1] == keyResponse && u.path[2] == keyUsage && u.path[3] == keyDetails
	default:
		return false
	}
}

func keyOf(word []byte) key {
	switch string(word) {
	case "response":
		return keyResponse
	case "usage":
		return keyUsage
	case "prompt_tokens_details", "input_tokens_details":
		return keyDetails
	case "cached_tokens":
		return keyCached
	default:
		return keyOther
	}
}
