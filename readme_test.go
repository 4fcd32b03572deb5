package warmroute_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The Go code that README shows is that of examples which run as tests: each block is
// announced by a comment that names its file, and stands there to the letter, apart from
// white space.
func TestReadmeCodeIsTested(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)(?:<!-- from (\\S+) -->\n\n)?```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		file, code := b[1], b[2]
		require.NotEmpty(t, file, "a block of Go without a source:\n%s", code)
		source, err := os.ReadFile(filepath.FromSlash(file))
		require.NoError(t, err)
		require.Contains(t, squeeze(string(source)), squeeze(code), "README shows code that is not in %s", file)
	}
}

// squeeze also drops what is said to the linter only.
func squeeze(s string) string {
	lines := strings.Split(regexp.MustCompile(`//nolint:\S+ `).ReplaceAllString(s, ""), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
