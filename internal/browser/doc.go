// Package browser tests the pages of this module in a real browser. It is a module of its
// own for what drives that.
package browser
