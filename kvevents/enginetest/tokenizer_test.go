package enginetest_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/kvevents/enginetest"
)

func FuzzTokenize(f *testing.F) {
	for _, s := range []string{"", " ", "a", "hello world", "  two\n\nlines\t", "日本語 \xff\xfe", "<|im_start|>"} {
		f.Add(s, " and more")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		tokens := enginetest.Tokenize(a)
		back, err := enginetest.Detokenize(tokens)
		require.NoError(t, err)
		require.Equal(t, a, back)
		b = " " + b
		require.Equal(t, append(tokens, enginetest.Tokenize(b)...), enginetest.Tokenize(a+b))
	})
}

func TestDetokenizeUnknown(t *testing.T) {
	for _, id := range []uint32{0, 3, 255, 1 << 30} {
		_, err := enginetest.Detokenize([]uint32{id})
		require.ErrorIs(t, err, enginetest.ErrToken)
	}
}

func TestChatTemplateIsPrefixStable(t *testing.T) {
	chat := []enginetest.Message{{Role: "system", Content: "be brief"}, {Role: "user", Content: "hi"}}
	before := enginetest.TokenizeChat(chat, true)
	for _, reply := range []string{" ab cd", "", "no space first"} {
		after := enginetest.TokenizeChat(slices.Concat(chat, []enginetest.Message{
			{Role: "assistant", Content: reply},
			{Role: "user", Content: "more"},
		}), true)
		begin := slices.Concat(before, enginetest.Tokenize(reply))
		require.Equal(t, begin, after[:len(begin)])
	}
}
