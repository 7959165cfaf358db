// Package pgtest runs a private PostgreSQL server for tests.
//
//   - [New] gives a test a database of its own on a server that all tests of the process share.
//   - [NewTemplate] prepares a database once (migrations, rows) and clones it for every test.
//   - [Main] stops the shared server at the end of TestMain; a process that ends without it, by
//     kill -9 even, leaves no server and no file behind.
//   - [Start] makes a server that a test stops and starts itself.
//
// A machine without PostgreSQL fails the test and says what to install; it never skips it. As root
// the server runs under the account postgres or nobody, because PostgreSQL refuses to run as root.
package pgtest
