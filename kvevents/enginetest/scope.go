package enginetest

// Scope is what else must be equal, besides the tokens, for two prompts to
// share blocks. The zero Scope is the base model, no salt, text only.
type Scope struct {
	Adapter   string // LoRA adapter by name, part of every block's hash; "" is the base model
	AdapterID int    // the engine's own number for it, sent in events as lora_id, not hashed; 0 is none
	Salt      string // cache_salt: part of block 0's hash, and so of every block after it
	Items     []Item // multimodal items, by ascending Offset
}

// Item is one image, clip or other multimodal input of a prompt: the run of
// placeholder tokens that stands for it, and what it contains.
type Item struct {
	ID     string // identifies the content, a digest in a real engine
	Offset int    // first placeholder token, counted from the prompt's start
	Length int    // placeholder tokens
}

// itemsOf yields the items that reach into the given block, with their offset
// from the block's first token; negative when the item began in an earlier one.
func (s *Scope) itemsOf(block, blockTokens int, yield func(id string, offset int)) {
	start := block * blockTokens
	for i := range s.Items {
		it := &s.Items[i]
		if it.Offset < start+blockTokens && start < it.Offset+it.Length {
			yield(it.ID, it.Offset-start)
		}
	}
}
