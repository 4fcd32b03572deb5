// Package oracle compares this library with others that do part of the same work, and
// its concurrent answers with a model, by a checker of linearizability. It is a module
// of its own so that nothing depends on them; all of it is in tests.
package oracle
